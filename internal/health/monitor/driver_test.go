package monitor_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/nvml/xid"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

func TestScanThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		release := make(chan struct{})
		late := &card{index: 1}
		hanging := &scripted{scan: func(context.Context) ([]device.Device, error) {
			<-release
			return []device.Device{late}, nil
		}}
		c := &card{index: 0}
		m := told([]device.Backend{hanging, with(c)}, monitor.Settings{}, n.hooks())
		stop := start(t, m)
		settle(105.5) // the numbers of its devices wait 5 s for those that hang
		if got := c.asked.Load(); got != 101 {
			t.Errorf("the other backend's device was asked %d times in 100 s", got)
		}
		wantTold(t, &n, "", "10 monitoring")
		close(release)
		settle(15)
		wantTold(t, &n, "", "10 monitoring", "105.5 monitoring")
		wantTold(t, &n, "GPU-1", "105.5 device_found", "105.5 state_change UNAVAILABLE→OPTIMAL")
		stop()
	})
}

func TestRunLeavesHungDriversBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		release := make(chan struct{})
		found := make(chan device.Fault, 1)
		c := &card{fast: func(*gpu.Sample) error { <-release; return nil }}
		b := &scripted{
			scan: func(ctx context.Context) ([]device.Device, error) { return []device.Device{c}, nil },
			watch: func(_ context.Context, tell func(device.Fault)) error {
				<-release
				tell(<-found)
				return nil
			},
		}
		m := told([]device.Backend{b}, monitor.Settings{}, n.hooks())
		stop := start(t, m)
		settle(1.5)
		begun := time.Now()
		stop()
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("Run took %v to leave", took)
		}
		found <- device.Fault{GPU: c.uuid()}
		close(release)
		synctest.Wait()
		wantTold(t, &n, c.uuid(), "0 device_found")
	})
}

func TestScanThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		c := &card{}
		b := &scripted{scan: func(context.Context) ([]device.Device, error) {
			if n.after() < 25*time.Second {
				return nil, &device.Error{Op: "list devices", Err: device.ErrNoPermission, Hint: "join the group video"}
			}
			return []device.Device{c}, nil
		}}
		m := told([]device.Backend{b}, monitor.Settings{}, n.hooks())
		if err := m.Once(t.Context()); !errors.Is(err, device.ErrNoPermission) {
			t.Errorf("Once: %v, want the reason", err)
		}
		const text = "Cannot look for devices (scripted): list devices: no permission (join the group video); berth tries again every 10s"
		if n.events[0].Text != text {
			t.Errorf("told %q, want %q", n.events[0].Text, text)
		}
		stop := start(t, m)
		settle(35)
		wantTold(t, &n, "", "0 monitoring", "30 monitoring")
		wantTold(t, &n, "GPU-0", "30 device_found", "30 state_change UNAVAILABLE→OPTIMAL")
		stop()
	})
}

func TestNewDeviceIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		first, second := &card{index: 1}, &card{index: 0}
		b := &scripted{scan: func(context.Context) ([]device.Device, error) {
			if n.after() < 5*time.Second {
				return []device.Device{first}, nil
			}
			return []device.Device{first, second}, nil
		}}
		m := told([]device.Backend{b}, monitor.Settings{}, n.hooks())
		stop := start(t, m)
		settle(65)
		wantTold(t, &n, "GPU-0", "60 device_found", "60 state_change UNAVAILABLE→OPTIMAL")
		if r := find(t, m, ""); r.Device.Index != 0 || !r.Sampled {
			t.Errorf("the first device is %d, want the new one with index 0", r.Device.Index)
		}
		stop()
	})
}

func TestWatchThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		tries := 0 // one Watch at a time
		b := with(&card{})
		b.watch = func(ctx context.Context, found func(device.Fault)) error {
			if tries++; tries <= 3 {
				return errors.New("register events: no memory")
			}
			found(device.Fault{GPU: "GPU-0", PID: 4711, Fault: xid.Describe(31), Detail: xid.Detail(31)})
			<-ctx.Done()
			return nil
		}
		m := told([]device.Backend{b}, monitor.Settings{}, n.hooks())
		stop := start(t, m)
		settle(65)
		stop()
		wantTold(t, &n, "", "0 monitoring")
		wantTold(t, &n, "GPU-0", "0 device_found", "0 state_change UNAVAILABLE→OPTIMAL", "30 device_fault")
		if e := n.events[len(n.events)-1]; !strings.HasPrefix(e.Text, "GPU 0: XID 31") || e.Severity != gpu.Warning ||
			e.Data["xid"] != 31 || e.Data["pid"] != 4711 || e.Data["class"] != "program" || e.Data["kind"] != "xid" {
			t.Errorf("fault %+v", e)
		}
		if r := find(t, m, ""); r.Health != gpu.Healthy {
			t.Errorf("%s after an application's fault, want healthy", r.Health)
		}
	})
}

// While the monitor is off nobody listens either, and when it is on again
// somebody does.
func TestWatchFollowsTheSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var listening atomic.Int64
		b := with()
		b.watch = func(ctx context.Context, _ func(device.Fault)) error {
			listening.Add(1)
			defer listening.Add(-1)
			<-ctx.Done()
			return nil
		}
		m := monitor.New([]device.Backend{b}, monitor.Settings{}, monitor.Keepers{})
		stop := start(t, m)
		for _, want := range []int64{1, 0, 1, 0} {
			synctest.Wait()
			if got := listening.Load(); got != want {
				t.Errorf("%d listening, want %d", got, want)
			}
			if !m.Stop(gpu.By{}) {
				m.Start(gpu.By{})
			}
		}
		stop()
	})
}

func TestHealthAfterDeviceFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := make(chan device.Fault)
		var lost atomic.Bool
		c := &card{fast: func(s *gpu.Sample) error {
			if lost.Load() {
				return device.ErrLost
			}
			s.Temperature = gpu.Some(gpu.Celsius(50))
			return nil
		}}
		b := with(c)
		b.watch = func(ctx context.Context, found func(device.Fault)) error {
			for {
				select {
				case f := <-faults:
					found(f)
				case <-ctx.Done():
					return nil
				}
			}
		}
		standings, _ := monitor.OpenStandings("")
		m := monitor.New([]device.Backend{b}, monitor.Settings{}, monitor.Keepers{Standings: standings})
		stop := start(t, m)
		want := func(when string, h gpu.Health) {
			t.Helper()
			synctest.Wait()
			if r := find(t, m, ""); r.Health != h {
				t.Errorf("%s: %s, want %s", when, r.Health, h)
			}
		}
		settle(0.5)
		want("at the start", gpu.Healthy)
		faults <- device.Fault{GPU: c.uuid(), Fault: xid.Describe(79)}
		want("after a fault", gpu.Unhealthy)
		settle(59)
		want("in quarantine", gpu.Unhealthy)
		settle(2)
		want("on probation", gpu.HealthUnknown)
		faults <- device.Fault{GPU: c.uuid(), Fault: xid.Describe(79)}
		settle(119)
		want("in quarantine again, for twice as long", gpu.Unhealthy)
		settle(2)
		want("on probation again", gpu.HealthUnknown)
		settle(5 * 60)
		want("after a good probation", gpu.Healthy)
		if kept := standings.All()[c.uuid()]; kept.Relapses != 1 {
			t.Errorf("kept %+v, want the relapse to be remembered", kept)
		}

		faults <- device.Fault{GPU: c.uuid(), Fault: xid.Describe(79)}
		lost.Store(true)
		settle(1)
		want("lost", gpu.HealthUnknown)
		lost.Store(false)
		settle(1)
		want("lost and back, once too often", gpu.Unhealthy)
		stop()
	})
}

