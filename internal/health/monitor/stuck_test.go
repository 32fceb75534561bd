package monitor_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

// hanging makes a Reading hook that hangs for one device from some time on,
// until it is let go.
type hanging struct {
	uuid string
	from time.Time
	free chan struct{}
	next func(monitor.Reading)
}

func (h *hanging) reading(r monitor.Reading) {
	if r.Device.UUID == h.uuid && !time.Now().Before(h.from) {
		<-h.free
	}
	h.next(r)
}

// A sampler that hangs in a hook makes its device UNAVAILABLE for everybody who
// looks, which is told once, and nobody else notices.
func TestSamplerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		hooks := n.hooks()
		h := &hanging{uuid: "GPU-0", from: time.Now().Add(5 * time.Second), free: make(chan struct{}), next: hooks.Reading}
		var mu sync.Mutex
		var stuck []monitor.Reading
		hooks.Reading = func(r monitor.Reading) {
			if !r.Stuck {
				h.reading(r)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			stuck = append(stuck, r)
		}
		m := told([]device.Backend{with(&card{}, &card{index: 1})}, monitor.Settings{}, hooks)
		stop := start(t, m)
		settle(7.9) // the newest sample is from 5 s
		if r := find(t, m, "0"); r.State != gpu.Optimal || r.Stale || m.Stuck(time.Now()) != nil {
			t.Errorf("after 2.9 s without a sample: %s, stale %v, %v", r.State, r.Stale, m.Stuck(time.Now()))
		}
		settle(0.2)
		r := find(t, m, "0")
		if r.State != gpu.Unavailable || !r.Stale || r.Health != gpu.HealthUnknown || !strings.Contains(r.Reason, "not read it for 3s") {
			t.Errorf("after 3.1 s without a sample: %s (%s), %s, stale %v", r.State, r.Reason, r.Health, r.Stale)
		}
		if at := r.Since.Sub(n.begun); at != 8*time.Second {
			t.Errorf("UNAVAILABLE since %v, want 8s", at)
		}
		if all := m.Readings(); all[0].State != gpu.Unavailable || all[1].State != gpu.Optimal || all[1].Stale {
			t.Errorf("all devices: %s and %s", all[0].State, all[1].State)
		}
		if err := m.Stuck(time.Now()); err == nil || !strings.Contains(err.Error(), "GPU 0") || strings.Contains(err.Error(), "GPU 1") {
			t.Errorf("Stuck = %v", err)
		}
		settle(30)
		mu.Lock()
		if len(stuck) < 25 || stuck[0].State != gpu.Unavailable || stuck[0].Device.UUID != "GPU-0" {
			t.Errorf("it was told %d times", len(stuck))
		}
		mu.Unlock()
		close(h.free)
		settle(1.1)
		if r := find(t, m, "0"); r.State != gpu.Optimal || r.Stale || m.Stuck(time.Now()) != nil {
			t.Errorf("when the hook has returned: %s, stale %v, %v", r.State, r.Stale, m.Stuck(time.Now()))
		}
		mu.Lock()
		calls := len(stuck)
		mu.Unlock()
		settle(10)
		mu.Lock()
		if len(stuck) != calls {
			t.Error("it is told of a sampler that is alive")
		}
		mu.Unlock()
		stop()
		wantTold(t, &n, "GPU-0", "0 device_found", "0 state_change UNAVAILABLE→OPTIMAL",
			"8.001 state_change OPTIMAL→UNAVAILABLE +throttle",
			"38.1 state_change UNAVAILABLE→OPTIMAL +resume")
		wantTold(t, &n, "GPU-1", "0 device_found", "0 state_change UNAVAILABLE→OPTIMAL")
		for _, e := range n.events {
			if e.GPU == "GPU-0" && e.Data["to"] == string(gpu.Unavailable) && e.Severity != gpu.Serious {
				t.Errorf("severity %s: %s", e.Severity, e.Text)
			}
		}
	})
}

// Readers see that samplers hang also if what is told about that hangs too.
func TestEveryHookHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		hang := func() { <-free }
		m := told([]device.Backend{with(&card{}, &card{index: 1})}, monitor.Settings{}, monitor.Hooks{
			Event: func(e gpu.Event) {
				if e.Data["to"] == string(gpu.Unavailable) {
					hang()
				}
			},
			Reading: func(monitor.Reading) { hang() },
		})
		stop := start(t, m)
		settle(100)
		for _, r := range m.Readings() {
			if r.State != gpu.Unavailable {
				t.Errorf("%s is %s", r.Device.UUID, r.State)
			}
		}
		if m.Stuck(time.Now()) == nil {
			t.Error("nothing is stuck")
		}
		close(free)
		settle(2)
		if r := find(t, m, "0"); r.State != gpu.Optimal || m.Stuck(time.Now()) != nil {
			t.Errorf("when the hooks have returned: %s, %v", r.State, m.Stuck(time.Now()))
		}
		stop()
	})
}

// A driver that hangs is the trouble of its device: the sampler is alive.
func TestHungDriverIsNotAStuckSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var n notes
		for _, interval := range []time.Duration{10 * time.Millisecond, time.Second, 10 * time.Second} {
			c := &card{fast: func(*gpu.Sample) error { <-free; return nil }}
			m := told([]device.Backend{with(c)}, monitor.Settings{Interval: interval}, n.hooks())
			stop := start(t, m)
			for range 100 {
				settle(1)
				if err := m.Stuck(time.Now()); err != nil {
					t.Fatalf("interval %v: %v", interval, err)
				}
			}
			if r := find(t, m, "0"); r.State != gpu.Unavailable || !strings.Contains(r.Reason, "does not answer") {
				t.Errorf("interval %v: %s (%s)", interval, r.State, r.Reason)
			}
			stop()
		}
		close(free)
	})
}

// While monitoring is switched off, states stay and samples are marked stale;
// when it is switched on again, or is to be quicker, nothing is UNAVAILABLE
// before there was time for a sample.
func TestStoppedMonitoringIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		m := told([]device.Backend{with(&card{})}, monitor.Settings{Interval: time.Minute}, n.hooks())
		stop := start(t, m)
		settle(170)
		if r := find(t, m, "0"); r.State != gpu.Optimal || r.Stale {
			t.Errorf("%s, stale %v", r.State, r.Stale)
		}
		m.Stop(gpu.By{})
		settle(3600)
		if r := find(t, m, "0"); r.State != gpu.Optimal || !r.Stale || m.Stuck(time.Now()) != nil {
			t.Errorf("while stopped: %s, stale %v, %v", r.State, r.Stale, m.Stuck(time.Now()))
		}
		m.Start(gpu.By{})
		if r := find(t, m, "0"); r.State != gpu.Optimal {
			t.Errorf("just started again: %s", r.State)
		}
		settle(30)
		m.Configure(monitor.Settings{Interval: time.Second})
		if r := find(t, m, "0"); r.State != gpu.Optimal || m.Stuck(time.Now()) != nil {
			t.Errorf("just changed: %s, %v", r.State, m.Stuck(time.Now()))
		}
		settle(10)
		stop()
		if r := find(t, m, "0"); r.State != gpu.Optimal || r.Stale {
			t.Errorf("after Run: %s, stale %v", r.State, r.Stale)
		}
		wantTold(t, &n, "GPU-0", "0 device_found", "0 state_change UNAVAILABLE→OPTIMAL")
	})
}
