package programs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/batch/chunk"
	"github.com/berth-gpu/berth/internal/batch/remote"
	"github.com/berth-gpu/berth/internal/batch/transport"
	"github.com/berth-gpu/berth/internal/batch/wire"
	"github.com/berth-gpu/berth/internal/process/child"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Host is a machine that a batch may use.
type Host struct {
	transport.Way
	Most int // workers at a time; 0 for as many as fit
}

// HostOptions select the machines of a batch.
type HostOptions struct {
	BatchOptions
	Hosts  []Host
	Task   remote.Task   // what the hosts are asked; OpenHosts sets what BatchOptions say
	Files  *remote.Files // that go to the hosts; nil if they are there
	Berth  string        // version of this berth
	Silent time.Duration // a host that is silent for so long is gone

	// Discover returns the hosts that there are now, if they come and go. Nil means that
	// Hosts has all.
	Discover func(ctx context.Context) ([]Host, error)
}

// ParseHosts reads a list of hosts, such as gpu1,gpu2:2,me@gpu3: the name for ssh, and
// how many workers it may have. A single dot is this machine.
func ParseHosts(list []string, way func(host string) transport.Way) ([]Host, error) {
	var hosts []Host
	for _, spec := range list {
		name, most := strings.TrimSpace(spec), 0
		if host, number, found := strings.Cut(name, "]"); found && strings.HasPrefix(host, "[") { // an address of version 6
			name, number, found = host[1:], strings.TrimPrefix(number, ":"), number != ""
			if found {
				most = count(number)
			}
		} else if host, number, found := cutLast(name); found && net.ParseIP(name[strings.LastIndexByte(name, '@')+1:]) == nil {
			name, most = host, count(number)
		}
		switch {
		case name == "" || strings.HasPrefix(name, "-") || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }):
			return nil, fmt.Errorf("%q is not the name of a host: give a name as for ssh, as in gpu1,me@gpu2", spec)
		case most < 0:
			return nil, fmt.Errorf("%q: after the colon stands how many workers the host may have; its port belongs into ~/.ssh/config", spec)
		case slices.ContainsFunc(hosts, func(h Host) bool { return h.Host == name }):
			return nil, fmt.Errorf("%s stands there twice: give it once, with the number of workers after a colon, as in %s:2", name, name)
		}
		hosts = append(hosts, Host{way(name), most})
	}
	return hosts, nil
}

func cutLast(s string) (before, after string, found bool) {
	at := strings.LastIndexByte(s, ':')
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+1:], true
}

// count returns a number of workers, or -1 if it is none.
func count(text string) int {
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= 1024 {
		return n
	}
	return -1
}

// OpenHosts opens a run whose workers are on other machines. The caller must end it with
// Work.
func OpenHosts(ctx context.Context, o HostOptions) (*Batch, error) {
	o.Task.Command, o.Task.Request, o.Task.PerGPU, o.Task.GPUs = o.Command, o.Request, o.PerGPU, o.GPUs
	o.Task.Silence = o.Silent.Seconds()
	if o.Files != nil {
		o.Task.Files = o.Files.Hash
	}
	f := &fleet{o: o, launcher: child.NewLauncher(), grants: make(chan batch.Grant), changed: make(chan struct{})}
	for _, h := range o.Hosts {
		f.hosts = append(f.hosts, &host{Host: h})
	}
	o.Options.Leases, o.Options.Expecting = f, f.expecting
	b := &Batch{pipe: o.Pipe, beside: []func(context.Context){f.run}, bill: f.bill, close: f.launcher.Close}
	var err error
	if b.Run, err = batch.Open(ctx, o.Options); err != nil {
		b.close()
		return nil, err
	}
	b.report = newReporter(f, b.Run, o.Command)
	return b, nil
}

// fleet leases room for workers from the daemons of several machines. It keeps a
// connection to each, and connects again to those that go.
type fleet struct {
	o        HostOptions
	launcher *child.Launcher
	grants   chan batch.Grant // that a host granted and nobody has yet

	mu      sync.Mutex
	hosts   []*host
	changed chan struct{} // closed and replaced when a host comes or goes, or gives a place back
}

// host is a machine of a fleet. The lock of the fleet guards it.
type host struct {
	Host
	session *remote.Session // nil if it is not connected
	was     bool            // it was connected before
	tries   int             // connections in a row that failed
	last    error           // why the last one failed
	lasting bool            // that stays so until somebody changes something
	asking  bool            // a place is asked for
	used    int             // places that workers have
}

const (
	// connectPatience is how long a host may take until it grants places, its files
	// included.
	connectPatience = 30 * time.Second
	// fileBytes is how many bytes of files a host takes in a second at least.
	fileBytes = 1 << 20
	// triesAtFirst is how often a host is tried before the run no longer waits for it, if
	// it has no other.
	triesAtFirst = 5
	// backoff is the pause before a host is tried again; it doubles.
	backoff, longestBackoff = time.Second, 15 * time.Second
	// spare is how long a place is kept that nobody wants any more.
	spare = time.Second
	// endPatience is how long a host may take to end its part of a run.
	endPatience = 5 * time.Second
)

