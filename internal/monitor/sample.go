package monitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/thermal"
)

// sample reads a device once, judges what it read, and tells. The fast metrics
// come first; the slow ones, when they are due, delay nothing but the next
// sample of the same device, and only if they take longer than the interval.
//
// When ctx ends, nothing more is begun, but a call under way is not given up
// before its own deadline, which is short: to leave a driver alone while it
// works would look like a hang to the next who asks.
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
	m.cost(u, TierFast, now.Sub(begun), err)
	if err != nil {
		m.missed(u, now, err, settings.deadline())
	} else {
		m.observed(u, settings, now, &s)
	}
	u.judging.Unlock()

	if err == nil && !now.Before(u.slowDue) && ctx.Err() == nil {
		u.slowDue = now.Add(settings.slowPeriod())
		m.sampleSlow(ctx, u, settings)
	}
}

// sampleSlow reads the costly metrics; the caller is asking. A failure is
// only counted: if the device hangs, the next fast call shows it.
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

// observed takes an answer. The caller holds judging.
func (m *Monitor) observed(u *unit, settings Settings, now time.Time, s *gpu.Sample) {
	s.GPU, s.Time = u.uuid, now
	rules := settings.Rules(u.uuid)
	before, recovered := u.standing, u.lost
	if recovered {
		u.standing.Return(settings.Health, now)
	}
	u.standing.Answer(settings.Health, now, thermal.Exhausted(rules.Thresholds, s))
	u.lost, u.silent = false, false
	v := u.judge(rules, now, s)
	u.keep(v, s)
	if recovered {
		m.tellRecovered(u, now)
	}
	m.tellStanding(u, now, before)
	m.tellState(u, now, v, s)
	m.tellHeat(u, now, v, rules, s)
	m.tellReading(u)
}

// judge is the verdict about a device that answers.
func (u *unit) judge(rules thermal.Rules, now time.Time, s *gpu.Sample) thermal.Verdict {
	if u.standing.Phase == health.Quarantined {
		return u.close(now)
	}
	return u.tracker.Observe(rules, now, s)
}

// close is the verdict about a device in quarantine. The caller holds judging.
func (u *unit) close(now time.Time) thermal.Verdict {
	v := u.tracker.Missed(now, u.standing.Reason())
	v.Until, v.Stop = u.standing.Until, true
	return v
}

// missed takes the lack of an answer. The caller holds judging.
func (m *Monitor) missed(u *unit, now time.Time, err error, deadline time.Duration) {
	why := err.Error()
	switch {
	case errors.Is(err, device.ErrLost):
		why = "it is not on the bus any more"
	case errors.Is(err, device.ErrHung), errors.Is(err, context.DeadlineExceeded):
		why = fmt.Sprintf("it does not answer within %v", deadline)
	}
	fell := errors.Is(err, device.ErrLost) && !u.lost
	u.lost, u.silent = u.lost || fell, true
	v := u.tracker.Missed(now, why)
	u.keep(v, nil)
	if fell {
		m.tellLost(u, now)
	}
	m.tellState(u, now, v, nil)
	m.tellReading(u)
}

func (m *Monitor) cost(u *unit, tier string, took time.Duration, err error) {
	if m.hooks.Cost != nil {
		m.hooks.Cost(Cost{Backend: u.source.backend.Name(), GPU: u.uuid, Tier: tier, Duration: took, Err: err})
	}
}

func (m *Monitor) tellReading(u *unit) {
	if m.hooks.Reading != nil {
		m.hooks.Reading(u.reading())
	}
}
