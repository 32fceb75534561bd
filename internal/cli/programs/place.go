package programs

import (
	"context"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/launch"
)

const (
	// leaveAlone is how long a run does not ask for a GPU after a user released a lease
	// there: that user wants the GPU.
	leaveAlone = time.Minute
	// eventPatience is how long the daemon may take to say why a lease ended.
	eventPatience = 2 * time.Second
	// stopPatience is how long the daemon may take once the run ends. A daemon that
	// hangs must not delay the run, and the leases of this process end with the process
	// anyway.
	stopPatience = time.Second
	// bindPatience is how long the daemon may take to hand over a lease.
	bindPatience = 5 * time.Second
)

// place is the lease of one worker. The daemon grants it to this process, which hands
// it to the worker once the worker has started. Then the lease ends with the worker,
// and revoking the lease stops only the worker.
type place struct {
	Held
	gpu     string
	slot    *slot
	process process.ID // of the worker, once it has started
	again   bool       // whether the run asks for another place there at once

	lost, recall chan struct{} // for the worker, see batch.Grant
	ended        chan struct{} // closed when the daemon reports the end
	why          string        // why it was revoked, for people
	trouble      string        // what is wrong with its device, see batch.Grant
}

func newPlace(l Held, s *slot) *place {
	return &place{Held: l, gpu: s.gpu, slot: s, lost: make(chan struct{}), recall: make(chan struct{}), ended: make(chan struct{})}
}

// patiently calls do and waits for it, for a moment even after ctx has ended. It
// reports whether do returned.
func patiently(ctx context.Context, do func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-done:
		return true
	case <-time.After(stopPatience):
		return false
	}
}

// grant returns a place for a worker. ctx is the context of the run.
func (p *places) grant(ctx context.Context, h *place) batch.Grant {
	l := h.Held
	p.mu.Lock()
	p.held[h.gpu]++
	p.leases[l.ID] = h
	if len(p.fences) == 0 {
		p.began = l.Granted
	}
	p.fences[l.Fence] = true
	p.waited = false
	if p.slots[h.gpu] != h.slot { // the slot ended meanwhile
		shut(h.recall)
	}
	device := gpu.Device{UUID: h.gpu}
	if at := slices.IndexFunc(p.devices, func(s api.Status) bool { return s.Device.UUID == h.gpu }); at >= 0 {
		device = p.devices[at].Device
	}
	p.mu.Unlock()
	ladder := launch.Ladder{Socket: p.o.Socket, Torch: p.torch}
	if about := l.Launch; about != nil {
		ladder.Context, ladder.MPS, ladder.Isolation = about.Context, about.MPS, about.Isolation
	}
	env, _ := launch.Environment(l.Lease, []gpu.Device{device}, ladder, p.o.Environ)
	changes := launch.Changes(p.o.Environ, env)
	released := make(chan struct{})
	go func() { // in case the event of the daemon is missed
		select {
		case <-l.Lost:
			p.locked(func() { shut(h.recall) })
		case <-released:
		}
	}()
	return batch.Grant{
		GPU: batch.GPU{UUID: h.gpu, Index: device.Index, Name: device.Name},
		Env: changes,
		Started: func(pid int) error {
			id, err := process.Proc().Identify(pid)
			if err != nil {
				return nil // the worker has ended; batch notices
			}
			p.locked(func() { h.process = id })
			if launch.InCgroup(changes) {
				return p.isolate(ctx, h)
			}
			return p.bind(ctx, h, released)
		},
		Why:  func(signalled bool) string { return p.whyEnded(h, signalled) },
		Lost: h.lost, Recall: h.recall, Speed: func() float64 { return p.speed(h.gpu) },
		Trouble: func() (text string) {
			p.locked(func() { text = h.trouble })
			return text
		},
		Again: func() { p.locked(func() { h.again = true }) },
		Release: func() {
			close(released)
			p.locked(func() { delete(p.leases, l.ID) })
			patiently(ctx, func() { _ = l.Close() }) // it ends with the worker, or with this process at the latest
			p.leaveOrKeep(ctx, h)
			p.locked(func() { p.held[h.gpu]-- })
			p.wake()
		},
	}
}

