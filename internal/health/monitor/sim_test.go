package monitor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/sim"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

// simulate runs a scenario of testdata under a monitor. It belongs inside a
// synctest bubble, where the simulation runs on the bubble's clock.
func simulate(t *testing.T, file string) (*monitor.Monitor, *notes, func()) {
	t.Helper()
	b, err := sim.Open("./testdata/"+file, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := new(notes)
	m := told([]device.Backend{b}, monitor.Settings{}, n.hooks())
	stop := start(t, m)
	return m, n, func() {
		stop()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestHangOfOneOfFour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n, stop := simulate(t, "hang.yaml")
		want := func(when string, state gpu.State, health gpu.Health) {
			t.Helper()
			for i, r := range m.Readings() {
				state, health := state, health
				if i != 2 {
					state, health = gpu.Optimal, gpu.Healthy
				}
				if r.State != state || r.Health != health || !r.Sampled {
					t.Errorf("%s: device %d is %s and %s, want %s and %s", when, i, r.State, r.Health, state, health)
				}
			}
		}
		settle(6.9)
		want("before the deadline", gpu.Optimal, gpu.Healthy)
		settle(0.6) // 7.5 s: two intervals after the hang began
		want("two intervals after the hang", gpu.Unavailable, gpu.HealthUnknown)
		if r := find(t, m, "2"); r.Reason != "it does not answer within 1s" {
			t.Errorf("reason %q", r.Reason)
		}
		settle(9.2) // 16.7 s: the next sample after the call is back
		want("after the hang", gpu.Optimal, gpu.Healthy)
		settle(3.8)
		for _, r := range m.Readings() {
			if got := n.sampled(r.Device.UUID); r.Device.Index != 2 && got != 21 {
				t.Errorf("device %d was sampled %d times in 20 s: the hang of another disturbed it", r.Device.Index, got)
			}
		}
		wantTold(t, n, find(t, m, "2").Device.UUID,
			"0 device_found", "0 state_change UNAVAILABLE→OPTIMAL",
			"7 state_change OPTIMAL→UNAVAILABLE +throttle",
			"16 state_change UNAVAILABLE→OPTIMAL +resume")
		wantTold(t, n, find(t, m, "1").Device.UUID, "0 device_found", "0 state_change UNAVAILABLE→OPTIMAL")
		stop()
	})
}

func TestLostAndFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n, stop := simulate(t, "lost.yaml")
		settle(5.4)
		if r := find(t, m, "1"); r.Health != gpu.Unhealthy || r.State != gpu.Unavailable || !r.Stop {
			t.Errorf("after XID 79: %s and %s, stop %v; want it in quarantine", r.State, r.Health, r.Stop)
		}
		settle(4)
		if r := find(t, m, "1"); r.Health != gpu.HealthUnknown || r.State != gpu.Unavailable || !r.Sampled {
			t.Errorf("lost: %s and %s, sampled %v; want it listed with its last sample", r.State, r.Health, r.Sampled)
		}
		settle(11)
		if r := find(t, m, "1"); r.Health != gpu.HealthUnknown || r.State != gpu.Optimal || r.Standing.Phase != health.Probation {
			t.Errorf("back: %s and %s in %q, want it on probation", r.State, r.Health, r.Standing.Phase)
		}
		settle(300)
		if r := find(t, m, "1"); r.Health != gpu.Healthy || r.Standing.Phase != health.Trusted {
			t.Errorf("five minutes later: %s in %q", r.Health, r.Standing.Phase)
		}
		wantTold(t, n, find(t, m, "1").Device.UUID,
			"0 device_found", "0 state_change UNAVAILABLE→OPTIMAL", "5.2 device_fault",
			"5.2 device_quarantined OPTIMAL→UNAVAILABLE +state_change +throttle",
			"6 device_lost",
			"16 device_recovered", "16 device_probation UNAVAILABLE→OPTIMAL +state_change +resume",
			"316 device_recovered")
		stop()
	})
}

// Whatever the physics, the events of a hot card tell one story.
func TestHotScenario(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n, stop := simulate(t, "hot.yaml")
		settle(300)
		stop()
		count := map[gpu.EventCode]int{}
		last := map[gpu.EventCode]int{}
		state := string(gpu.Unavailable)
		for i, e := range n.events {
			for _, code := range append([]gpu.EventCode{e.Code}, e.Also...) {
				count[code]++
				last[code] = i
			}
			if e.Code == gpu.EventStateChange {
				if e.Data["from"] != state {
					t.Errorf("a change from %v, but it was %s", e.Data["from"], state)
				}
				state = e.Data["to"].(string)
			}
			if i > 0 && e.Time.Before(n.events[i-1].Time) {
				t.Errorf("%s comes after an event with a later time", e.Code)
			}
		}
		for _, code := range []gpu.EventCode{gpu.EventThrottle, gpu.EventCritical, gpu.EventOverheat, gpu.EventResume} {
			if count[code] != 1 {
				t.Errorf("%d times %s in one excursion", count[code], code)
			}
		}
		if !(last[gpu.EventThrottle] < last[gpu.EventCritical] && last[gpu.EventCritical] == last[gpu.EventOverheat] && last[gpu.EventOverheat] < last[gpu.EventResume]) {
			t.Errorf("out of order: %v", n.told(n.events[0].GPU))
		}
		if r := find(t, m, ""); state != string(gpu.Optimal) || r.State != gpu.Optimal || r.Sample.Time.Sub(n.begun) < 299*time.Second {
			t.Errorf("in the end %s, want OPTIMAL", state)
		}
	})
}
