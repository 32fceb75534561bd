package desk

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/health/heat"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/health/thermal"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Devices are the GPUs of this machine: how they are, and what operators do to them.
type Devices struct {
	monitor  *monitor.Monitor
	ledger   *ledger.Ledger
	energy   *energy.Meters
	drains   *drains.Drains // nil if nothing closes devices
	checkup  Checkup        // nil if devices cannot be checked
	throttle Throttler      // nil if nothing acts on devices
	config   func() *config.Config
	publish  func(gpu.Event)
	note     func() string // returns why there are no devices
	record   recorder

	switching sync.Mutex // held while monitoring is switched on or off
}

// Status returns the status of a device. It leaves out the sample, of which each caller
// sees other parts.
func (d *Devices) Status(r monitor.Reading) api.Status {
	sum := d.ledger.Sum(r.Device.UUID)
	return api.Status{
		Device: r.Device, State: r.State, Since: r.Since, Reason: r.Reason, StateCause: r.StateCause,
		Multiplier: r.Multiplier, Cause: r.Cause, Slower: r.Slower, Outlook: outlookOf(r.Outlook), Health: r.Health, Stale: r.Stale,
		Slots: api.Slots{Active: sum.Active, Capacity: sum.MaxPipelines, Usable: sum.Usable},
		Trust: trustOf(r.Standing, sum.MaxPipelines), Drain: d.drainOf(r.Device),
		Throttling: d.Throttling(r.Device.UUID),
	}
}

// trustOf returns how far a device is trusted, or nil if it is trusted fully or has no
// slot to lose.
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

// Utilization counts the slots of the devices that can be used. It leaves UNAVAILABLE
// devices out, in the totals and per device. A drained device has only the slots that are
// in use: nobody gets another one there.
func Utilization(devices []api.Status) api.Utilization {
	u := api.Utilization{PerGPU: make(map[string]api.GPUUtilization, len(devices))}
	for _, d := range devices {
		if d.State == gpu.Unavailable {
			continue
		}
		capacity := d.Slots.Capacity
		if d.Drain != nil {
			capacity = d.Slots.Active
		}
		u.TotalGPUs++
		u.TotalCapacity += capacity
		u.TotalActive += d.Slots.Active
		u.PerGPU[d.Device.UUID] = api.GPUUtilization{Active: d.Slots.Active, Capacity: capacity, Percent: percent(d.Slots.Active, capacity)}
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

// horizons lists how far ahead a trend forecasts the temperature.
var horizons = []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}

// Trend returns the course of a device's temperature over the last minutes, and its
// forecast.
func (d *Devices) Trend(r monitor.Reading, minutes float64, now time.Time) api.Trend {
	since := now.Add(-time.Duration(minutes * float64(time.Minute)))
	samples := d.monitor.History(r.Device.UUID, since, 0)
	course := thermal.Trend(thermal.Points(samples))
	t := api.Trend{
		GPU: r.Device.UUID, Minutes: minutes, Covers: Covers(samples).Seconds(), Samples: course.Samples,
		Min: course.Min, Max: course.Max, Average: course.Average, Slope: course.Slope, Direction: string(course.Direction),
		Outlook: outlookOf(r.Outlook),
	}
	if model, known := d.monitor.Model(r.Device.UUID); known && r.Outlook != nil {
		for _, ahead := range horizons {
			g := model.Present(ahead)
			t.Forecast = append(t.Forecast, api.TemperatureForecast{In: ahead.Seconds(), Temperature: tenth(g.Mean), Low: tenth(g.Low), High: tenth(g.High)})
		}
		t.Without = without(&model, r.Outlook.Power, d.ledger.Holdings(r.Device.UUID), func(l *lease.Lease) gpu.Opt[gpu.Watts] {
			return d.energy.Draw(l.Fence, r.Device.UUID)
		})
	}
	return t
}

// without returns, for each lease on a device whose own draw is known, where the
// temperature of the device would settle without that lease, as far as the device has been
// there before. The lease that draws most
// comes first.
func without(m *heat.Model, power gpu.Watts, holdings []lease.Holding, draw func(*lease.Lease) gpu.Opt[gpu.Watts]) []api.WithoutLease {
	var list []api.WithoutLease
	for _, h := range holdings {
		watts, known := draw(h.Lease).Get()
		if !known {
			continue
		}
		g := m.Settle(max(power-watts, 0))
		if !m.Measured(max(power-watts, 0), g.Mean) {
			continue // nobody has seen that, and a number would pretend so
		}
		list = append(list, api.WithoutLease{
			Lease: h.Lease.ID, Power: gpu.Watts(tenths(float64(watts))), Settles: tenth(g.Mean), Low: tenth(g.Low), High: tenth(g.High),
		})
	}
	slices.SortStableFunc(list, func(a, b api.WithoutLease) int { return cmp.Compare(b.Power, a.Power) })
	return list
}

// outlookOf returns the outlook of a temperature as the API shows it.
func outlookOf(o *monitor.Outlook) *api.Outlook {
	if o == nil {
		return nil
	}
	out := &api.Outlook{
		Power: gpu.Watts(tenths(float64(o.Power))), PerWatt: math.Round(o.PerWatt*1e4) / 1e4,
		Settles: tenth(o.Settles.Mean), Low: tenth(o.Settles.Low), High: tenth(o.Settles.High),
	}
	for _, c := range o.Crossings {
		t := api.ThresholdForecast{Threshold: c.Threshold, Limit: c.Limit, Text: "not at this power"}
		if c.Ever {
			t.Seconds, t.Text = gpu.Some(tenths(c.In.Seconds())), c.When()
			t.Soonest = gpu.Some(tenths(c.Soonest.Seconds()))
			if c.Latest != heat.Forever {
				t.Latest = gpu.Some(tenths(c.Latest.Seconds()))
			}
		}
		if c.Passed {
			t.Text = "it has passed"
		}
		out.Thresholds = append(out.Thresholds, t)
	}
	return out
}

// Covers returns the time from the oldest sample to the newest.
func Covers(samples []gpu.Sample) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	return samples[len(samples)-1].Time.Sub(samples[0].Time)
}