// bind hands a lease to its worker. While the daemon is away the lease stays
// with this process, and bind tries again.
func (p *places) bind(ctx context.Context, h *place, released <-chan struct{}) error {
	soon, cancel := context.WithTimeout(ctx, bindPatience)
	defer cancel()
	_, err := p.daemon.Bind(soon, h.ID, api.Bind{PID: h.process.PID, Fence: h.Fence})
	if err == nil || isRefusal(err) {
		return err
	}
	go func() {
		select {
		case <-released:
		case <-time.After(time.Second):
			_ = p.bind(ctx, h, released) // after a refusal the lease ends, and listen notices
		}
	}()
	return nil
}

// isolate hands a lease to its worker, which does not begin until it is in the control
// group of the lease. While the daemon is away, isolate asks again: the worker must not
// begin outside the group.
func (p *places) isolate(ctx context.Context, h *place) error {
	for {
		soon, cancel := context.WithTimeout(ctx, bindPatience)
		_, err := p.daemon.Bind(soon, h.ID, api.Bind{PID: h.process.PID, Fence: h.Fence, Isolation: launch.ByCgroup})
		cancel()
		if err == nil {
			p.begin(h.process.PID)
			return nil
		}
		if isRefusal(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.Lost:
			return err
		case <-time.After(time.Second):
		}
	}
}

// whyEnded returns the reason that the daemon gives for the end of a lease, if the
// daemon ended it. The daemon reports the reason before it ends a worker that can still
// act on it; after a signal, the event may be on its way.
func (p *places) whyEnded(h *place, signalled bool) string {
	if signalled {
		select {
		case <-h.ended:
		case <-time.After(eventPatience):
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return h.why
}

// listen follows the events about leases until ctx ends.
func (p *places) listen(ctx context.Context) {
	for {
		for e, err := range p.daemon.Events(ctx, 0, true) {
			if err != nil {
				break
			}
			p.hear(e)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// hear handles an event. It also gets old events.
func (p *places) hear(e gpu.Event) {
	switch e.Code {
	case gpu.EventReleased, gpu.EventExpired, gpu.EventRevoked:
		p.locked(func() { p.endOf(e) })
	case gpu.EventStop: // the device is too hot, or in quarantine
		p.locked(func() {
			if h := p.leases[e.Lease]; h != nil && e.ConcernsGrant(h.ID, h.Fence) {
				h.trouble = troubleOf(e)
				shut(h.recall)
			}
		})
	case gpu.EventDeviceLost:
		p.locked(func() {
			for _, h := range p.leases {
				if h.gpu == e.GPU && e.Time.After(h.Granted) {
					h.trouble = "is lost"
					shut(h.lost)
				}
			}
		})
	}
}

// troubleOf returns what is wrong with a device whose users should stop, to follow its
// name.
func troubleOf(e gpu.Event) string {
	reason, _ := e.Data["reason"].(string) // a daemon of an earlier version tells none
	switch hot, _ := e.Data["too_hot"].(bool); {
	case reason == "":
		return "must not be used now"
	case hot:
		return "is too hot: " + reason
	}
	return "is " + reason // in quarantine
}

// endOf handles the end of a lease. The caller holds mu.
func (p *places) endOf(e gpu.Event) {
	for _, s := range p.slots {
		if e.ConcernsGrant(s.ID, s.Fence) { // a user released it, and wants the GPU
			p.left[s.gpu] = time.Now()
			p.slotEnded(s)
			p.wake()
			return
		}
	}
	h := p.leases[e.Lease]
	if h == nil || !e.ConcernsGrant(h.ID, h.Fence) {
		return
	}
	if e.Code == gpu.EventRevoked {
		h.why = e.Text
	} else if h.process.PID == 0 || process.Proc().Alive(h.process) {
		p.left[h.gpu] = time.Now()
		p.wake()
	}
	shut(h.ended)
	shut(h.recall)
}

// shut closes a channel if it is open. No other goroutine may close it at the
// same time.
func shut(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