// A device that was in quarantine when the daemon was killed still is when it
// is back, and its memory running out costs it a slot.
func TestStandingIsRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		c := &card{fast: func(s *gpu.Sample) error {
			s.MemoryTotal, s.MemoryUsed = gpu.Some(gpu.MiB(1000)), gpu.Some(gpu.MiB(990))
			return nil
		}}
		var before health.Standing
		before.Fail(health.DefaultRules(), time.Now().Add(-30*time.Second), "XID 48")
		standings, _ := monitor.OpenStandings("")
		standings.Changed(c.uuid(), before)
		m := monitor.New([]device.Backend{with(c)}, monitor.Settings{}, monitor.Keepers{Standings: standings})
		m.Subscribe(n.hooks())
		stop := start(t, m)
		settle(0.5)
		if r := find(t, m, ""); r.State != gpu.Unavailable || r.Health != gpu.Unhealthy || !r.Until.Equal(before.Until) {
			t.Errorf("%s and %s until %v, want it in quarantine until %v", r.State, r.Health, r.Until, before.Until)
		}
		settle(30)
		if r := find(t, m, ""); r.State != gpu.Critical || r.Standing.Withheld != 1 {
			t.Errorf("%s with %d slots withheld", r.State, r.Standing.Withheld)
		}
		wantTold(t, &n, c.uuid(), "0 device_found", "0 slots_changed", "30 device_probation",
			"30 state_change UNAVAILABLE→CRITICAL +throttle +critical")
		stop()
	})
}

// Quarantine does not hide heat: it is told, holders are told to stop for it,
// and a device that is silent meanwhile is still in quarantine.
func TestHeatInQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		//                     0   1   2   3   4   5
		celsius := script(60, 60, 60, 95, 95, 60)
		c := &card{fast: func(s *gpu.Sample) error {
			if n.after() > 6*time.Second && n.after() < 8*time.Second {
				return errors.New("no answer")
			}
			return celsius(s)
		}}
		b := with(c)
		b.watch = func(ctx context.Context, found func(device.Fault)) error {
			time.Sleep(1500 * time.Millisecond) // simulated
			found(device.Fault{GPU: c.uuid(), Fault: xid.Describe(48)})
			<-ctx.Done()
			return nil
		}
		m := told([]device.Backend{b}, monitor.Settings{}, n.hooks())
		stop := start(t, m)
		want := func(when string, hot, halt bool) {
			t.Helper()
			r := find(t, m, "")
			if r.State != gpu.Unavailable || r.Hot != hot || r.Stop != halt || r.Until.IsZero() {
				t.Errorf("%s: %s, hot %v, stop %v until %v; want UNAVAILABLE, %v, %v", when, r.State, r.Hot, r.Stop, r.Until, hot, halt)
			}
		}
		settle(2.5)
		want("cool", false, true)
		settle(2)
		want("too hot", true, true)
		settle(3)
		want("silent", false, true)
		settle(1)
		want("answering again", false, true)
		wantTold(t, &n, c.uuid(), "0 device_found", "0 state_change UNAVAILABLE→OPTIMAL",
			"1.5 device_fault", "1.5 device_quarantined OPTIMAL→UNAVAILABLE +state_change +throttle", "3 overheat")
		for _, step := range []struct {
			seconds float64
			want    gpu.State
		}{{55, gpu.Critical}, {5, gpu.Optimal}} { // its pause began when it was cool again, at 5 s
			settle(step.seconds)
			if r := find(t, m, ""); r.State != step.want {
				t.Errorf("after the quarantine: %s, want %s", r.State, step.want)
			}
		}
		stop()
	})
}

// A fault the driver cannot place is told all the same.
func TestFaultOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n notes
		b := with()
		b.watch = func(ctx context.Context, found func(device.Fault)) error {
			found(device.Fault{Fault: gpu.Fault{Name: "a memory error", Class: gpu.FaultDevice, Severity: gpu.Serious}})
			<-ctx.Done()
			return nil
		}
		m := told([]device.Backend{b}, monitor.Settings{}, n.hooks())
		stop := start(t, m)
		synctest.Wait()
		if len(n.events) != 1 || n.events[0].Text != "The driver reported a fault without saying on which GPU: a memory error" || n.events[0].Severity != gpu.Serious {
			t.Errorf("told %+v", n.events)
		}
		stop()
	})
}
