package programs

import (
	"context"
	"errors"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// slot is the lease of this run on one GPU. It has one slot, however many workers share
// it, and their leases are children of it. The run asks for it together with the memory
// of the first worker, which then takes over that memory.
type slot struct {
	Held
	gpu     string
	workers int           // workers that use it, or are about to; places.mu guards it
	left    chan struct{} // closed when no worker uses it
}

// enter returns the slot of this run on a GPU for another worker. If the run has none
// there, enter asks the daemon for it. The caller must call leave.
func (p *places) enter(ctx context.Context, uuid string, wait time.Duration) (*slot, error) {
	p.mu.Lock()
	if s := p.slots[uuid]; s != nil {
		s.workers++
		p.mu.Unlock()
		return s, nil
	}
	p.mu.Unlock()
	ask := p.ask
	ask.Name, ask.Enforce = words.Cut(slotName+ask.Name, 100), "" // nothing runs under it that could be limited
	ask.Isolation = ""                                            // this process stays where it is
	ask.GPU, ask.Timeout = gpu.Ref(uuid), gpu.Some(wait.Seconds())
	lease, err := p.o.Hold(ctx, ask)
	if err != nil {
		return nil, err
	}
	s := &slot{Held: lease, gpu: uuid, workers: 1, left: make(chan struct{})}
	p.locked(func() { p.slots[uuid] = s })
	go func() { // in case the event of the daemon is missed
		select {
		case <-lease.Lost:
			p.locked(func() { p.slotEnded(s) })
		case <-s.left:
		}
	}()
	return s, nil
}

// slotName begins the name of a slot's lease, which distinguishes it from the leases of
// its workers.
const slotName = "slot of "

// leave gives the slot back if no other worker uses it. ctx is the context of the run.
func (p *places) leave(ctx context.Context, s *slot) {
	last := false
	p.locked(func() {
		s.workers--
		if last = s.workers == 0; last && p.slots[s.gpu] == s {
			delete(p.slots, s.gpu)
		}
	})
	if last {
		close(s.left)
		patiently(ctx, func() { _ = s.Close() }) // it ends with this process at the latest
	}
}

// slotPatience is how long a slot stays for the next worker after one that died or asked
// to be replaced.
const slotPatience = 5 * time.Second

// leaveOrKeep gives the slot of a worker back, as leave does, but a while later if another
// worker is about to use it: others, who wait for the GPU, would get it in between. A slot
// that somebody wants is given back at once.
func (p *places) leaveOrKeep(ctx context.Context, h *place) {
	keep := false
	p.locked(func() {
		_, wanted := p.left[h.gpu]
		keep = h.again && !wanted && p.slots[h.gpu] == h.slot
	})
	if !keep {
		p.leave(ctx, h.slot)
		return
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-h.slot.Lost:
		case <-time.After(slotPatience):
		}
		p.leave(ctx, h.slot)
	}()
}

// slotEnded handles the end of a slot that this run did not give back: its workers
// leave, and the next worker asks for another slot. The caller holds mu.
func (p *places) slotEnded(s *slot) {
	if p.slots[s.gpu] == s {
		delete(p.slots, s.gpu)
	}
	for _, h := range p.leases {
		if h.slot == s {
			shut(h.recall)
		}
	}
}

// codeOf returns the code of a refusal of the daemon, or "" for other errors.
func codeOf(err error) string {
	if problem := (*api.Problem)(nil); errors.As(err, &problem) {
		return problem.Code
	}
	return ""
}