// Available lists how much can be leased on each device.
func (d *Devices) Available() api.Available {
	sums := d.ledger.Sums()
	all := api.Available{GPUs: []api.DeviceAvailable{}}
	for _, r := range d.monitor.Readings() {
		if sum, known := sums[r.Device.UUID]; known {
			all.GPUs = append(all.GPUs, availableOf(sum))
		}
	}
	return all
}

// availableOf returns how much can be leased on a device, and the amounts that lead to
// it.
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
		GPU: r.Device.UUID, State: r.State, Multiplier: r.Multiplier, Cause: r.Cause,
		Throttle: r.Multiplier < gpu.Normal.Multiplier(), Stop: r.Stop, Reason: cmp.Or(r.Slower, r.Reason), Outlook: outlookOf(r.Outlook),
	}
	if !r.Until.IsZero() {
		t.Until = &r.Until
	}
	return t
}

// Throttling returns what berth does by itself about a device, or nil if it does nothing.
func (d *Devices) Throttling(uuid string) *api.Throttling {
	if d.throttle == nil {
		return nil
	}
	a := d.throttle.Acts(uuid)
	t := &api.Throttling{
		Policy: string(a.Policy), PacedLeases: a.Paced, PowerLimit: a.Limit, Original: a.Original, PowerSteps: a.Steps, Fan: a.Fan, Denied: a.Denied,
	}
	if a.Paced > 0 {
		t.Share = gpu.Some(a.Share)
	}
	return t
}

