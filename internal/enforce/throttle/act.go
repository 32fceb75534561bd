package throttle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// act does what a reading of a device asks for, and returns what berth does to the device
// from then on.
func (t *Throttle) act(ctx context.Context, h *hand, r monitor.Reading, s config.GPU, services map[string]config.Service) slowdown.Acts {
	denied := t.Denied(h.uuid)
	policy := slowdown.Policy(s.Throttle)
	multiplier, sees := h.heat(r, s)
	if r.Stale {
		h.limit = h.limit.Doubt()
	}
	switch sees {
	case nothingNew:
	case blind: // a reason that nobody can see is none
		h.ramp = slowdown.Ramp{}
		t.paces.hold(h.uuid, nil, 1, "", t.Count)
		if denied == "" {
			t.giveBack(ctx, h, r)
		}
	case sighted:
		fences, exempt := t.wanted(r.Device, policy, services)
		if denied != "" {
			fences = nil
		}
		share := 1.0
		if len(fences) > 0 {
			share = h.ramp.Follow(r.Sample.Time, multiplier)
		} else {
			h.ramp = slowdown.Ramp{}
		}
		t.paces.hold(h.uuid, fences, share, reason(r), t.Count)
		if denied == "" {
			t.steerPower(ctx, h, r, s, multiplier, policy.Does(slowdown.Power) && !exempt)
			t.steerFan(ctx, h, r, s.FanCurve)
		}
	}
	return h.does(policy, denied, t.paces.count(h.uuid))
}

// giveBack gives a device back its power limit and its fans.
func (t *Throttle) giveBack(ctx context.Context, h *hand, r monitor.Reading) {
	r.Sample.Time = time.Now()
	t.steerPower(ctx, h, r, config.GPU{}, 1, false)
	t.steerFan(ctx, h, r, "")
}

// share holds the leases on a device to the shares of their services, and reports whether
// any is held. Under MPS the driver does that, from the start of the program; a child is
// held with its parent.
func (t *Throttle) share(uuid string, services map[string]config.Service) bool {
	wanted := map[uint64]servedLease{}
	if t.Denied(uuid) == "" {
		for _, held := range t.Leases.Holdings(uuid) {
			l := held.Lease
			share := float64(services[l.Holder.Service].Compute.Or(100)) / 100
			if share < 1 && l.Parent == "" && len(l.Scope) == 0 && l.EnforcedBy != launch.MPS && l.State != lease.Parked {
				wanted[l.Fence] = servedLease{l.Key(), l.Holder.Service, share}
			}
		}
	}
	t.paces.serve(uuid, wanted)
	return len(wanted) > 0
}

// sight says what a reading shows of the heat of a device.
type sight int

const (
	nothingNew sight = iota // what was done stands
	sighted
	blind // nobody knows how hot the device is
)

// patience is how long a device may give no answer or an impossible temperature, before
// its heat counts as not known. A single wrong reading changes nothing.
const patience = 10 * time.Second

// heat returns the multiplier of a device by its heat alone: memory that runs out is no
// reason to draw less power.
func (h *hand) heat(r monitor.Reading, s config.GPU) (multiplier float64, sees sight) {
	celsius, measured := r.Sample.Temperature.Get()
	fresh := r.Sampled && !r.Stale && !r.Sample.Time.Equal(h.seen)
	possible := !measured || celsius > 0 && celsius < 150
	switch {
	case fresh && possible:
		h.seen, h.sighted = r.Sample.Time, time.Now()
	case !fresh && !r.Stale, time.Since(h.sighted) < patience:
		return 0, nothingNew
	default:
		return 1, blind
	}
	if !measured {
		return 1, sighted
	}
	bare := gpu.Sample{Temperature: r.Sample.Temperature}
	multiplier = h.tracker.Observe(monitor.RulesOf(s), r.Sample.Time, &bare).State.Multiplier()
	if r.Cause == monitor.CauseForecast {
		multiplier = min(multiplier, r.Multiplier)
	}
	return multiplier, sighted
}

// reason returns why a device should run slower.
func reason(r monitor.Reading) string {
	if r.Cause == monitor.CauseForecast && r.Slower != "" {
		return r.Slower
	}
	if r.Reason != "" {
		return r.Reason
	}
	return "it is " + string(r.State)
}

