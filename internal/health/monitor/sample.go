package monitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

// sample reads a device once, judges the reading, and sends the events. The fast metrics
// come first. The slow ones, when they are due, delay only the next sample of the same
// device, and only if they take longer than the interval.
//
// When ctx ends, sample begins nothing more. It still waits for a call under way until
// the deadline of that call, which is short: if it left a driver alone while the driver
// works, the next caller would see a hang.
func (m *Monitor) sample(ctx context.Context, u *unit) {
	select {
	case u.asking <- struct{}{}:
		defer func() { <-u.asking }()
	case <-ctx.Done():
		return
	}
	settings, _, _ := m.control()
	begun := time.Now()
	u.begin(begun)
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), settings.deadline())
	s, err := u.guard.Fast(limited)
	cancel()
	now := time.Now()

	u.judging.Lock()
	u.arrive(now)
	m.cost(u, TierFast, now.Sub(begun), err)
	if err != nil {
		m.missed(u, settings, now, err)
	} else {
		m.observed(u, settings, now, &s)
	}
	u.judging.Unlock()

	if err == nil && u.isSlowDue(settings, now) && ctx.Err() == nil {
		u.slowDue, u.slowAt = now.Add(settings.slowPeriod()), now
		m.sampleSlow(ctx, u, settings)
	}
}

// isSlowDue reports whether to read the costly metrics with this sample: once per period,
// and more often while berth changes what they show. The caller holds the asking token.
func (u *unit) isSlowDue(s Settings, now time.Time) bool {
	if !now.Before(u.slowDue) {
		return true
	}
	steered := u.steered.Load()
	if steered == 0 || now.Sub(time.Unix(0, steered)) > s.slowPeriod() {
		return false
	}
	return u.slowAt.UnixNano() <= steered || now.Sub(u.slowAt) >= 10*s.Interval
}

// Steered notes that berth has changed something about a device that the slow metrics
// show, such as the speed of its fans: the next samples have the new value.
func (m *Monitor) Steered(uuid string) {
	if u := m.unit(uuid); u != nil {
		u.steered.Store(time.Now().UnixNano())
	}
}

// sampleSlow reads the costly metrics; the caller holds the asking token. It only counts
// a failure: if the device hangs, the next fast call shows it.
func (m *Monitor) sampleSlow(ctx context.Context, u *unit, settings Settings) {
	begun := time.Now()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), settings.deadline())
	slow, err := u.guard.Slow(limited)
	cancel()
	slow.SlowTime = time.Now()
	u.judging.Lock()
	defer u.judging.Unlock()
	m.cost(u, TierSlow, slow.SlowTime.Sub(begun), err)
	if err == nil {
		u.keepSlow(slow)
	}
}

// observed handles an answer. The caller holds judging.
func (m *Monitor) observed(u *unit, settings Settings, now time.Time, s *gpu.Sample) {
	s.GPU, s.Name, s.Time, s.MemoryShare = u.uuid, u.description().Name, now, s.MemoryPercent()
	rules := settings.Rules(u.uuid)
	before, recovered := u.standing, u.lost
	if recovered {
		u.standing.Return(settings.Health, now)
	}
	u.removed.Store(false)
	judged := m.judged(u, s)
	u.standing.Answer(settings.Health, now, thermal.Exhausted(rules.Thresholds, judged))
	u.lost, u.silent = false, false
	heat := u.tracker.Observe(rules, now, judged)
	v := u.show(now, heat)
	u.foresee(rules, now, s)
	u.keep(v, s)
	var events []gpu.Event
	if recovered {
		events = append(events, u.event(now, gpu.EventDeviceRecovered, gpu.Note, " is back: it answers again", nil))
	}
	events = append(events, m.ofStanding(u, now, before)...)
	events = append(events, u.ofState(now, v, s)...)
	events = append(events, u.ofHeat(now, heat, rules, s)...)
	m.tell(append(events, u.ofForecast(now, v.State)...)...)
	m.tellReading(u, u.standing.CheckDue(settings.Health, now))
}

// judged returns the sample by which to judge the device: without its memory, if berth
// itself fills it.
func (m *Monitor) judged(u *unit, s *gpu.Sample) *gpu.Sample {
	if m.Drains == nil || !s.Temperature.Known() || !m.Drains.Held(u.uuid) {
		return s
	}
	cool := *s
	cool.MemoryUsed, cool.MemoryFree, cool.MemoryShare = gpu.Opt[gpu.MiB]{}, gpu.Opt[gpu.MiB]{}, gpu.Opt[gpu.Percent]{}
	return &cool
}

