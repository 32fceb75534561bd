package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/batch/wire"
)

// Workshop is where workers run on this machine.
type Workshop interface {
	batch.Leaser
	// Start starts the worker of a grant.
	Start(g *batch.Grant, prefix string, env []string) (batch.Process, error)
	// Report tells the daemon how far the batch is.
	Report(b api.Batch)
	// Close ends the workshop, and returns the energy that its workers used, if known.
	Close() gpu.Opt[gpu.Joules]
}

// Site is the machine that Serve serves.
type Site struct {
	Berth string // version of this berth
	Cache string // folder that keeps the files of tasks

	// Open opens a workshop for a task, whose workers run in a folder. A Refusal in its
	// error is told as it stands.
	Open func(ctx context.Context, t Task, folder string, log io.Writer, say func(format string, args ...any)) (Workshop, error)
}

// greetPatience is how long a runner may take to say something after the greeting.
const greetPatience = time.Minute

// leavePatience is how long the end of a session may take.
const leavePatience = 30 * time.Second

// Serve works for the runner at the other end of a pipe, until that is gone.
func Serve(ctx context.Context, from io.Reader, to io.Writer, site Site) error {
	if err := (greeting{site.Berth, newest, oldest}).write(to); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &hands{site: site, ctx: ctx, asks: map[uint32]context.CancelFunc{}, posts: map[uint32]*post{}, bye: make(chan struct{})}
	began := make(chan struct{})
	h.link = wire.New(bufio.NewReader(from), to, greetPatience, func(text []byte) error {
		<-began
		return h.hear(text)
	}, func() {})
	close(began)
	select {
	case <-h.link.Done():
	case <-ctx.Done():
	case <-h.bye:
	}
	cancel()
	left := make(chan struct{})
	go func() {
		defer close(left)
		h.leave()
	}()
	select {
	case <-left:
	case <-time.After(leavePatience): // the pipe takes nothing; what is left ends with this process
	}
	if err := h.link.Err(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("the runner is gone: %w", err)
	}
	return nil
}

// hands is the machine's end of a session.
type hands struct {
	site Site
	ctx  context.Context // of the session
	link *wire.Link
	bye  chan struct{}
	busy sync.WaitGroup // what has to end before the workshop closes

	mu       sync.Mutex
	closed   bool // nothing begins any more
	tasked   bool // the runner has said what to do
	workshop Workshop
	asks     map[uint32]context.CancelFunc
	posts    map[uint32]*post

	report    *api.Batch // newest that was not handed over yet; nil if there is none
	reporting bool       // somebody hands reports over
}

// post is a place that the runner has, and its worker.
type post struct {
	grant    batch.Grant
	process  batch.Process // nil until it is started
	asked    bool          // the runner ended it
	forget   func()        // ends the context of the grant
	released chan struct{}
	ended    chan struct{} // closed when the worker is gone; nil until it is started
}

// leave ends all workers, gives the places back and tells the runner what they used.
func (h *hands) leave() {
	h.mu.Lock()
	h.closed = true
	for id, p := range h.posts {
		h.release(id, p)
	}
	h.mu.Unlock()
	h.busy.Wait() // it may still open
	if h.workshop == nil {
		return
	}
	used := h.workshop.Close()
	if h.link.Say(message{Type: sayBill, Energy: used}) == nil {
		select { // the runner hangs up when it has read it
		case <-h.link.Done():
		case <-time.After(5 * time.Second):
		}
	}
}

// begin does something that has to end before the workshop closes, unless it closes already.
// The caller holds the lock.
func (h *hands) begin(do func()) {
	if !h.closed {
		h.busy.Go(do)
	}
}

func (h *hands) say(m message) { _ = h.link.Say(m) } // a runner that is gone hears nothing

