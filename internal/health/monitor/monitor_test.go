package monitor_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

func TestStartAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		c := &card{}
		m := told([]device.Backend{with(c)}, monitor.Settings{}, n.hooks())
		stop := start(t, m)
		settle(2.5)
		if m.Start(gpu.By{}) || !m.Running() {
			t.Error("it is on from the beginning, but Start changed something")
		}
		if !m.Stop(gpu.By{}) || m.Stop(gpu.By{}) || m.Running() {
			t.Error("Stop must change something the first time only")
		}
		settle(100)
		if got := c.asked.Load(); got != 3 {
			t.Errorf("the driver was asked %d times, want 3 and none while stopped", got)
		}
		r := find(t, m, "0")
		if age := time.Since(r.Sample.Time); r.State != gpu.Optimal || age != 100500*time.Millisecond {
			t.Errorf("%s, sample %v old; want what was read before the stop", r.State, age)
		}
		if !m.Start(gpu.By{}) {
			t.Error("Start after Stop changed nothing")
		}
		settle(1.5)
		if got := c.asked.Load(); got != 5 {
			t.Errorf("the driver was asked %d times, want 5: at once, and a second later", got)
		}
		stop()
		wantTold(t, &n, "", "2.5 monitoring", "102.5 monitoring")
		wantTold(t, &n, "GPU-0", "0 device_found", "0 state_change UNAVAILABLE→OPTIMAL")
	})
}

func TestConfigureWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		c := &card{}
		m := told([]device.Backend{with(c)}, monitor.Settings{Interval: time.Minute, HistorySize: 3}, n.hooks())
		stop := start(t, m)
		settle(10)
		if r := find(t, m, "0"); r.State != gpu.Optimal {
			t.Fatalf("%s at 50 °C", r.State)
		}
		if got := c.asked.Load(); got != 1 {
			t.Fatalf("asked %d times in 10 s, want once a minute", got)
		}
		strict := func(string) thermal.Rules {
			r := thermal.DefaultRules()
			r.TempOptimal = 45
			return r
		}
		m.Configure(monitor.Settings{Interval: 2 * time.Second, HistorySize: 5, Rules: strict})
		synctest.Wait()
		if r := find(t, m, "0"); r.State != gpu.Normal {
			t.Errorf("%s at 50 °C, want NORMAL at once", r.State)
		}
		settle(9)
		if got := c.asked.Load(); got != 6 {
			t.Errorf("asked %d times, want 6: the new interval holds at once", got)
		}
		if r := find(t, m, "0"); r.State != gpu.Normal {
			t.Errorf("%s at 50 °C, want NORMAL by the new rules", r.State)
		}
		if got := len(m.History(c.uuid(), time.Time{}, 0)); got != 6 {
			t.Errorf("%d samples kept, want those of the last ten minutes", got)
		}
		stop()
	})
}

// A device that was checked is measured soon, and leaves its quarantine then, however
// rarely devices are measured.
func TestCheckedIsMeasuredSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		c := &card{}
		m := told([]device.Backend{with(c)}, monitor.Settings{Interval: time.Hour}, n.hooks())
		stop := start(t, m)
		settle(10)
		m.Checked(c.uuid(), time.Now(), proof.Passed, "")
		settle(1)
		if got := c.asked.Load(); got != 2 {
			t.Errorf("asked %d times, want once more after the check", got)
		}
		stop()
	})
}

func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &card{fast: scriptEvery(5*time.Minute, 40, 41, 42, 43, 44, 45, 46, 47)}
		m := monitor.New([]device.Backend{with(c)}, monitor.Settings{Interval: 5 * time.Minute, HistorySize: 5}, monitor.Keepers{})
		stop := start(t, m)
		begun := time.Now()
		history := func(since time.Time, limit int) (celsius []float64) {
			for _, s := range m.History(c.uuid(), since, limit) {
				celsius = append(celsius, float64(s.Temperature.Or(0)))
				if s.GPU != c.uuid() {
					t.Errorf("sample of %q", s.GPU)
				}
			}
			return celsius
		}
		settle(2.5 * 300)
		if got := history(time.Time{}, 0); !slices.Equal(got, []float64{40, 41, 42}) {
			t.Errorf("after 3 samples: %v", got)
		}
		settle(5 * 300)
		for _, c := range []struct {
			since time.Time
			limit int
			want  []float64
		}{
			{time.Time{}, 0, []float64{43, 44, 45, 46, 47}},
			{time.Time{}, 2, []float64{46, 47}},
			{time.Time{}, 1e9, []float64{43, 44, 45, 46, 47}},
			{begun.Add(25 * time.Minute), 0, []float64{45, 46, 47}},
			{begun.Add(25 * time.Minute), 1, []float64{47}},
			{begun.Add(time.Hour), 0, nil},
		} {
			if got := history(c.since, c.limit); !slices.Equal(got, c.want) {
				t.Errorf("since %v, at most %d: %v, want %v", c.since.Sub(begun), c.limit, got, c.want)
			}
		}
		if got := m.History("nobody", time.Time{}, 0); got != nil {
			t.Errorf("history of an unknown device: %v", got)
		}
		stop()
	})
}

