package desk

import (
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/ledger"
	"github.com/berth-gpu/berth/internal/monitor"
	"github.com/berth-gpu/berth/internal/thermal"
)

// Status returns how a device stands. It leaves out the sample: each caller sees
// other parts of it.
func (d *Desk) Status(r monitor.Reading) api.Status {
	sum := d.Ledger.Sum(r.Device.UUID)
	return api.Status{
		Device: r.Device, State: r.State, Since: r.Since, Reason: r.Reason,
		Multiplier: r.Multiplier, Health: r.Health, Stale: r.Stale,
		Slots: api.Slots{Active: sum.Active, Capacity: sum.MaxPipelines, Usable: sum.Usable},
		Trust: trustOf(r.Standing, sum.MaxPipelines), Drain: d.drainOf(r.Device),
		Throttling: d.Throttling(r.Device.UUID),
	}
}

// trustOf returns how far a device is trusted; nil if it is trusted fully, or has
// no slot to lose.
func trustOf(s health.Standing, slots int) *api.Trust {
	withheld := min(s.Withheld, max(slots-1, 0))
	if s.Phase == health.Trusted && withheld == 0 {
		return nil
	}
	t := &api.Trust{Phase: string(s.Phase), Why: s.Cause(), Withheld: withheld}
	if s.Phase != health.Trusted {
		t.Since, t.Until = &s.Since, &s.Until
	}
	return t
}

// Utilization counts the slots of the devices that can be used. It leaves
// UNAVAILABLE devices out, in the totals and per device.
func Utilization(devices []api.Status) api.Utilization {
	u := api.Utilization{PerGPU: make(map[string]api.GPUUtilization, len(devices))}
	for _, d := range devices {
		if d.State == gpu.Unavailable {
			continue
		}
		u.TotalGPUs++
		u.TotalCapacity += d.Slots.Capacity
		u.TotalActive += d.Slots.Active
		u.PerGPU[d.Device.UUID] = api.GPUUtilization{
			Active: d.Slots.Active, Capacity: d.Slots.Capacity, Percent: percent(d.Slots.Active, d.Slots.Capacity),
		}
	}
	u.Percent = percent(u.TotalActive, u.TotalCapacity)
	return u
}

func percent(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// Trend returns the course of a device's temperature over the last minutes, and
// a forecast.
func (d *Desk) Trend(r monitor.Reading, minutes float64, now time.Time) api.Trend {
	since := now.Add(-time.Duration(minutes * float64(time.Minute)))
	samples := d.Monitor.History(r.Device.UUID, since, 0)
	course := thermal.Trend(thermal.Points(samples), thermal.Horizons()...)
	t := api.Trend{
		GPU: r.Device.UUID, Minutes: minutes, Covers: Covers(samples).Seconds(), Samples: course.Samples,
		Min: course.Min, Max: course.Max, Average: course.Average, Slope: course.Slope, Direction: string(course.Direction),
	}
	for _, f := range course.Forecast {
		t.Forecast = append(t.Forecast, api.TemperatureForecast{In: f.In.Seconds(), Temperature: f.Temperature})
	}
	return t
}

// Covers returns the time from the oldest sample to the newest.
func Covers(samples []gpu.Sample) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	return samples[len(samples)-1].Time.Sub(samples[0].Time)
}

// Available lists what can be leased on each device.
func (d *Desk) Available() api.Available {
	sums := d.Ledger.Sums()
	all := api.Available{GPUs: []api.DeviceAvailable{}}
	for _, r := range d.Monitor.Readings() {
		if sum, known := sums[r.Device.UUID]; known {
			all.GPUs = append(all.GPUs, availableOf(sum))
		}
	}
	return all
}

// availableOf returns the sum that leads to what can be leased on a device.
func availableOf(sum ledger.DeviceSum) api.DeviceAvailable {
	a := api.DeviceAvailable{
		GPU: sum.Device.UUID, State: sum.State, Health: sum.Health,
		Total: sum.Total, Limit: sum.Ceiling() + sum.Reserve, Reserve: sum.Reserve,
		Leased: sum.Leased + sum.Overuse, Foreign: sum.Foreign, Reason: sum.Closed,
	}
	if sum.Closed == "" {
		if a.Available = max(sum.Available(), 0); a.Available == 0 {
			a.Reason = "Everything that may be leased is in use."
		}
	}
	return a
}

// Throttle returns how fast work on a device may run, why, and until when.
func Throttle(r monitor.Reading) api.Throttle {
	t := api.Throttle{
		GPU: r.Device.UUID, State: r.State, Multiplier: r.Multiplier,
		Throttle: r.Multiplier < gpu.Normal.Multiplier(), Stop: r.Stop, Reason: r.Reason,
	}
	if !r.Until.IsZero() {
		t.Until = &r.Until
	}
	return t
}