// wanted returns the leases that pacing may touch on a device with this policy, and whether
// any lease there is exempt, also on an instance of it: they share its power. Pods and
// clients of MPS are never paced.
func (t *Throttle) wanted(on gpu.Device, device slowdown.Policy, services map[string]config.Service) (paced map[uint64]lease.Key, exempt bool) {
	paced = map[uint64]lease.Key{}
	for i, uuid := range append([]string{on.UUID}, on.Instances...) {
		for _, held := range t.Leases.Holdings(uuid) {
			l := held.Lease
			policy := cmp.Or(slowdown.Policy(services[l.Holder.Service].Throttle), device)
			exempt = exempt || policy == slowdown.Exempt
			if i == 0 && policy.Does(slowdown.Pace) && len(l.Scope) == 0 && l.EnforcedBy != launch.MPS && l.State != lease.Parked {
				paced[l.Fence] = l.Key()
			}
		}
	}
	return paced, exempt
}

// steerPower asks the device for its limits, and takes a step if one is due.
func (t *Throttle) steerPower(ctx context.Context, h *hand, r monitor.Reading, s config.GPU, multiplier float64, may bool) {
	now := r.Sample.Time
	if h.power.opens(now) && !h.taken {
		h.limit = h.limit.Again()
	}
	if !h.limit.Held() && (!may || h.power.shut || multiplier == 1) {
		return
	}
	var limits device.PowerLimits
	err := t.govern(ctx, h.uuid, func(ctx context.Context, g device.Governor) (err error) {
		limits, err = g.PowerLimits(ctx)
		return err
	})
	if err != nil {
		t.refused(h, r, now, err)
		return
	}
	before := h.limit
	next, step := before.Decide(slowdown.Ask{
		Now: now, Steer: may && !h.power.shut, Multiplier: multiplier, Limits: slowdown.Limits(limits), Least: s.PowerLeast, Reason: reason(r),
		Heat:   slowdown.Heat{Temperature: r.Sample.Temperature, Power: r.Sample.Power},
		Normal: s.TempNormal, Settles: t.settles(h.uuid),
	})
	if step != nil && step.Sets() {
		if step.Kind != slowdown.Restored && !t.keep(h, next, h.fan) {
			if step.Kind == slowdown.Raised && multiplier == 1 { // the note of the step before leads to the original, and to no other limit
				t.steerPower(ctx, h, r, s, multiplier, false)
				return
			}
			h.limit = before.Failed(now) // without the file, no later daemon could restore the limit
			return
		}
		err := t.govern(ctx, h.uuid, func(ctx context.Context, g device.Governor) error { return g.SetPowerLimit(ctx, step.Watts) })
		if err != nil {
			held := next.Kept
			if step.Kind == slowdown.Restored {
				held = before.Kept
			}
			if !never(err) { // the driver may have set it, or may still set it: the note stays
				h.limit = slowdown.Recall(held)
			} else if step.Kind != slowdown.Restored {
				t.keep(h, before, h.fan)
			}
			t.refused(h, r, now, err)
			return
		}
		h.power = refusal{}
		t.Count(string(step.Kind))
	}
	h.taken = h.taken || step != nil && step.Kind == slowdown.Taken
	if h.limit = next; next.Kept != before.Kept {
		t.keep(h, next, h.fan)
	}
	if step != nil {
		t.Event(step.Event(r.Device, now))
	}
}

// settles returns the forecast of a device for steerPower, or nil if its model has not
// learned enough.
func (t *Throttle) settles(uuid string) func(gpu.Watts) (gpu.Celsius, bool) {
	m, known := t.Devices.Model(uuid)
	if !known || !m.Ready() {
		return nil
	}
	return func(at gpu.Watts) (gpu.Celsius, bool) { return m.Settle(at).Mean, true }
}

// govern calls a device whose power limit and fans can be set.
func (t *Throttle) govern(ctx context.Context, uuid string, call func(context.Context, device.Governor) error) error {
	return t.Devices.Steer(ctx, uuid, func(ctx context.Context, d device.Device) error {
		g, is := d.(device.Governor)
		if !is {
			return &device.Error{Op: "steer " + uuid, Err: device.ErrUnsupported, Hint: "its backend cannot set a power limit or fans"}
		}
		return call(ctx, g)
	})
}

// refused records that the power limit could not be read or set. If the device does not
// allow it, refused publishes that once, and leaves the device alone for a while, except
// that a limit that berth has lowered is given back as soon as the device takes it.
func (t *Throttle) refused(h *hand, r monitor.Reading, now time.Time, err error) {
	if !never(err) {
		h.limit = h.limit.Failed(now)
		return
	}
	if h.power.times == 0 {
		t.Event(gpu.Event{
			Time: now, Code: gpu.EventPowerLimit, Severity: gpu.Warning, GPU: h.uuid,
			Text: fmt.Sprintf("berth cannot steer the power limit of %s: %v. The policy acts on it as pace does", r.Device.Label(), err),
			Data: map[string]any{"step": "refused", "reason": err.Error()},
		})
	}
	h.power.note(now)
	h.limit = h.limit.Failed(now)
}

