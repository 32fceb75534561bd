package monitor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// A sampler can hang inside the daemon: in a hook, or waiting for one that hangs
// elsewhere. It cannot report that itself. So readers of its device check the age of the
// last sample, and so does a goroutine that watches the samplers. Neither takes a lock
// that a sampler holds while it calls something.

// staleAfter returns the age from which a sample says nothing about the present. A
// working sampler records an answer or a miss at least every two deadlines, one for the
// fast and one for the slow metrics, and that is less.
func (s Settings) staleAfter() time.Duration { return max(3*s.Interval, 3*time.Second) }

// pace says how old a sample may be.
type pace struct {
	limit time.Duration // see staleAfter
	since time.Time     // when sampling began, or its settings changed
	on    bool          // whether devices are being sampled
}

func (m *Monitor) pace() pace {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return pace{limit: m.settings.staleAfter(), since: m.since, on: m.on && m.run != nil}
}

// overdue reports whether more than the limit has passed since last, and since when.
func (p pace) overdue(now, last time.Time) (since time.Time, over bool) {
	if last.Before(p.since) {
		last = p.since
	}
	since = last.Add(p.limit)
	return since, p.on && now.After(since)
}

func (p pace) reason() string {
	return fmt.Sprintf("the daemon has not read it for %v: something in the daemon hangs", p.limit)
}

// Stuck returns an error that names the devices whose samplers hang inside the daemon, or
// nil. A driver that hangs does not count: its sampler gives up the call and goes on.
func (m *Monitor) Stuck(now time.Time) error {
	p := m.pace()
	var names []string
	for _, u := range m.list() {
		if _, stuck := u.stuck(now, p); stuck {
			names = append(names, u.description().Label())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return errors.New("the daemon has not read for " + p.limit.String() + ": " + strings.Join(names, ", "))
}

func (u *unit) stuck(now time.Time, p pace) (since time.Time, stuck bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return p.overdue(now, u.judged)
}

// oversee watches the samplers until the run ends. It checks them when the first of them
// is overdue, so that it hardly ever wakes up in vain, and not again before a third of
// that time has passed.
func (m *Monitor) oversee(r *run) {
	var last time.Time // time of the last check
	period := func(s Settings) time.Duration { return s.staleAfter() / 3 }
	due := func(s Settings) time.Time {
		first, again := m.firstOverdue(), last.Add(period(s))
		if first.After(again) {
			return first
		}
		return again
	}
	m.repeat(r.ctx, due, func() {
		settings, _, _ := m.control()
		now := time.Now()
		// If the machine gave this goroutine no time, it gave the samplers none either;
		// they get a period to catch up.
		starved := !last.IsZero() && now.Sub(due(settings)) > period(settings)
		if last = now; starved {
			return
		}
		p := m.pace()
		for _, u := range m.list() {
			if _, stuck := u.stuck(now, p); stuck && u.telling.CompareAndSwap(false, true) {
				r.group.Go(func() {
					defer u.telling.Store(false)
					m.tellStuck(u, p)
				})
			}
		}
	})
}

// firstOverdue returns when the first sampler will be overdue if none records anything
// before.
func (m *Monitor) firstOverdue() time.Time {
	p := m.pace()
	first := time.Now().Add(p.limit)
	for _, u := range m.list() {
		if since, _ := u.stuck(time.Time{}, p); since.Before(first) {
			first = since
		}
	}
	return first.Add(time.Millisecond) // it is overdue only after that time
}

// tellStuck reports that a device is UNAVAILABLE because its sampler hangs. It calls the
// Event hook once, and the Reading hook repeatedly, because the sampler may be about to
// report an old reading.
func (m *Monitor) tellStuck(u *unit, p pace) {
	m.announceStuck(u, p)
	if m.hooks.Reading == nil {
		return
	}
	r := u.reading(time.Now(), p)
	r.Stuck = true
	m.hooks.Reading(r)
	if _, still := u.stuck(time.Now(), p); !still {
		// The sampler was quicker: this must not be the last report.
		m.hurry(u)
	}
}

func (m *Monitor) announceStuck(u *unit, p pace) {
	u.announcing.Lock()
	defer u.announcing.Unlock()
	now := time.Now()
	from, first := u.noteStuck(now, p)
	if !first {
		return
	}
	m.tell(u.changed(now, from, gpu.Unavailable, p.reason(), from.Worse(gpu.Normal)))
}

// noteStuck records that the sampler hangs. It returns the state before, and whether
// there is something to report. There is nothing if the sampler has returned, if it was
// reported already, or if the device was UNAVAILABLE anyway.
func (u *unit) noteStuck(now time.Time, p pace) (from gpu.State, first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	since, stuck := p.overdue(now, u.judged)
	if !stuck || !u.hung.IsZero() || u.verdict.State == gpu.Unavailable {
		return "", false
	}
	u.hung = since
	return u.verdict.State, true
}

// arrive records that the sampler has an answer or a miss, before it judges it. If the
// sampler was reported as hanging, the state before is UNAVAILABLE. The caller holds
// judging.
func (u *unit) arrive(now time.Time) {
	u.announcing.Lock() // waits until tellStuck is done
	defer u.announcing.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.judged = now
	if u.hung.IsZero() {
		return
	}
	if !u.verdict.State.Worse(gpu.Normal) {
		u.throttled = true // tellStuck reported that too
	}
	u.verdict.State, u.verdict.Since = gpu.Unavailable, u.hung
	u.hung = time.Time{}
}