// Find returns the device with an index or a UUID, or refuses and lists the devices. An
// empty name means the first device.
func (d *Devices) Find(name string) (monitor.Reading, error) {
	if r, found := d.monitor.Find(name); found {
		return r, nil
	}
	known := d.monitor.Readings()
	if len(known) == 0 {
		return monitor.Reading{}, Refuse(Unknown, "no_device", "There is no GPU here. %s", d.note())
	}
	uuids := make([]string, len(known))
	first, last := known[0].Device.Index, known[0].Device.Index
	for i, r := range known {
		uuids[i] = r.Device.UUID
		first, last = min(first, r.Device.Index), max(last, r.Device.Index)
	}
	indexes := strconv.Itoa(first)
	if last != first {
		indexes = fmt.Sprintf("from %d to %d", first, last)
	}
	meant := ""
	if near, ok := words.Nearest(name, uuids); ok {
		meant = " Did you mean " + near + "?"
	}
	refusal := Refuse(Unknown, "unknown_device", "There is no device %q here.%s Use an index (%s) or a UUID: berth status and GET /api/gpu/status/all list them.", name, meant, indexes)
	refusal.Extra = map[string]any{"known": uuids}
	return monitor.Reading{}, refusal
}

// label returns the name of a device for people.
func (d *Devices) label(uuid string) string {
	if r, known := d.monitor.Find(uuid); known {
		return fmt.Sprintf("GPU %d", r.Device.Index)
	}
	return uuid
}

// Monitoring switches the sampling loop on or off, and reports whether that
// changed anything.
func (d *Devices) Monitoring(by Caller, on bool) (changed bool, err error) {
	d.switching.Lock()
	defer d.switching.Unlock()
	if d.monitor.Running() == on {
		return false, nil
	}
	word := map[bool]string{true: "on", false: "off"}
	err = d.record.act(api.AuditEntry{
		Who: audit.Who(by.Actor), What: access.Monitor.String(), Object: api.AuditObject{Kind: "monitoring"},
		Before: map[string]string{"monitoring": word[!on]}, After: map[string]string{"monitoring": word[on]},
	}, func() error {
		if on {
			changed = d.monitor.Start(lease.ByOf(by.Actor))
			if d.throttle != nil {
				d.throttle.Resume()
			}
		} else {
			if d.throttle != nil {
				d.throttle.Rest(context.Background()) // nobody would notice that a device is cool again
			}
			changed = d.monitor.Stop(lease.ByOf(by.Actor))
		}
		return nil
	})
	if err != nil {
		return false, Refused(err)
	}
	return changed, nil
}

// drainOf returns the drain of a device; nil if it is not drained.
func (d *Devices) drainOf(on gpu.Device) *api.Drain {
	if drain, drained := d.drained(on); drained {
		return DrainOf(drain)
	}
	return nil
}

func (d *Devices) drained(on gpu.Device) (drain health.Drain, drained bool) {
	if d.drains == nil {
		return drain, false
	}
	return d.drains.Drained(on)
}

// candidates lists the devices that a request may get: the one that it names, or all.
func (d *Devices) candidates(named []gpu.Device) []gpu.Device {
	if len(named) > 0 {
		return named
	}
	var all []gpu.Device
	for _, r := range d.monitor.Readings() {
		all = append(all, r.Device)
	}
	return all
}

// DrainOf returns a drain as the API shows it.
func DrainOf(drain health.Drain) *api.Drain {
	out := &api.Drain{By: drain.By, Reason: drain.Why, Since: drain.Since}
	if !drain.Until.IsZero() {
		out.Until = &drain.Until
	}
	return out
}

// named returns the device that a request wants to change. It refuses an empty name: a
// change has no default device.
func (d *Devices) named(ref gpu.Ref) (gpu.Device, error) {
	if ref == "" {
		return gpu.Device{}, wrongFields(lease.FieldErrors{{Field: "gpu", Detail: "is missing: name a device by index or UUID"}})
	}
	r, err := d.Find(string(ref))
	return r.Device, err
}