// The history covers ten minutes, however often a device is sampled and however
// few samples are asked for. A longer interval needs fewer.
func TestHistoryCoversTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &card{}
		m := monitor.New([]device.Backend{with(c)}, monitor.Settings{Interval: time.Second, HistorySize: 5}, monitor.Keepers{})
		stop := start(t, m)
		for _, step := range []struct {
			interval time.Duration
			most     int
		}{{time.Second, 602}, {100 * time.Millisecond, 6002}, {30 * time.Second, 22}, {5 * time.Minute, 5}} {
			m.Configure(monitor.Settings{Interval: step.interval, HistorySize: 5})
			settle(4000)
			kept := m.History(c.uuid(), time.Time{}, 0)
			covers := kept[len(kept)-1].Time.Sub(kept[0].Time)
			if len(kept) < 5 || len(kept) > step.most || covers < 10*time.Minute {
				t.Errorf("every %v: %d samples cover %v, want at least ten minutes in at most %d", step.interval, len(kept), covers, step.most)
			}
			for i, s := range kept[1:] {
				if !s.Time.After(kept[i].Time) {
					t.Fatalf("sample %d is not newer than the one before", i+1)
				}
			}
		}
		stop()
	})
}

func TestReadingsAndFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := monitor.New([]device.Backend{with(&card{index: 10}, &card{index: 2}), with(&card{index: 7}, &card{index: 2})},
			monitor.Settings{}, monitor.Keepers{})
		if _, ok := m.Find(""); ok || len(m.Readings()) != 0 {
			t.Error("there is a device before anybody looked for one")
		}
		if err := m.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		var order []int
		for _, r := range m.Readings() {
			order = append(order, r.Device.Index)
			if !r.Sampled || r.State != gpu.Optimal || r.Health != gpu.Healthy || r.Sample.SlowTime.IsZero() {
				t.Errorf("after Once: %+v", r)
			}
		}
		if !slices.Equal(order, []int{2, 7, 10}) {
			t.Errorf("devices in the order %v, want each once, by index", order)
		}
		for ref, want := range map[string]int{"": 2, "2": 2, "10": 10, "GPU-7": 7} {
			if r := find(t, m, ref); r.Device.Index != want {
				t.Errorf("Find(%q) is device %d", ref, r.Device.Index)
			}
		}
		for _, ref := range []string{"1", "02", "+2", "-1", "GPU", "2 ", "99999999999999999999"} {
			if r, ok := m.Find(ref); ok {
				t.Errorf("Find(%q) is device %d, want none", ref, r.Device.Index)
			}
		}
	})
}

func TestSlowMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		reads := 0.0
		c := &card{slow: func(s *gpu.Slow) error {
			time.Sleep(30 * time.Millisecond)
			reads++
			s.Energy = gpu.Some(reads)
			return nil
		}}
		m := told([]device.Backend{with(c)}, monitor.Settings{}, n.hooks())
		stop := start(t, m)
		settle(0.5)
		if r := find(t, m, ""); r.Sample.Energy != gpu.Some(1.0) || r.Sample.SlowTime.Sub(r.Sample.Time) != 30*time.Millisecond {
			t.Errorf("energy %v, read %v after the rest; want the first reading early", r.Sample.Energy, r.Sample.SlowTime.Sub(r.Sample.Time))
		}
		settle(121)
		for i, s := range m.History(c.uuid(), time.Time{}, 0) {
			if want := float64(1 + i/60); s.Energy != gpu.Some(want) {
				t.Errorf("sample %d has energy %v, want %g carried along", i, s.Energy, want)
			}
			if at := s.Time.Sub(n.begun); at != time.Duration(i)*time.Second {
				t.Errorf("sample %d at %v: the slow metrics delayed it", i, at)
			}
		}
		slow := slices.DeleteFunc(n.costs, func(c monitor.Cost) bool { return c.Tier != monitor.TierSlow })
		if len(slow) != 3 || slow[0] != (monitor.Cost{Backend: "scripted", GPU: c.uuid(), Tier: "slow", Duration: 30 * time.Millisecond}) {
			t.Errorf("costs of the slow metrics: %+v, want three of 30 ms", slow)
		}
		stop()
	})
}

// While berth sets the fans of a device, the slow metrics, which have their speed, are
// read with the next sample, and then with every tenth.
func TestSlowMetricsOfADeviceThatBerthSteers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &card{}
		var speed atomic.Int64
		speed.Store(30)
		c.slow = func(s *gpu.Slow) error { s.Fan = gpu.Some(gpu.Percent(speed.Load())); return nil }
		m := told([]device.Backend{with(c)}, monitor.Settings{}, monitor.Hooks{})
		stop := start(t, m)
		settle(5.5)
		speed.Store(80)
		if settle(1); find(t, m, "").Sample.Fan != gpu.Some[gpu.Percent](30) {
			t.Error("nobody steered it, and it was read before its time")
		}
		m.Steered(c.uuid())
		if settle(1); find(t, m, "").Sample.Fan != gpu.Some[gpu.Percent](80) {
			t.Errorf("its fan was set to 80 %%, and the sample after that says %v", find(t, m, "").Sample.Fan)
		}
		speed.Store(90) // fans take their time
		if settle(10); find(t, m, "").Sample.Fan != gpu.Some[gpu.Percent](90) {
			t.Errorf("ten samples later the sample says %v", find(t, m, "").Sample.Fan)
		}
		stop()
	})
}

func TestOnceWithAHungDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hung := &card{index: 0, fast: func(*gpu.Sample) error { <-release; return nil }}
		m := monitor.New([]device.Backend{with(hung, &card{index: 1})}, monitor.Settings{}, monitor.Keepers{})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		begun := time.Now()
		if err := m.Once(ctx); err != nil {
			t.Errorf("Once: %v", err)
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("Once took %v, want the deadline of the call under way", took)
		}
		if r := find(t, m, "0"); r.Reason != "it does not answer within 1s" {
			t.Errorf("the device that hangs: %q", r.Reason)
		}
		if r := find(t, m, "1"); !r.Sampled {
			t.Error("the device beside it was not sampled")
		}
		if err := m.Once(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Once for somebody who has left: %v", err)
		}
		close(release)
	})
}

func TestSecondRunIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &card{}
		m := monitor.New([]device.Backend{with(c)}, monitor.Settings{}, monitor.Keepers{})
		stop := start(t, m)
		synctest.Wait()
		if err := m.Run(t.Context()); err == nil {
			t.Error("a second Run at the same time was not refused")
		}
		stop()
		asked := c.asked.Load()
		again := start(t, m)
		settle(1.5)
		if c.asked.Load() == asked {
			t.Error("a Run after the first one samples nothing")
		}
		again()
	})
}

// Hooks that take their time, and that ask the monitor back, slow down their
// own device only.
func TestSlowHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *monitor.Monitor
		seen := map[string]int{} // only the slow device's, one call at a time
		hooks := monitor.Hooks{
			Event: func(e gpu.Event) {
				if _, ok := m.Find(e.GPU); !ok && e.GPU != "" {
					t.Errorf("%s about a device that is not there", e.Code)
				}
				if e.Is(gpu.EventThrottle) {
					m.Stop(gpu.By{})
					m.Start(gpu.By{})
				}
			},
			Reading: func(r monitor.Reading) {
				if r.Device.Index == 0 {
					seen[r.Device.UUID]++
					time.Sleep(5 * time.Second)
				}
				m.Readings()
				m.History(r.Device.UUID, time.Time{}, 0)
				m.Configure(monitor.Settings{})
			},
		}
		slow, quick := &card{index: 0, fast: script(50, 80)}, &card{index: 1}
		m = told([]device.Backend{with(slow, quick)}, monitor.Settings{}, hooks)
		stop := start(t, m)
		settle(20.5)
		if slow, quick := slow.asked.Load(), quick.asked.Load(); slow != 5 || quick < 20 {
			t.Errorf("asked %d and %d times, want 5 for the slow hook and 21 for the other", slow, quick)
		}
		stop()
		if seen["GPU-0"] != 5 {
			t.Errorf("%d readings told, want 5", seen["GPU-0"])
		}
	})
}

// Once beside Run asks each device in turn: no answer is missed because
// somebody else is asking, or has left while asking.
func TestOnceBesideRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		c := &card{fast: func(s *gpu.Sample) error {
			time.Sleep(200 * time.Millisecond)
			s.Temperature = gpu.Some(gpu.Celsius(50))
			return nil
		}}
		m := told([]device.Backend{with(c)}, monitor.Settings{}, n.hooks())
		stop := start(t, m)
		settle(3.1) // in the middle of a sample
		if err := m.Once(t.Context()); err != nil {
			t.Error(err)
		}
		if got := n.after(); got != 3400*time.Millisecond {
			t.Errorf("Once was back at %v, want after the sample under way and its own", got)
		}
		settle(0.75) // just before the next sample
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := m.Once(ctx); err != nil {
			t.Error(err)
		}
		settle(5)
		stop()
		wantTold(t, &n, c.uuid(), "0 device_found", "0.2 state_change UNAVAILABLE→OPTIMAL")
	})
}

// BenchmarkOnce is what a tick costs at most beside the driver: looking for
// devices, which a tick does not, then asking, judging, keeping and telling.
func BenchmarkOnce(b *testing.B) {
	c := &card{fast: func(s *gpu.Sample) error {
		s.Temperature = gpu.Some(gpu.Celsius(50))
		s.MemoryTotal, s.MemoryUsed = gpu.Some(gpu.MiB(3000)), gpu.Some(gpu.MiB(2200))
		return nil
	}}
	m := told([]device.Backend{with(c)}, monitor.Settings{}, monitor.Hooks{
		Event: func(gpu.Event) {}, Reading: func(monitor.Reading) {}, Cost: func(monitor.Cost) {},
	})
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Once(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
