// Package monitor reads every device again and again, keeps what it read,
// judges it, and tells what changed.
//
// Each device has a goroutine and a pace of its own, and every call into a
// driver has a deadline, so a device that hangs is UNAVAILABLE and the others
// do not notice. Nobody who asks the monitor ever waits for a driver: answers
// come from memory. The judging itself is in package thermal.
package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/thermal"
)

// Settings can be changed while the monitor runs.
type Settings struct {
	Interval    time.Duration                   // between two samples of a device; zero: 1 s
	HistorySize int                             // samples kept per device; zero: 200
	Rules       func(uuid string) thermal.Rules // what a device is judged by; nil: the default for all
	Health      health.Rules                    // how a device that failed is trusted again; zero: the default
}

func (s Settings) withDefaults() Settings {
	s.Interval = cmp.Or(max(s.Interval, 0), time.Second)
	s.HistorySize = cmp.Or(max(s.HistorySize, 0), 200)
	if s.Health == (health.Rules{}) {
		s.Health = health.DefaultRules()
	}
	if s.Rules == nil {
		s.Rules = func(string) thermal.Rules { return thermal.DefaultRules() }
	}
	return s
}

// deadline is the time a device has for an answer: one interval, so that a
// hang shows within two (one until the next call, one until it is given up).
// Calls take microseconds, so even the lower bound is only passed by a hang or
// by a machine that is starved, which must not look like one; the upper bound
// keeps a long interval from hiding a hang.
func (s Settings) deadline() time.Duration {
	return min(max(s.Interval, time.Second), 2*time.Second)
}

// slowPeriod is how often the costly metrics are read. They take tens of
// milliseconds, a thousand times a fast sample: once in a minute they
// stay below a thousandth of the time, and they never come more often than
// with every tenth sample.
func (s Settings) slowPeriod() time.Duration {
	return max(time.Minute, 10*s.Interval)
}

// Hooks is who is told. Each may be nil. The calls about one device come in
// order and one at a time, those about different devices possibly at once. A
// hook must not block: the device it is told about waits for it. It may ask
// the monitor anything; only Start and Stop are not for an Event hook that is
// told about monitoring itself.
type Hooks struct {
	Event    func(gpu.Event)               // Time is set, ID is not
	Reading  func(Reading)                 // after every sample, miss or fault
	Cost     func(Cost)                    // after every call to a device
	Standing func(string, health.Standing) // of a device, by UUID, when it changed

	// Stuck is called again and again while the sampler of a device hangs,
	// perhaps in one of the other hooks. The reading is UNAVAILABLE.
	Stuck func(Reading)
}

// Cost is what one call to a device took.
type Cost struct {
	Backend  string
	GPU      string // UUID
	Tier     string // TierFast or TierSlow
	Duration time.Duration
	Err      error // why there was no answer
}

// The tiers of Cost.
const (
	TierFast = "fast"
	TierSlow = "slow"
)

// Monitor watches the devices of some backends.
type Monitor struct {
	hooks   Hooks
	sources []*source
	before  map[string]health.Standing // by UUID, from an earlier life; not written to

	adopting  sync.Mutex // held while the result of a scan is taken over
	switching sync.Mutex // held by Start and Stop, so that their events come in order

	mu       sync.RWMutex // guards what follows; nothing is called under it
	settings Settings
	on       bool          // whether drivers may be asked
	changed  chan struct{} // closed and replaced when settings or on change
	since    time.Time     // sampling was switched on, or its settings changed
	units    []*unit       // by index, then UUID; replaced, never changed
	run      *run          // nil unless Run is at work
}

// run is one call of Run.
type run struct {
	ctx   context.Context
	group sync.WaitGroup
}

// New makes a monitor that is switched on and asks nothing until Run or Once.
func New(backends []device.Backend, s Settings, hooks Hooks) *Monitor {
	m := &Monitor{hooks: hooks, settings: s.withDefaults(), on: true, changed: make(chan struct{})}
	for _, b := range backends {
		m.sources = append(m.sources, newSource(b))
	}
	return m
}

// Recall tells how devices stood in an earlier life, by UUID. It is for before
// the first Run or Once.
func (m *Monitor) Recall(standings map[string]health.Standing) { m.before = standings }