// hear acts on a message of the runner. Nothing here waits.
func (h *hands) hear(text []byte) error {
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("a message that is not JSON: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.Type == sayTask && m.Task != nil && !h.tasked {
		if m.Version < oldest || m.Version > newest {
			return fmt.Errorf("version %d of the protocol: this berth speaks %d to %d", m.Version, oldest, newest)
		}
		h.tasked = true
		h.link.Silence(time.Duration(max(2*m.Task.Silence, 1) * float64(time.Second)))
		files := h.link.Open(streamFiles)
		h.begin(func() { h.open(*m.Task, files) })
		return nil
	}
	if m.Type == sayBye {
		shut(h.bye)
		return nil
	}
	if h.workshop == nil {
		return fmt.Errorf("%q before the task: this is not the protocol", m.Type)
	}
	p := h.posts[m.ID]
	switch {
	case m.Type == sayAcquire:
		ctx, cancel := context.WithCancel(h.ctx)
		h.asks[m.ID] = cancel
		h.begin(func() { h.acquire(ctx, m) })
	case m.Type == sayCancel:
		if cancel := h.asks[m.ID]; cancel != nil {
			cancel()
		}
		if p != nil {
			h.release(m.ID, p)
		}
	case m.Type == sayProgress:
		if h.report = m.Batch; !h.reporting {
			h.begin(h.passReports)
		}
	case p == nil: // it was released
	case m.Type == sayStart && p.ended == nil:
		p.ended = make(chan struct{})
		stream := h.link.Open(m.ID)
		h.begin(func() { h.start(m, p, stream) })
	case m.Type == sayKill:
		p.asked = true
		if p.process != nil {
			p.process.Kill()
		}
	case m.Type == sayEnd:
		p.asked = true
		if process := p.process; process != nil {
			h.begin(func() { process.End([]byte(m.Text), time.Duration(m.Seconds*float64(time.Second))) })
		}
	case m.Type == sayRelease:
		h.release(m.ID, p)
	}
	return nil
}

// passReports hands the newest report over until there is none: they come in the order in
// which the runner made them, and one that waited for too long is left out.
func (h *hands) passReports() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reporting {
		return
	}
	h.reporting = true
	for h.report != nil {
		b := *h.report
		h.report = nil
		h.mu.Unlock()
		h.workshop.Report(b)
		h.mu.Lock()
	}
	h.reporting = false
}

// open fetches the files of a task and opens the workshop.
func (h *hands) open(t Task, files *wire.Stream) {
	defer files.Close()
	folder, err := t.Folder, error(nil)
	if t.Files != "" {
		folder, err = keepFiles(h.site.Cache, t.Files, func() io.Reader {
			h.say(message{Type: sayFiles})
			return files
		})
		go keepUsed(h.ctx, folder)
	}
	var w Workshop
	if err == nil {
		log := h.link.Open(streamLog)
		w, err = h.site.Open(h.ctx, t, folder, log, func(format string, args ...any) {
			h.say(message{Type: sayNote, Text: fmt.Sprintf(format, args...)})
		})
	}
	if err != nil {
		no := (*Refusal)(nil)
		h.say(message{Type: sayRefused, Text: err.Error(), Lasting: errors.As(err, &no) && no.Lasting})
		return
	}
	h.mu.Lock()
	h.workshop = w
	h.mu.Unlock()
	h.say(message{Type: sayReady})
}

// acquire takes a place for the runner.
func (h *hands) acquire(ctx context.Context, m message) {
	failures := m.Failures
	if failures == nil {
		failures = map[string]int{}
	}
	g, err := h.workshop.Acquire(ctx, batch.WorkerRequest{Avoid: m.Avoid, Failures: failures})
	h.mu.Lock()
	defer h.mu.Unlock()
	cancelled, cancel := ctx.Err() != nil, h.asks[m.ID]
	delete(h.asks, m.ID)
	if err != nil {
		cancel()
	}
	switch {
	case err == nil && (cancelled || h.closed):
		h.busy.Go(func() { // this function keeps the workshop open
			g.GiveBack()
			cancel()
		})
	case err == nil:
		p := &post{grant: g, forget: cancel, released: make(chan struct{})}
		h.posts[m.ID] = p
		device := g.GPU
		h.say(message{Type: sayGrant, ID: m.ID, GPU: &device, Speed: g.SpeedNow()})
		h.begin(func() { h.watch(m.ID, p) }) // what it says comes after the grant
	case !cancelled:
		h.say(message{Type: sayDenied, ID: m.ID, Text: err.Error(), Lasting: errors.Is(err, batch.ErrRefused)})
	}
}

