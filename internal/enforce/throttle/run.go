package throttle

import (
	"context"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/enforce/slowdown"
)

const (
	restLimit = 2 * time.Second // how long it may take to restore a device
	restAgain = 5 * time.Second // until it is tried again
)

// Run acts on readings until ctx ends. Then it restores every device.
func (t *Throttle) Run(ctx context.Context) {
	t.mu.Lock()
	t.running = ctx
	for _, h := range t.hands {
		t.work(h)
	}
	t.mu.Unlock()
	<-ctx.Done()
	t.Rest(context.WithoutCancel(ctx))
}

// Resume ends a Rest.
func (t *Throttle) Resume() {
	t.switching.Lock()
	defer t.switching.Unlock()
	t.endRest()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resting = false
}

// Rest restores every device, and acts on none until Resume. What a device does not take
// is tried again until then.
func (t *Throttle) Rest(ctx context.Context) {
	t.switching.Lock()
	defer t.switching.Unlock()
	t.endRest()
	t.mu.Lock()
	t.resting = true
	running := t.running
	t.mu.Unlock()
	t.working.Wait()
	t.paces.end()
	if t.restore(ctx) || running == nil || running.Err() != nil {
		return
	}
	later, cancel := context.WithCancel(running)
	ended := make(chan struct{})
	t.endRest = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		ticker := time.NewTicker(restAgain)
		defer ticker.Stop()
		for done := false; !done && later.Err() == nil; {
			select {
			case <-ticker.C:
				done = t.restore(context.WithoutCancel(later))
			case <-later.Done():
			}
		}
	}()
}

// restore restores every device, and reports whether all are. Only one goroutine calls it
// at a time, and only while nothing else works on devices.
func (t *Throttle) restore(ctx context.Context) (all bool) {
	var resting sync.WaitGroup
	for _, h := range t.holding() {
		resting.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, restLimit)
			defer cancel()
			t.rest(ctx, h)
		})
	}
	resting.Wait()
	return t.notes.settle() && len(t.holding()) == 0
}

// holding returns the devices that berth holds something of.
func (t *Throttle) holding() []*hand {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*hand
	for _, h := range t.hands {
		h.ramp = slowdown.Ramp{}
		h.acts.Share, h.acts.Paced, h.sharing = 1, 0, false
		if (h.limit.Held() || h.fan.Held) && t.Denied(h.uuid) == "" {
			list = append(list, h)
		}
	}
	return list
}

// rest restores a device.
func (t *Throttle) rest(ctx context.Context, h *hand) {
	t.mu.Lock()
	r, policy := h.newest, slowdown.Policy(h.settings.Throttle)
	t.mu.Unlock()
	h.limit = h.limit.Again()
	t.giveBack(ctx, h, r)
	acts := h.does(policy, "", 0)
	t.mu.Lock()
	h.acts = acts
	t.mu.Unlock()
}

// Acts returns what berth does to a device.
func (t *Throttle) Acts(uuid string) slowdown.Acts {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.hands[uuid]; h != nil {
		a := h.acts
		a.Policy, a.Denied = slowdown.Policy(h.settings.Throttle), t.Denied(uuid)
		return a
	}
	return slowdown.Acts{Policy: slowdown.Policy(t.settings.GPU.For(uuid).Throttle), Share: 1, Denied: t.Denied(uuid)}
}