// tell says that something has changed. The caller holds the lock.
func (f *fleet) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// run keeps the connections until ctx ends.
func (f *fleet) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	if f.o.Discover == nil {
		for _, h := range f.hosts {
			all.Go(func() { f.keep(ctx, h) })
		}
		return
	}
	leave := map[string]context.CancelFunc{} // of the hosts that are kept
	told := ""
	for {
		now, err := f.o.Discover(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			f.o.Say("%s", told)
		}
		for _, h := range now {
			if leave[h.Way.Host] != nil {
				continue
			}
			kept, cancel := context.WithCancel(ctx)
			leave[h.Way.Host] = cancel
			one := &host{Host: h}
			f.mu.Lock()
			f.hosts = append(f.hosts, one)
			f.mu.Unlock()
			all.Go(func() { f.keep(kept, one) })
		}
		for name, cancel := range leave {
			if err == nil && !slices.ContainsFunc(now, func(h Host) bool { return h.Way.Host == name }) {
				cancel()
				delete(leave, name)
				f.drop(name)
			}
		}
		select {
		case <-ctx.Done():
			for _, cancel := range leave {
				cancel()
			}
			return
		case <-time.After(discoverEvery):
		}
	}
}

// drop forgets a host that is not there any more.
func (f *fleet) drop(name string) {
	f.mu.Lock()
	var gone *remote.Session
	f.hosts = slices.DeleteFunc(f.hosts, func(h *host) bool {
		if h.Way.Host == name {
			gone = h.session
		}
		return h.Way.Host == name
	})
	f.tell()
	f.mu.Unlock()
	if gone != nil {
		gone.Close(0)
	}
}

// discoverEvery is how often hosts that come and go are looked for.
const discoverEvery = 3 * time.Second

