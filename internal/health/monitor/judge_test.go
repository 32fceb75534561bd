package monitor_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

// briefly makes cooldowns short.
func briefly(string) thermal.Rules {
	r := thermal.DefaultRules()
	r.Cooldown, r.CriticalPause = 2*time.Second, 4*time.Second
	return r
}

func TestEventsOfAHotCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		//                               0   1   2   3   4   5   6   7   8   9
		c := &card{fast: script(60, 70, 80, 86, 84, 86, 92, 80, 60, 60)}
		m := told([]device.Backend{with(c)}, monitor.Settings{Rules: briefly}, n.hooks())
		stop := start(t, m)
		settle(6.5)
		if r := find(t, m, ""); r.State != gpu.Critical || !r.Stop {
			t.Errorf("at 92 °C: %s, stop %v", r.State, r.Stop)
		}
		settle(11)
		wantTold(t, &n, "GPU-0",
			"0 device_found",
			"0 state_change UNAVAILABLE→OPTIMAL",
			"1 state_change OPTIMAL→NORMAL",
			"2 state_change NORMAL→THROTTLED +throttle",
			"3 state_change THROTTLED→CRITICAL +critical +overheat",
			// A pause of 4 s from 7 s on, and of 2 s from there, twice.
			"11 state_change CRITICAL→THROTTLED",
			"13 state_change THROTTLED→NORMAL +resume",
			"15 state_change NORMAL→OPTIMAL",
		)
		stop()
	})
}

func TestSentences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		c := &card{fast: script(60, 81, 92, 40, 40, 40, 40, 40)}
		m := told([]device.Backend{with(c)}, monitor.Settings{Rules: briefly}, n.hooks())
		stop := start(t, m)
		settle(7.5)
		stop()
		want := []string{
			"info: GPU 0 was found: NVIDIA H200 with 140.4 GiB of memory",
			"info: GPU 0 is OPTIMAL: 60 °C is below temp_optimal 65 °C",
			"warning: GPU 0 is THROTTLED and should run at 50 % of full speed: 81 °C is above temp_normal 75 °C",
			"critical: GPU 0 is CRITICAL and must rest: 92 °C is above temp_critical 90 °C",
			"info: GPU 0 is OPTIMAL and may run at full speed again: 40 °C is below temp_optimal 65 °C",
		}
		for i, e := range n.events {
			if got := string(e.Severity) + ": " + e.Text; i >= len(want) || got != want[i] {
				t.Errorf("sentence %d: %s", i, got)
			}
		}
		if len(n.events) != len(want) {
			t.Errorf("%d sentences, want %d", len(n.events), len(want))
		}
	})
}

func TestStateChangeCarriesNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		c := &card{fast: func(s *gpu.Sample) error {
			s.Temperature = gpu.Some(gpu.Celsius(50))
			s.MemoryTotal, s.MemoryUsed = gpu.Some(gpu.MiB(3000)), gpu.Some(gpu.MiB(2200))
			return nil
		}}
		m := told([]device.Backend{with(c)}, monitor.Settings{}, n.hooks())
		if err := m.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		data := n.events[1].Data
		for key, want := range map[string]any{
			"from": "UNAVAILABLE", "to": "NORMAL", "temperature_celsius": 50.0, "memory_percent": 73.3,
		} {
			if data[key] != want {
				t.Errorf("%s is %v, want %v", key, data[key], want)
			}
		}
	})
}

// A device that fails in some other way is UNAVAILABLE with the driver's own
// words, and not lost.
func TestDeviceThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		failing := errors.New("read temperature: unknown error")
		c := &card{fast: func(*gpu.Sample) error { return failing }}
		m := told([]device.Backend{with(c)}, monitor.Settings{}, n.hooks())
		if err := m.Once(t.Context()); err != nil {
			t.Errorf("a device that does not answer is a reading, not an error: %v", err)
		}
		r := find(t, m, "0")
		if r.State != gpu.Unavailable || r.Health != gpu.HealthUnknown || r.Sampled || r.Reason != failing.Error() {
			t.Errorf("reading %+v", r)
		}
		wantTold(t, &n, "GPU-0", "0 device_found")
		if len(n.costs) != 1 || !errors.Is(n.costs[0].Err, failing) {
			t.Errorf("costs %+v, want the one call with its error", n.costs)
		}
	})
}

// A device whose memory berth itself fills is judged by its temperature, and is
// read again on request.
func TestMemoryThatBerthFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		c := &card{fast: func(s *gpu.Sample) error {
			s.Temperature = gpu.Some(gpu.Celsius(50))
			s.MemoryTotal, s.MemoryUsed = gpu.Some(gpu.MiB(3000)), gpu.Some(gpu.MiB(2990))
			return nil
		}}
		closed, _ := drains.Open("")
		release, err := closed.Hold(c.uuid(), "berth fills it")
		if err != nil {
			t.Fatal(err)
		}
		m := monitor.New([]device.Backend{with(c)}, monitor.Settings{}, monitor.Keepers{Drains: closed})
		m.Subscribe(n.hooks())
		if err := m.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, _ := m.Find("")
		if r.State != gpu.Optimal || r.Standing.Withheld != 0 || r.Sample.MemoryUsed.Or(0) != 2990 {
			t.Errorf("while berth fills it: %s, %d slots withheld, %v in use", r.State, r.Standing.Withheld, r.Sample.MemoryUsed)
		}
		release()
		m.Read(t.Context(), c.uuid())
		if r, _ = m.Find(""); r.State != gpu.Critical || r.Standing.Withheld != 1 {
			t.Errorf("afterwards: %s, %d slots withheld", r.State, r.Standing.Withheld)
		}
		m.Stop(gpu.By{})
		m.Read(t.Context(), c.uuid()) // asks no driver
		m.Read(t.Context(), "GPU-unknown")
	})
}
