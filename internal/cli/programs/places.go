package programs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/text/words"
)

// places leases room for workers from the daemon.
type places struct {
	o      BatchOptions
	daemon Daemon
	ask    api.LeaseRequest // for a slot and one worker
	torch  string           // version that the workers will find
	begin  func(pid int)    // lets a waiting worker begin

	mu      sync.Mutex
	devices []api.Status
	held    map[string]int       // workers on each GPU
	leases  map[string]*place    // by id
	slots   map[string]*slot     // by GPU
	left    map[string]time.Time // when each GPU was left alone
	fences  map[uint64]bool      // the leases of all workers
	began   time.Time            // when the first of them was granted
	waited  bool                 // tell has reported that no worker has a place

	changed chan struct{} // receives when there may be another place
}

// newPlaces asks the daemon for its devices.
func newPlaces(ctx context.Context, d Daemon, o BatchOptions, torch string) (*places, error) {
	ask := o.Request
	ask.Name, ask.Slots, ask.Enforce = cmp.Or(words.Cut(ask.Name, 100), launch.NameOf(o.Command)), gpu.Some(1), "auto"
	p := &places{
		o: o, daemon: d, ask: ask, torch: torch,
		held: map[string]int{}, leases: map[string]*place{}, fences: map[uint64]bool{}, slots: map[string]*slot{}, left: map[string]time.Time{}, changed: make(chan struct{}, 1),
	}
	all, err := d.StatusAll(ctx)
	if err != nil {
		return nil, err
	}
	p.devices = all.GPUs
	return p, nil
}

// look asks for the state of the devices every second, until ctx ends. While
// the daemon does not answer, its last answer counts.
func (p *places) look(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all, err := p.daemon.StatusAll(ctx)
		if err != nil {
			continue
		}
		p.mu.Lock()
		same := slices.EqualFunc(p.devices, all.GPUs, func(a, b api.Status) bool {
			return a.Device.UUID == b.Device.UUID
		})
		p.devices = all.GPUs
		for uuid, since := range p.left {
			if time.Since(since) >= leaveAlone {
				delete(p.left, uuid)
				same = false
			}
		}
		p.mu.Unlock()
		if !same {
			p.wake()
		}
	}
}

func (p *places) locked(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
}

// wake makes Acquire look for a place again.
func (p *places) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Acquire tries the GPUs that may take one more worker, and then waits in the
// queue of each. It begins with the GPUs that have the fewest workers, and
// among those with the fewest failures.
func (p *places) Acquire(ctx context.Context, req batch.WorkerRequest) (batch.Grant, error) {
	var grant batch.Grant
	var err error
	if !patiently(ctx, func() { grant, err = p.acquire(ctx, req) }) {
		return batch.Grant{}, ctx.Err()
	}
	return grant, err
}

func (p *places) acquire(ctx context.Context, req batch.WorkerRequest) (batch.Grant, error) {
	for {
		candidates, full := p.candidates(req)
		held, err := p.now(ctx, candidates)
		if held == nil && err == nil && len(candidates) > 0 {
			held, err = p.queue(ctx, candidates)
		}
		switch {
		case held != nil:
			return p.grant(ctx, held), nil
		case ctx.Err() != nil:
			return batch.Grant{}, ctx.Err()
		case errors.Is(err, errChanged):
			continue
		case err != nil && !isRefusal(err):
			return batch.Grant{}, err
		case !full:
			return batch.Grant{}, p.refused(ctx, err, req.Avoid)
		}
		p.tell()
		select { // this run has every place that it may have
		case <-ctx.Done():
			return batch.Grant{}, ctx.Err()
		case <-p.changed:
		}
	}
}

// refused returns the error for a worker that no GPU takes. The daemon's answer about
// all GPUs tells more than its refusal for one of them.
func (p *places) refused(ctx context.Context, err error, avoid []string) error {
	problem := (*api.Problem)(nil)
	switch {
	case errors.As(err, &problem):
		if e, err := p.daemon.Explain(ctx, p.ask); err == nil && !e.Possible && e.Text != "" {
			whole := *problem
			whole.Detail = e.Text
			problem = &whole
		}
		return fmt.Errorf("%w: %w", batch.ErrRefused, problem)
	case err != nil:
		return fmt.Errorf("%w: %w", batch.ErrRefused, err)
	case len(avoid) > 0:
		return fmt.Errorf("%w: only GPUs on which workers kept failing are left", batch.ErrRefused)
	}
	return fmt.Errorf("%w: this machine has no GPU; run berth doctor to see why", batch.ErrRefused)
}

// candidates returns the GPUs that may take another worker. The result full reports
// whether other GPUs have all the workers that they may have.
func (p *places) candidates(req batch.WorkerRequest) (list []gpu.Device, full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	used := 0
	for _, n := range p.held {
		if n > 0 {
			used++
		}
	}
	for _, d := range p.devices {
		n := p.held[d.Device.UUID]
		_, leave := p.left[d.Device.UUID]
		switch {
		case slices.Contains(req.Avoid, d.Device.UUID):
		case leave, n >= p.o.PerGPU, n == 0 && p.o.GPUs > 0 && used >= p.o.GPUs:
			full = true
		default:
			list = append(list, d.Device)
		}
	}
	slices.SortStableFunc(list, func(a, b gpu.Device) int {
		return cmp.Or(p.held[a.UUID]-p.held[b.UUID], req.Failures[a.UUID]-req.Failures[b.UUID])
	})
	return list, full
}

