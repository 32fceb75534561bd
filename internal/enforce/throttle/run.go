package throttle

import (
	"context"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
)

// restLimit is how long it may take to restore a device.
const restLimit = 2 * time.Second

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
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resting = false
}

// Rest restores every device, and acts on none until Resume.
func (t *Throttle) Rest(ctx context.Context) {
	t.mu.Lock()
	t.resting = true
	t.mu.Unlock()
	t.working.Wait()
	t.paces.end()
	var resting sync.WaitGroup
	for _, h := range t.holding() {
		resting.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, restLimit)
			defer cancel()
			t.rest(ctx, h)
		})
	}
	resting.Wait()
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
	r.Sample.Time = time.Now()
	h.limit = h.limit.Again()
	t.steerPower(ctx, h, r, config.GPU{}, 1, false)
	t.steerFan(ctx, h, r, "")
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