// Run looks for devices, samples them and watches for faults until ctx ends.
// When it returns, no driver is being asked any more, except by calls that
// hang and were given up.
func (m *Monitor) Run(ctx context.Context) error {
	r := &run{ctx: ctx}
	m.mu.Lock()
	if m.run != nil {
		m.mu.Unlock()
		return errors.New("run monitor: it runs already")
	}
	m.run, m.since = r, time.Now()
	m.startSamplers()
	m.mu.Unlock()
	r.group.Go(func() { m.oversee(r) })
	for _, src := range m.sources {
		due := func(Settings) time.Time { return m.scanDue(src) }
		scan := func() { _ = m.scan(ctx, src) } // a failure was told by an event
		r.group.Go(func() { m.repeat(ctx, due, scan) })
		r.group.Go(func() { m.watch(ctx, src) })
	}

	<-ctx.Done()
	m.mu.Lock()
	m.run = nil // no new samplers from here on
	m.mu.Unlock()
	r.group.Wait()
	m.mu.Lock()
	for _, u := range m.units {
		u.sampling = false
	}
	m.mu.Unlock()
	m.leaveDrivers()
	return nil
}

// leaveDrivers waits until scans and watches are back from the drivers, for a
// moment: they were told to return, and those that do not hang.
func (m *Monitor) leaveDrivers() {
	patience := time.NewTimer(2 * time.Second)
	defer patience.Stop()
	for _, src := range m.sources {
		for _, token := range []chan struct{}{src.scanning, src.watching} {
			select {
			case token <- struct{}{}:
				<-token
			case <-patience.C:
				return
			}
		}
	}
}

// startSamplers gives every unit that has none a goroutine, if Run is at work.
// The caller holds mu.
func (m *Monitor) startSamplers() {
	if m.run == nil {
		return
	}
	ctx := m.run.ctx
	for _, u := range m.units {
		if !u.sampling {
			u.sampling = true
			m.run.group.Go(func() { m.repeat(ctx, u.due, func() { m.sample(ctx, u) }) })
		}
	}
}

// repeat calls do whenever it is due and the monitor is on, until ctx ends. It
// sleeps in between: a change of settings or of the switch wakes it.
func (m *Monitor) repeat(ctx context.Context, due func(Settings) time.Time, do func()) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		settings, on, changed := m.control()
		var tick <-chan time.Time
		if on {
			wait := time.Until(due(settings))
			if wait <= 0 {
				// Without a timer that is due already: several of those at once
				// crash Go's race detector inside a synctest bubble.
				do()
				continue
			}
			timer.Reset(wait)
			tick = timer.C
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-tick: // due, if the monitor is still on
		}
	}
}

// control is what the loops go by; changed is closed when any of it changes.
func (m *Monitor) control() (s Settings, on bool, changed <-chan struct{}) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.settings, m.on, m.changed
}

// Start switches the monitor on, for somebody.
func (m *Monitor) Start(by gpu.By) (changed bool) {
	return m.turn(true, by, func(s Settings) string {
		return fmt.Sprintf("Monitoring started: every device is read every %v", s.Interval)
	})
}

// Stop switches it off: what was read stays and ages, and no driver is asked
// for anything until Start. A call that is under way is finished.
func (m *Monitor) Stop(by gpu.By) (changed bool) {
	return m.turn(false, by, func(Settings) string {
		return "Monitoring stopped: no device is read until it is started again"
	})
}

func (m *Monitor) turn(on bool, by gpu.By, text func(Settings) string) (changed bool) {
	m.switching.Lock()
	defer m.switching.Unlock()
	m.mu.Lock()
	if m.on == on {
		m.mu.Unlock()
		return false
	}
	m.on, m.since = on, time.Now()
	m.wake()
	settings := m.settings
	m.mu.Unlock()
	m.emit(gpu.Event{
		Time: time.Now(), Code: gpu.EventMonitoring, Severity: gpu.Note, By: by, Text: text(settings),
		Data: map[string]any{"running": on},
	})
	return true
}

// Running reports whether the monitor is switched on.
func (m *Monitor) Running() bool {
	_, on, _ := m.control()
	return on
}

// Configure changes the settings. They hold at once: every device is read, and
// judged by them, without waiting for its turn.
func (m *Monitor) Configure(s Settings) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settings, m.since = s.withDefaults(), time.Now()
	for _, u := range m.units {
		u.resize(m.settings.HistorySize)
		u.hurry()
	}
	m.wake()
}

// wake tells the loops that something changed. The caller holds mu.
func (m *Monitor) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// Once looks for devices and samples all of them, and is back when that is
// done, or ctx has ended and the calls under way are back or past their
// deadline. A device that does not answer is not an error but a
// reading; a backend that cannot look for devices is one.
func (m *Monitor) Once(ctx context.Context) error {
	failed := make([]error, len(m.sources))
	var group sync.WaitGroup
	for i, src := range m.sources {
		group.Go(func() {
			failed[i] = m.scan(ctx, src)
			var samples sync.WaitGroup
			for _, u := range m.list() {
				if u.source == src {
					samples.Go(func() { m.sample(ctx, u) })
				}
			}
			samples.Wait()
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

func (m *Monitor) emit(e gpu.Event) {
	if m.hooks.Event != nil {
		m.hooks.Event(e)
	}
}