// now takes a place without waiting, or returns nil.
func (p *places) now(ctx context.Context, candidates []gpu.Device) (*place, error) {
	for _, d := range candidates {
		held, err := p.hold(ctx, d, 0)
		if err == nil {
			return held, nil
		}
		if !isRefusal(err) {
			return nil, err
		}
	}
	return nil, nil
}

// hold takes a lease for a worker, under the slot of this run on a GPU.
func (p *places) hold(ctx context.Context, d gpu.Device, wait time.Duration) (*place, error) {
	s, err := p.enter(ctx, d.UUID, wait)
	if err != nil {
		return nil, err
	}
	ask := p.ask
	ask.Parent, ask.Slots, ask.Timeout = s.ID, gpu.Some(0), gpu.Some(wait.Seconds())
	ask.GPU, ask.Where = gpu.Ref(d.UUID), "" // the rule applies to the slot
	lease, err := p.o.Hold(ctx, ask)
	if err == nil {
		return newPlace(lease, s), nil
	}
	switch codeOf(err) {
	case "no_parent": // the slot has ended: the next attempt takes another
		p.locked(func() { p.slotEnded(s) })
		err = errChanged
	case "withdrawn": // the slot ended while the worker waited, or a user withdrew the request
		err = errChanged
	}
	p.leave(ctx, s)
	return nil, err
}

// errChanged means that there may be another place now.
var errChanged = errors.New("the places have changed")

// queue waits for room on several GPUs at the same time and takes the first.
func (p *places) queue(run context.Context, candidates []gpu.Device) (*place, error) {
	ctx, cancel := context.WithCancel(run)
	defer cancel()
	type outcome struct {
		place *place
		err   error
	}
	answers := make(chan outcome, len(candidates))
	for _, d := range candidates {
		go func() {
			held, err := p.hold(ctx, d, longestWait)
			answers <- outcome{held, err}
		}()
	}
	patience := time.After(2 * time.Second)
	var got *place
	var last, why error
	for left := len(candidates); left > 0; {
		select {
		case a := <-answers:
			left--
			switch {
			case a.err == nil && got == nil:
				got = a.place
				cancel()
			case a.err == nil:
				_ = a.place.Close() // it ends with this process at the latest
				p.leave(run, a.place.slot)
			case last == nil || isRefusal(last):
				last = a.err
			}
		case <-p.changed:
			why = errChanged
			cancel()
		case <-patience:
			p.tell()
		}
	}
	switch {
	case got != nil:
		return got, nil
	case why != nil:
		return nil, why
	}
	return nil, last
}

// tell tells the user once that no worker has a place, and why.
func (p *places) tell() {
	p.mu.Lock()
	idle := !p.waited
	for _, n := range p.held {
		idle = idle && n == 0
	}
	p.waited = p.waited || idle
	var left []string
	for _, d := range p.devices {
		if _, leave := p.left[d.Device.UUID]; leave {
			left = append(left, strconv.Itoa(d.Device.Index))
		}
	}
	others := len(left) < len(p.devices)
	p.mu.Unlock()
	if !idle {
		return
	}
	if len(left) > 0 {
		p.o.Say("somebody released the lease on GPU %s: no worker starts there for a minute", strings.Join(left, " and GPU "))
	}
	if others {
		p.o.Say("no GPU has room for a worker now; waiting (berth leases shows who uses them)")
	}
}

// isRefusal reports whether an error is an answer of the daemon that stays the
// same if asked again.
func isRefusal(err error) bool {
	problem := (*api.Problem)(nil)
	return errors.As(err, &problem) && problem.Status < 500 && problem.Status != http.StatusTooManyRequests
}

// speed returns the multiplier that batches on a GPU follow, as look last saw it:
// callers cannot wait for the daemon. If berth only advises, batches do not change
// their speed.
func (p *places) speed(uuid string) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.devices {
		if d.Device.UUID == uuid {
			if t := d.Throttling; t != nil && !slowdown.Policy(t.Policy).Does(slowdown.Slots) {
				return slowdown.SlotSpeed(slowdown.Policy(t.Policy), d.State.Multiplier())
			}
			return d.Multiplier
		}
	}
	return 1
}

const (
	// billPatience is how long the daemon may take to report the energy that the
	// workers used. The end of the run waits for it.
	billPatience = 2 * time.Second
	// mostPast is how many ended leases the daemon keeps. Of one user it keeps fewer.
	mostPast = 2000
)

// energy returns the energy used by workers whose leases have ended. It is absent if
// the daemon does not know it, or has forgotten some of the leases.
func (p *places) energy(ctx context.Context) gpu.Opt[gpu.Joules] {
	var used gpu.Opt[gpu.Joules]
	var fences map[uint64]bool
	var began time.Time
	p.locked(func() { fences, began = maps.Clone(p.fences), p.began })
	if len(fences) == 0 {
		return used
	}
	ctx, cancel := context.WithTimeout(ctx, billPatience)
	defer cancel()
	past, err := p.daemon.PastLeases(ctx, client.PastQuery{Since: began, Limit: mostPast})
	if err != nil {
		return used
	}
	for _, l := range past.Leases {
		if joules, known := l.Energy.Get(); known && fences[l.Fence] {
			used = gpu.Some(used.Or(0) + joules)
		}
		delete(fences, l.Fence)
	}
	if len(fences) > 0 {
		return gpu.Opt[gpu.Joules]{}
	}
	return used
}
