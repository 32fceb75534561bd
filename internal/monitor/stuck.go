package monitor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// A sampler can hang inside the daemon: in a hook, or waiting for one that
// hangs elsewhere. It cannot say so itself, so those who read its device find
// out, by the age of what it last took in, and so does a goroutine that watches
// over the samplers. Neither takes a lock that a sampler holds while it calls
// something.

// staleAfter is the age from which a sample says nothing about the present. A
// sampler that is alive takes something in at least every two deadlines, one
// for the fast and one for the slow metrics, which is less.
func (s Settings) staleAfter() time.Duration { return max(3*s.Interval, 3*time.Second) }

// pace is what the age of a sample is judged by.
type pace struct {
	limit time.Duration // see staleAfter
	since time.Time     // sampling began, or its settings changed
	on    bool          // devices are being sampled
}

func (m *Monitor) pace() pace {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return pace{limit: m.settings.staleAfter(), since: m.since, on: m.on && m.run != nil}
}

// overdue reports whether something that was last done at some time has not
// been done for too long, and since when.
func (p pace) overdue(now, last time.Time) (since time.Time, over bool) {
	if last.Before(p.since) {
		last = p.since
	}
	since = last.Add(p.limit)
	return since, p.on && now.After(since)
}

func (p pace) reason() string {
	return fmt.Sprintf("it was not read for %v: something in the daemon hangs", p.limit)
}

// Stuck returns an error that names the devices whose samplers hang inside the
// daemon; nil if none does. A driver that hangs is no such case: its sampler
// gives the call up and is alive.
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

// oversee watches over the samplers until the run ends. It looks when the first
// of them is overdue, so that it hardly ever wakes up for nothing, and not again
// before a third of that time has passed.
func (m *Monitor) oversee(r *run) {
	var last time.Time // when it looked
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
		// A machine that gave this goroutine no time gave the samplers none
		// either; they get a period to catch up.
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

// firstOverdue is when the first sampler will be overdue, if none takes anything
// in until then.
func (m *Monitor) firstOverdue() time.Time {
	p := m.pace()
	first := time.Now().Add(p.limit)
	for _, u := range m.list() {
		u.mu.RLock()
		since, _ := p.overdue(time.Time{}, u.judged)
		u.mu.RUnlock()
		if since.Before(first) {
			first = since
		}
	}
	return first.Add(time.Millisecond) // it is overdue after that time, and not at it
}

// tellStuck tells that a device is UNAVAILABLE because its sampler hangs: the
// Event hook once, the Stuck hook again and again, because the sampler may be
// about to tell what it read long ago.
func (m *Monitor) tellStuck(u *unit, p pace) {
	m.announceStuck(u, p)
	if m.hooks.Stuck == nil {
		return
	}
	m.hooks.Stuck(u.reading(time.Now(), p))
	if _, still := u.stuck(time.Now(), p); !still {
		// The sampler was quicker: what it told last must not be this.
		u.hurry()
		m.mu.Lock()
		m.wake()
		m.mu.Unlock()
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
	m.tell(u, now, gpu.EventStateChange, gpu.Serious, fmt.Sprintf(" is %s: %s", gpu.Unavailable, p.reason()),
		map[string]any{"from": string(from), "to": string(gpu.Unavailable)})
	if !from.Worse(gpu.Normal) {
		m.tell(u, now, gpu.EventThrottle, gpu.Serious, " should run at "+share(gpu.Unavailable)+": "+p.reason(),
			map[string]any{"state": string(gpu.Unavailable), "multiplier": gpu.Unavailable.Multiplier()})
	}
}

// noteStuck notes that it is told that the sampler hangs. It returns the state
// from before, and whether there is something to tell: not if the sampler has
// returned, if it was told already, or if the device was UNAVAILABLE anyway.
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

// arrive notes that the sampler takes something in, before it judges it. If it
// was told that it hung, the device comes from UNAVAILABLE. The caller holds
// judging.
func (u *unit) arrive(now time.Time) {
	u.announcing.Lock() // not before that is told to the end
	defer u.announcing.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.judged = now
	if u.hung.IsZero() {
		return
	}
	if !u.verdict.State.Worse(gpu.Normal) {
		u.throttled = true // that was told too
	}
	u.verdict.State, u.verdict.Since = gpu.Unavailable, u.hung
	u.hung = time.Time{}
}