// never reports whether a device says that it does not take a request at all.
func never(err error) bool {
	return errors.Is(err, device.ErrUnsupported) || errors.Is(err, device.ErrNoPermission)
}

// steerFan lets the fans of a device follow a curve, or gives them back if it is empty.
func (t *Throttle) steerFan(ctx context.Context, h *hand, r monitor.Reading, follows string) {
	var curve []config.CurvePoint
	h.fans.opens(r.Sample.Time)
	if !h.fans.shut {
		curve, _ = config.ParseCurve(follows) // empty, or checked when it was set
	}
	next := h.fan.Follow(curve, r.Sample.Temperature)
	if next == h.fan {
		return
	}
	if next.Held && !h.fan.Held && !t.keep(h, h.limit, next) {
		return // without the file, no later daemon could restore the fans
	}
	err := t.govern(ctx, h.uuid, func(ctx context.Context, g device.Governor) error {
		if next.Held {
			return g.SetFan(ctx, next.Speed)
		}
		return g.ReleaseFan(ctx)
	})
	if err != nil {
		t.fanRefused(h, r, next, err)
		return
	}
	began, ended := next.Held && !h.fan.Held, h.fan.Held && !next.Held
	if next.Held {
		h.fans = refusal{}
	}
	h.fan, h.fanTaken, h.fanTold = next, next.Held, h.fans.shut
	t.Count(fanStep)
	if t.Steered != nil {
		t.Steered(h.uuid)
	}
	switch {
	case began:
		t.fanEvent(r, gpu.Note, fmt.Sprintf("The fans of %s follow gpu.fan_curve", r.Device.Label()), "set", next)
	case ended:
		t.keep(h, h.limit, next)
		if !h.fanQuiet {
			t.fanEvent(r, gpu.Note, fmt.Sprintf("The fans of %s are the driver's again", r.Device.Label()), "released", next)
		}
	}
}

// fanRefused publishes once that fans could not be set or given back. The readings that
// follow try to give them back to the driver until it takes them: one of several may be
// set, or a driver that hangs may still set them. Only if the device never took a speed and
// takes nothing back, there is nothing to give back. A device that could not take them back
// for a while follows the curve again when its heat is known again.
func (t *Throttle) fanRefused(h *hand, r monitor.Reading, next slowdown.Fan, err error) {
	if !h.fanTold {
		text := "berth cannot set the fans of %s: %v. They are left to the driver for now"
		if !next.Held {
			text = "berth cannot give the fans of %s back to the driver: %v. It tries again"
		}
		t.fanEvent(r, gpu.Warning, fmt.Sprintf(text, r.Device.Label(), err), "refused", h.fan)
	}
	h.fanQuiet, h.fanTold = next.Held && h.fanTold, true
	if next.Held || never(err) {
		h.fans.note(r.Sample.Time)
	}
	if next.Held {
		h.fan, h.fanTaken = slowdown.Fan{Held: true, Speed: -1}, h.fanTaken || !never(err)
		return
	}
	if never(err) && !h.fanTaken {
		h.fan = slowdown.Fan{}
		t.keep(h, h.limit, h.fan)
	}
}

func (t *Throttle) fanEvent(r monitor.Reading, severity gpu.Severity, text, step string, f slowdown.Fan) {
	e := gpu.Event{Time: r.Sample.Time, Code: gpu.EventFan, Severity: severity, GPU: r.Device.UUID, Text: text, Data: map[string]any{"step": step}}
	if f.Held && f.Speed >= 0 {
		e.Data["fan_percent"] = float64(f.Speed)
	}
	t.Event(e)
}

// keep writes to the file what berth holds of a device, and reports whether that worked.
func (t *Throttle) keep(h *hand, l slowdown.Limit, f slowdown.Fan) bool {
	k := kept{Fan: f.Held}
	if l.Held() {
		k.Power = &l.Kept
	}
	err := t.notes.put(h.uuid, k)
	if err != nil && !h.unwritten {
		t.Complain(fmt.Errorf("cannot write down what berth changes on devices, so it changes nothing: %w", err))
	}
	h.unwritten = err != nil
	return err == nil
}

// does returns what berth does to the device now.
func (h *hand) does(p slowdown.Policy, denied string, paced int) slowdown.Acts {
	a := slowdown.Acts{Policy: p, Share: h.ramp.Share(), Paced: paced, Denied: denied}
	if h.limit.Held() {
		a.Limit, a.Original, a.Steps = gpu.Some(h.limit.Set), gpu.Some(h.limit.Original), h.limit.Steps()
	}
	if a.Fans = h.fan.Held; a.Fans && h.fan.Speed >= 0 {
		a.Fan = gpu.Some(h.fan.Speed)
	}
	return a
}