// keep keeps the connection to one host.
func (f *fleet) keep(ctx context.Context, h *host) {
	for {
		session, conn, err := f.connect(ctx, h)
		if ctx.Err() != nil {
			if session != nil {
				f.set(h, session) // bill ends it
			}
			return
		}
		if err == nil {
			f.set(h, session)
			began := time.Now()
			select {
			case <-ctx.Done():
				return
			case <-session.Done():
			}
			if err = session.Err(); !errors.Is(err, wire.ErrSilent) { // ssh knows nothing about that
				err = conn.Why(err)
			}
			f.lost(h, err, time.Since(began) > longestBackoff)
		} else {
			f.failed(h, err)
		}
		f.mu.Lock()
		wait := min(chunk.Backoff(backoff, h.tries), longestBackoff)
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// connect connects to a host and gives it its task.
func (f *fleet) connect(ctx context.Context, h *host) (*remote.Session, *transport.Conn, error) {
	patience := connectPatience
	if f.o.Files != nil {
		patience += time.Duration(f.o.Files.Bytes/fileBytes) * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it was not ready within %s", words.Duration(patience)))
	defer cancel()
	conn, err := transport.Dial(f.launcher, h.Way)
	if err != nil {
		return nil, nil, err
	}
	session, err := remote.Connect(ctx, remote.Pipe{From: conn.From, To: conn.To, Cut: conn.Cut}, remote.Order{
		Host: h.Way.Host, Berth: f.o.Berth, Task: f.o.Task, Files: f.o.Files, Log: f.o.Log, Say: f.o.Say,
	})
	if err == nil {
		return session, conn, nil
	}
	conn.Cut()
	if cause := context.Cause(ctx); cause != nil {
		return nil, nil, cause
	}
	if no := (*remote.Refusal)(nil); errors.As(err, &no) {
		return nil, nil, err
	}
	return nil, nil, conn.Why(err)
}

// set notes that a host is connected.
func (f *fleet) set(h *host, s *remote.Session) {
	f.mu.Lock()
	again := h.was
	h.session, h.was, h.asking, h.used = s, true, false, 0
	f.tell()
	f.mu.Unlock()
	if again {
		f.o.Say("%s is back", h.Way.Host)
	}
}

// lost notes that a connection has ended. One that lasted begins anew with its backoff.
func (f *fleet) lost(h *host, err error, lasted bool) {
	f.mu.Lock()
	if h.tries++; lasted {
		h.tries = 1
	}
	h.session, h.last = nil, err
	f.tell()
	f.mu.Unlock()
	f.o.Say("%s is gone: %s. Its records go to others, and it is tried again", h.Way.Host, sentence(err))
}

// sentence returns what happened to a connection.
func sentence(err error) string {
	if text := err.Error(); text != "EOF" {
		return strings.TrimSuffix(term.Clean(text), ".")
	}
	return "the connection ended"
}

// failed notes that a host could not be connected, and says so once for each reason.
func (f *fleet) failed(h *host, err error) {
	failure, refusal := (*transport.Failure)(nil), (*remote.Refusal)(nil)
	f.mu.Lock()
	known := h.last != nil && h.last.Error() == err.Error()
	h.tries++
	h.last = err
	h.lasting = errors.As(err, &failure) && failure.Lasting || errors.As(err, &refusal) && refusal.Lasting
	f.tell()
	f.mu.Unlock()
	if !known {
		f.o.Say("%s cannot be used: %s. It is tried again", h.Way.Host, sentence(err))
	}
}

// hopeless reports whether the run does not wait for a host. The caller holds the lock.
func (h *host) hopeless() bool {
	return h.session == nil && !h.was && h.tries > 0 && (h.lasting || h.tries >= triesAtFirst)
}

// expecting reports whether a host may come that was never connected.
func (f *fleet) expecting() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.o.Discover != nil && len(f.hosts) == 0 || slices.ContainsFunc(f.hosts, func(h *host) bool { return !h.was && !h.hopeless() })
}

// Acquire asks every host that is connected for a place and returns the first. The others
// may still answer: the next call gets what they grant, if it comes soon.
func (f *fleet) Acquire(ctx context.Context, req batch.WorkerRequest) (batch.Grant, error) {
	refused := map[*host]error{}
	answers := make(chan answer, 64)
	for {
		for len(answers) > 0 { // nobody else reads them
			a := <-answers
			refused[a.host] = a.err
		}
		f.mu.Lock()
		changed := f.changed
		waiting, unborn := false, f.o.Discover != nil && len(f.hosts) == 0
		for _, h := range f.hosts {
			switch {
			case refused[h] != nil || h.hopeless():
				continue
			case h.session != nil && !h.asking && (h.Most == 0 || h.used < h.Most):
				h.asking = true
				go f.ask(ctx, h, h.session, req, answers)
			}
			waiting = true
		}
		f.mu.Unlock()
		if !waiting && !unborn {
			return batch.Grant{}, f.refusal(refused)
		}
		select {
		case g := <-f.grants:
			return g, nil
		case a := <-answers:
			refused[a.host] = a.err
		case <-changed:
		case <-ctx.Done():
			return batch.Grant{}, ctx.Err()
		}
	}
}

// answer is what a host says instead of a grant.
type answer struct {
	host *host
	err  error
}

// refusal sums up why no host has a place.
func (f *fleet) refusal(refused map[*host]error) error {
	var why []string
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.hosts {
		err := refused[h]
		if err == nil {
			err = h.last
		}
		if err != nil {
			why = append(why, h.Way.Host+": "+strings.TrimPrefix(sentence(err), batch.ErrRefused.Error()+": "))
		}
	}
	return fmt.Errorf("%w on any host: %s", batch.ErrRefused, strings.Join(why, "; "))
}

// ask asks a host for a place, until ctx of the run ends.
func (f *fleet) ask(ctx context.Context, h *host, s *remote.Session, req batch.WorkerRequest, refused chan<- answer) {
	g, err := s.Acquire(ctx, req)
	f.mu.Lock()
	if h.session == s {
		h.asking = false
		if err == nil {
			h.used++
		}
	}
	f.mu.Unlock()
	switch {
	case err == nil:
	case errors.Is(err, batch.ErrRefused):
		select {
		case refused <- answer{h, err}:
		case <-ctx.Done():
		}
		f.mu.Lock() // another call than the one that asked may wait for the answer
		f.tell()
		f.mu.Unlock()
		return
	default: // its daemon is away, or the host is: keep says so
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
		}
		f.mu.Lock()
		f.tell()
		f.mu.Unlock()
		return
	}
	release := g.Release
	g.Release = func() {
		release()
		f.mu.Lock()
		defer f.mu.Unlock()
		if h.session == s {
			h.used--
		}
		f.tell()
	}
	select {
	case f.grants <- g:
	case <-time.After(spare):
		g.Release()
	case <-ctx.Done():
		g.Release()
	}
}

// sessions returns the hosts that are connected.
func (f *fleet) sessions() map[string]*remote.Session {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]*remote.Session{}
	for _, h := range f.hosts {
		if h.session != nil {
			all[h.Way.Host] = h.session
		}
	}
	return all
}

// ReportBatch tells each host how far the batch is, with the part of its own GPUs.
func (f *fleet) ReportBatch(_ context.Context, b api.Batch) (api.Batch, error) {
	for name, s := range f.sessions() {
		part := b
		part.GPUs = []api.BatchGPU{}
		for _, g := range b.GPUs {
			if g.Host == name {
				g.Host = ""
				part.GPUs = append(part.GPUs, g)
			}
		}
		s.Report(part)
	}
	return b, nil
}

// bill ends the part of each host, and returns the energy that the workers used.
func (f *fleet) bill(ctx context.Context, b api.Batch) gpu.Opt[gpu.Joules] {
	_, _ = f.ReportBatch(ctx, b) // never fails
	var used gpu.Opt[gpu.Joules]
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, s := range f.sessions() {
		all.Go(func() {
			joules, known := s.Close(endPatience).Get()
			mu.Lock()
			defer mu.Unlock()
			if known {
				used = gpu.Some(used.Or(0) + joules)
			}
		})
	}
	all.Wait()
	return used
}
