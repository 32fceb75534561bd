package desk

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/sim"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/health/heat"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/health/thermal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

// ahead is a device that has passed temp_normal, passes temp_throttle in 40 s, and
// never temp_critical.
func ahead() monitor.Reading {
	o := &monitor.Outlook{Power: 110.04, Settles: heat.Guess{Mean: 87.96, Low: 84, High: 91}, PerWatt: 0.36, Crossings: thermal.Crossings(gpu.DefaultThresholds())}
	normal, throttle := &o.Crossings[0], &o.Crossings[1]
	normal.Ever, normal.Passed, normal.Sure = true, true, true
	throttle.Ever, throttle.In, throttle.Soonest, throttle.Latest = true, 40*time.Second, 30*time.Second, heat.Forever
	return monitor.Reading{
		Device: gpu.Device{UUID: "GPU-0"}, State: gpu.Normal, Reason: "70 °C is above temp_optimal 65 °C",
		Multiplier: 0.5, Cause: monitor.CauseForecast, Slower: "it passes temp_throttle", Until: time.Unix(9, 0), Outlook: o,
	}
}

func TestThrottleSaysWhatIsAhead(t *testing.T) {
	until := time.Unix(9, 0)
	want := api.Throttle{
		GPU: "GPU-0", State: gpu.Normal, Multiplier: 0.5, Cause: "forecast", Throttle: true, Reason: "it passes temp_throttle", Until: &until,
		Outlook: &api.Outlook{Power: 110, Settles: 88, Low: 84, High: 91, PerWatt: 0.36, Thresholds: []api.ThresholdForecast{
			{Threshold: "temp_normal", Limit: 75, Seconds: gpu.Some(0.0), Soonest: gpu.Some(0.0), Latest: gpu.Some(0.0), Text: "it has passed"},
			{Threshold: "temp_throttle", Limit: 85, Seconds: gpu.Some(40.0), Soonest: gpu.Some(30.0), Text: "in 40 s"},
			{Threshold: "temp_critical", Limit: 90, Text: "not at this power"},
		}},
	}
	if diff := cmp.Diff(want, Throttle(ahead()), cmp.AllowUnexported(gpu.Opt[float64]{})); diff != "" {
		t.Errorf("throttle (-want +got):\n%s", diff)
	}
	plain := monitor.Reading{State: gpu.Normal, Multiplier: 0.8, Cause: monitor.CauseState, Reason: "warm"}
	if got := Throttle(plain); got.Throttle || got.Outlook != nil || got.Reason != "warm" {
		t.Errorf("a device that is well: %+v", got)
	}
}

// A trend has a forecast once berth has watched the device, and none before.
func TestTrendHasAForecast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := sim.Open("rtx-4060", sim.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m := monitor.New([]device.Backend{b}, monitor.Settings{}, monitor.Keepers{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		book, err := ledger.Open(ledger.Options{
			Settings:  quota.Settings{Device: func(string) quota.DeviceSettings { return quota.DeviceSettings{} }},
			Processes: process.Proc(),
			Open:      func(func(journal.Entry) error) (journal.Journal, error) { return journal.Forgetful(), nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		d := New(Parts{Monitor: m, Ledger: book})
		trend := func() api.Trend {
			r, err := d.Devices.Find("")
			if err != nil {
				t.Fatal(err)
			}
			return d.Devices.Trend(r, 5, time.Now())
		}
		time.Sleep(5 * time.Second) // simulated
		if got := trend(); got.Forecast != nil || got.Outlook != nil || got.Samples < 5 {
			t.Errorf("after 5 s: %+v", got)
		}
		time.Sleep(10 * time.Minute) // simulated
		got := trend()
		if len(got.Forecast) != len(horizons) || got.Outlook == nil || len(got.Outlook.Thresholds) != 3 {
			t.Fatalf("after ten minutes: %+v", got)
		}
		for _, f := range got.Forecast {
			if f.Low > f.High || f.Temperature < 20 || f.Temperature > 90 {
				t.Errorf("in %v s: %v, from %v to %v", f.In, f.Temperature, f.Low, f.High)
			}
		}
		model, _ := m.Model(got.GPU)
		held := []lease.Holding{{Lease: &lease.Lease{ID: "small", Fence: 1}}, {Lease: &lease.Lease{ID: "large", Fence: 2}}, {Lease: &lease.Lease{ID: "unmeasured", Fence: 3}}, {Lease: &lease.Lease{ID: "beyond", Fence: 4}}}
		gone := without(&model, got.Outlook.Power, held, func(l *lease.Lease) gpu.Opt[gpu.Watts] {
			return map[uint64]gpu.Opt[gpu.Watts]{1: gpu.Some[gpu.Watts](2), 2: gpu.Some[gpu.Watts](5), 4: gpu.Some(got.Outlook.Power)}[l.Fence]
		})
		if len(gone) != 2 || gone[0].Lease != "large" || gone[0].Settles >= gone[1].Settles || gone[1].Settles >= got.Outlook.Settles {
			t.Errorf("it settles at %v; without single leases, of which the device has never been without the last: %+v", got.Outlook.Settles, gone)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A drained device has the slots that are in use, and no more: it grants nothing.
func TestUtilizationLeavesOutWhatIsDrained(t *testing.T) {
	status := func(uuid string, active int, drain *api.Drain) api.Status {
		return api.Status{Device: gpu.Device{UUID: uuid}, State: gpu.Optimal, Slots: api.Slots{Active: active, Capacity: 4}, Drain: drain}
	}
	u := Utilization([]api.Status{status("a", 1, nil), status("b", 2, &api.Drain{}), status("c", 0, &api.Drain{})})
	if u.TotalGPUs != 3 || u.TotalCapacity != 6 || u.TotalActive != 3 || u.Percent != 50 || u.PerGPU["b"] != (api.GPUUtilization{Active: 2, Capacity: 2, Percent: 100}) || u.PerGPU["c"].Capacity != 0 {
		t.Errorf("%+v", u)
	}
}