// show returns a verdict as readers see it: a device in quarantine is UNAVAILABLE,
// however good its readings are. The caller holds judging.
func (u *unit) show(now time.Time, v thermal.Verdict) thermal.Verdict {
	before := u.verdict // only the holder of judging writes it
	if u.standing.Phase == health.Quarantined {
		v.Cause = gpu.CauseFault
		if !u.silent {
			v.State, v.Reason = gpu.Unavailable, u.standing.Reason()
		}
		v.Until = u.standing.Until
	}
	if u.lost {
		v.Cause = gpu.CauseLost
	}
	v.From, v.Changed, v.Since = before.State, v.State != before.State, before.Since
	switch {
	case u.standing.Phase == health.Quarantined && !u.silent:
		v.Since = u.standing.Since // even if that was before a restart
	case v.Changed || v.Since.IsZero():
		v.Since = now
	}
	return v
}

// missed handles a missing answer. The caller holds judging.
func (m *Monitor) missed(u *unit, settings Settings, now time.Time, err error) {
	why := err.Error()
	switch {
	case errors.Is(err, device.ErrLost):
		why = "it is not on the bus any more"
	case errors.Is(err, device.ErrHung), errors.Is(err, context.DeadlineExceeded):
		why = fmt.Sprintf("it does not answer within %v", settings.deadline())
	}
	removed := errors.Is(err, device.ErrLost) && u.wholeAnswers(now, settings)
	if removed {
		why = "there is no such instance any more"
	}
	u.removed.Store(removed)
	fell := errors.Is(err, device.ErrLost) && !removed && !u.lost
	u.lost, u.silent = u.lost || fell, true
	before := u.standing
	if fell {
		u.standing.Fail(settings.Health, now, "it fell off the bus")
	}
	v := u.show(now, u.tracker.Missed(now, why))
	u.foresee(settings.Rules(u.uuid), now, nil)
	u.keep(v, nil)
	var events []gpu.Event
	if fell {
		events = append(events, u.event(now, gpu.EventDeviceLost, gpu.Serious, " is lost: it is not on the bus any more", nil))
	}
	events = append(events, m.ofStanding(u, now, before)...)
	events = append(events, u.ofState(now, v, nil)...)
	for i := range events {
		if removed {
			events[i].Severity = gpu.Note
		}
	}
	m.tell(append(events, u.ofForecast(now, v.State)...)...)
	m.tellReading(u, false)
}

// wholeAnswers reports whether the device that a unit is an instance of answers. An
// instance that is not found then has not fallen off the bus: somebody has cut the device
// anew. It stays removed while the device hangs.
func (u *unit) wholeAnswers(now time.Time, settings Settings) bool {
	whole := u.whole.Load()
	if whole == nil {
		return false
	}
	whole.mu.RLock()
	defer whole.mu.RUnlock()
	newest := whole.history.newest()
	answers := newest != nil && now.Sub(newest.Time) <= settings.staleAfter()
	return (answers || u.removed.Load()) && whole.verdict.Cause != gpu.CauseLost
}

func (m *Monitor) cost(u *unit, tier string, took time.Duration, err error) {
	if m.hooks.Cost != nil {
		m.hooks.Cost(Cost{Backend: u.source.backend.Name(), GPU: u.uuid, Tier: tier, Duration: took, Err: err})
	}
}

// tellReading passes the reading of a device to its hook. The device is checkDue if it has
// to be checked before it leaves its quarantine.
func (m *Monitor) tellReading(u *unit, checkDue bool) {
	if m.hooks.Reading != nil {
		r := u.reading(time.Now(), m.pace())
		r.CheckDue = checkDue
		m.hooks.Reading(r)
	}
}

// Refresh passes the reading of a device to its hook again, after a change of something
// that the hook depends on. When it returns, the hook has returned.
func (m *Monitor) Refresh(uuid string) {
	if u := m.unit(uuid); u != nil {
		u.judging.Lock()
		defer u.judging.Unlock()
		m.tellReading(u, false)
		m.tellParts(u)
	}
}

// tellParts passes the readings of the instances of a device to their hook: what happens
// to the device happens to them. The caller holds judging of the device; that of an
// instance is always taken after it.
func (m *Monitor) tellParts(u *unit) {
	for _, part := range m.list() {
		if part.whole.Load() == u {
			part.judging.Lock()
			m.tellReading(part, false)
			part.judging.Unlock()
		}
	}
}
