// Package monitor reads every device repeatedly, keeps and judges the readings, and
// reports changes.
//
// Each device has its own goroutine and pace, and every call into a driver has a
// deadline. So a device that hangs becomes UNAVAILABLE, and the others do not notice. No
// caller of the monitor ever waits for a driver: answers come from memory. Package
// thermal does the judging.
package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/health/heat"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

// Settings can change while the monitor runs.
type Settings struct {
	Interval    time.Duration                   // between two samples of a device; 0 means 1 s
	HistorySize int                             // samples kept per device, and never less than ten minutes; 0 means 200
	Rules       func(uuid string) thermal.Rules // rules for judging a device; nil means the default for all
	Health      health.Rules                    // when to trust a failed device again; the zero value means the default
}

// RulesOf returns the rules for judging a device that its settings mean.
func RulesOf(c config.GPU) thermal.Rules {
	return thermal.Rules{Thresholds: c.Thresholds, Cooldown: c.ThrottleCooldown, CriticalPause: c.CriticalPause, Steps: c.Recover == "steps", Forecast: c.Forecast == "on"}
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

// deadline returns how long a device may take to answer: one interval, so that a hang
// shows within two (one until the next call, one until the monitor gives up the call).
// Calls take microseconds, so only a hang or a starved machine passes the lower bound;
// the upper bound keeps a long interval from hiding a hang.
func (s Settings) deadline() time.Duration {
	return min(max(s.Interval, time.Second), 2*time.Second)
}

// slowPeriod returns how often to read the costly metrics. They take tens of
// milliseconds, a thousand times a fast sample: once a minute they take less than a
// thousandth of the time, and they never come more often than with every tenth sample.
func (s Settings) slowPeriod() time.Duration {
	return max(time.Minute, 10*s.Interval)
}

// Hooks are the functions that the monitor calls to report. Each may be nil.
// The calls about one device come in order and one at a time, except for readings of a
// device whose sampler hangs; calls about different devices may come at once. A hook must
// not block: its device waits for it. It may ask the monitor anything, but an Event hook
// must not call Start or Stop for an event about monitoring itself.
type Hooks struct {
	Event   func(gpu.Event) // Time is set, ID is not
	Reading func(Reading)   // after every sample, miss or fault, and repeatedly while a sampler hangs
	Cost    func(Cost)      // after every call to a device
}

// Keepers are what the monitor works with. Each may be nil.
type Keepers struct {
	Standings *Standings            // remembers how far devices are trusted
	Drains    *drains.Drains        // knows on which devices berth itself works
	Heat      map[string]heat.Model // how the temperature of devices followed their power before a restart, by UUID
}

// Cost says how long one call to a device took.
type Cost struct {
	Backend  string
	GPU      string // UUID
	Tier     string // TierFast or TierSlow
	Duration time.Duration
	Err      error // why there was no answer; nil if there was one
}

// The tiers of Cost.
const (
	TierFast = "fast"
	TierSlow = "slow"
)

// Monitor watches the devices of some backends.
type Monitor struct {
	Keepers
	hooks   Hooks
	sources []*source
	before  map[string]health.Standing // by UUID, from before a restart; read only

	adopting  sync.Mutex // held while the result of a scan is taken over
	switching sync.Mutex // held by Start and Stop, so that their events come in order

	mu       sync.RWMutex // guards the fields below; nothing is called under it
	settings Settings
	on       bool          // whether drivers may be called
	changed  chan struct{} // closed and replaced when settings or on change
	since    time.Time     // when sampling was switched on, or its settings changed
	units    []*unit       // by index, then UUID; replaced, never changed
	run      *run          // nil unless Run runs
}

// run is one call of Run.
type run struct {
	ctx   context.Context
	group sync.WaitGroup
}

// New returns a monitor that is switched on and calls no driver until Run or Once.
func New(backends []device.Backend, s Settings, k Keepers) *Monitor {
	m := &Monitor{Keepers: k, before: k.Standings.All(), settings: s.withDefaults(), on: true, changed: make(chan struct{})}
	var last *source
	for _, b := range backends {
		last = &source{backend: b, before: last, scanning: make(chan struct{}, 1), watching: make(chan struct{}, 1), once: make(chan struct{})}
		m.sources = append(m.sources, last)
	}
	return m
}

// Subscribe sets the functions to call. Call it before the first Run or Once.
func (m *Monitor) Subscribe(h Hooks) { m.hooks = h }

// Run looks for devices, samples them and watches for faults until ctx ends. When it
// returns, no call is in a driver any more, except those that hang and were given up.
func (m *Monitor) Run(ctx context.Context) error {
	r := &run{ctx: ctx}
	m.mu.Lock()
	if m.run != nil {
		m.mu.Unlock()
		return errors.New("run the monitor: it runs already")
	}
	m.run, m.since = r, time.Now()
	m.startSamplers()
	m.mu.Unlock()
	r.group.Go(func() { m.oversee(r) })
	for _, src := range m.sources {
		due := func(Settings) time.Time { return m.scanDue(src) }
		scan := func() { _ = m.scan(ctx, src) } // an event reports a failure
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

// leaveDrivers waits a moment for scans and watches to return from the drivers: their
// context has ended, and only one that hangs does not return.
func (m *Monitor) leaveDrivers() {
	patience := time.After(2 * time.Second)
	for _, src := range m.sources {
		for _, token := range []chan struct{}{src.scanning, src.watching} {
			select {
			case token <- struct{}{}:
				<-token
			case <-patience:
				return
			}
		}
	}
}

// startSamplers starts a goroutine for every unit that has none, if Run runs.
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

// repeat calls do whenever it is due and the monitor is on, until ctx ends. It sleeps in
// between: a change of settings or of the switch wakes it.
func (m *Monitor) repeat(ctx context.Context, due func(Settings) time.Time, do func()) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		settings, on, changed := m.control()
		var tick <-chan time.Time
		if on {
			wait := time.Until(due(settings))
			if wait <= 0 {
				// No timer here that is due already: several of those at once
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

// control returns what the loops depend on; changed is closed when any of it changes.
func (m *Monitor) control() (s Settings, on bool, changed <-chan struct{}) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.settings, m.on, m.changed
}

// Start switches the monitor on. Its event says that by asked for it.
func (m *Monitor) Start(by gpu.By) (changed bool) { return m.switchTo(true, by) }

// Stop switches the monitor off. Its event says that by asked for it. Readings stay and
// age, and the monitor calls no driver until Start. A call under way is finished.
func (m *Monitor) Stop(by gpu.By) (changed bool) { return m.switchTo(false, by) }

func (m *Monitor) switchTo(on bool, by gpu.By) (changed bool) {
	m.switching.Lock()
	defer m.switching.Unlock()
	m.mu.Lock()
	if m.on == on {
		m.mu.Unlock()
		return false
	}
	m.on, m.since = on, time.Now()
	m.wake()
	text := "Monitoring stopped: berth reads no device until monitoring is started again"
	if on {
		text = fmt.Sprintf("Monitoring started: berth reads every device every %v", m.settings.Interval)
	}
	m.mu.Unlock()
	m.emit(gpu.Event{
		Time: time.Now(), Code: gpu.EventMonitoring, Severity: gpu.Note, By: by, Text: text,
		Data: map[string]any{"running": on},
	})
	return true
}

// Running reports whether the monitor is switched on.
func (m *Monitor) Running() bool {
	_, on, _ := m.control()
	return on
}

// Configure changes the settings. They take effect at once: the monitor reads
// and judges every device without waiting for its next sample.
func (m *Monitor) Configure(s Settings) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settings, m.since = s.withDefaults(), time.Now()
	for _, u := range m.units {
		u.mu.Lock()
		u.history.resize(m.settings.HistorySize)
		u.hurried = true
		u.mu.Unlock()
	}
	m.wake()
}

// wake notifies the loops of a change. The caller holds mu.
func (m *Monitor) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// hurry makes the next sample of a device come soon.
func (m *Monitor) hurry(u *unit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u.mu.Lock()
	u.hurried = true
	u.mu.Unlock()
	m.wake()
}

// Once looks for devices and samples all of them. It returns when that is done, or when
// ctx has ended and the calls under way have returned or passed their deadline. A device
// that does not answer is a reading and not an error; a backend that cannot look for
// devices is an error.
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