// watch tells the runner what happens to a place, until it is released.
func (h *hands) watch(id uint32, p *post) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	recall, lost := p.grant.Recall, p.grant.Lost
	speed, rested, began := p.grant.SpeedNow(), 0.0, time.Now()
	for {
		select {
		case <-p.released:
			return
		case <-recall:
			recall = nil
			h.say(message{Type: sayRecall, ID: id, Text: p.grant.TroubleNow()})
		case <-lost:
			lost = nil
			h.say(message{Type: sayLost, ID: id, Text: p.grant.TroubleNow()})
		case <-tick.C:
			h.mu.Lock()
			process := p.process
			h.mu.Unlock()
			nowSpeed, nowRested := p.grant.SpeedNow(), rested
			if process != nil {
				nowRested = process.Rested(began).Seconds()
			}
			if nowSpeed != speed || nowRested != rested {
				speed, rested = nowSpeed, nowRested
				h.say(message{Type: sayState, ID: id, Speed: speed, Rested: rested})
			}
		}
	}
}

// start starts the worker of a place and carries what it says.
func (h *hands) start(m message, p *post, stream *wire.Stream) {
	defer stream.Close()
	defer close(p.ended)
	process, err := h.workshop.Start(&p.grant, m.Text, append(slices.Clone(p.grant.Env), m.Env...))
	if err == nil && p.grant.Started != nil {
		if bad := p.grant.Started(process.PID()); bad != nil && process.Alive() {
			process.Destroy()
			err = fmt.Errorf("its lease does not accept the process: %w", bad)
		}
	}
	if err != nil {
		h.say(message{Type: sayStarted, ID: m.ID, Text: err.Error()})
		return
	}
	h.mu.Lock()
	p.process = process
	over := p.asked || isShut(p.released)
	h.mu.Unlock()
	if over {
		process.Kill()
	}
	h.say(message{Type: sayStarted, ID: m.ID, PID: process.PID()})
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		feed(process, stream)
	}()
	carry(stream, process)
	_ = stream.End()
	select {
	case <-process.Gone():
	case <-p.released:
		process.Destroy()
	case <-h.link.Done():
		process.Destroy()
	}
	_ = stream.Close()
	<-fed
	select {
	case <-process.Gone():
	default:
		return // it cannot be killed: the runner gives up on it
	}
	text, signalled := process.ExitStatus()
	h.mu.Lock()
	asked := p.asked
	h.mu.Unlock()
	exit := message{Type: sayExit, ID: m.ID, Text: text, Signalled: signalled, Last: process.LastOutput()}
	if !asked && p.grant.Why != nil {
		exit.Why = p.grant.Why(signalled)
	}
	h.say(exit)
}

// carryBytes is how much is carried at a time.
const carryBytes = 256 << 10

// carry hands to the runner what a worker says, until either ends.
func carry(stream *wire.Stream, p batch.Process) {
	buf := make([]byte, carryBytes)
	for {
		n, err := p.Read(buf)
		if n > 0 && stream.Send(buf[:n], 0) != nil || err != nil {
			return
		}
	}
}

func isShut(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// takePatience is how long a worker may take to read what it is sent. The runner has
// limits of its own.
const takePatience = 30 * 24 * time.Hour

// feed hands to a worker what the runner sends.
func feed(p batch.Process, stream *wire.Stream) {
	buf := make([]byte, carryBytes)
	for {
		n, err := stream.Read(buf)
		if err != nil {
			return
		}
		if p.Send(buf[:n], takePatience) != nil {
			return // it has ended
		}
	}
}

// release gives a place back when its worker is gone, which it ends. The caller holds the
// lock.
func (h *hands) release(id uint32, p *post) {
	if isShut(p.released) {
		return
	}
	delete(h.posts, id)
	shut(p.released)
	process, ended := p.process, p.ended
	h.busy.Go(func() { // watch keeps the workshop open
		if process != nil {
			process.Destroy()
		}
		if ended != nil {
			if process == nil {
				p.forget() // the daemon may be away, and the worker not begin for long
			}
			<-ended
		}
		p.grant.GiveBack()
		p.forget()
	})
}
