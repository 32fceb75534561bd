// Package throttle carries out what package slowdown decides about devices that should
// run slower: it holds leases back, lowers power limits and sets fans.
//
// It restores what it changed when the device is cooler, when the settings say so, and
// when the daemon ends. If the daemon is killed, the next one does.
package throttle

import (
	"context"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/health/heat"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/health/thermal"
	"github.com/berth-gpu/berth/internal/lease"
)

// Devices calls a device under its guard, and knows how its temperature follows its power.
type Devices interface {
	Steer(ctx context.Context, uuid string, do func(context.Context, device.Device) error) error
	Model(uuid string) (heat.Model, bool)
}

// Leases returns the leases on a device.
type Leases interface {
	Holdings(uuid string) []lease.Holding
}

// Pacer holds leases to a share of their speed. A second Hold changes the share. Hold
// returns an error for a lease that it cannot hold, after it has published that.
type Pacer interface {
	Hold(pace.Hold) error
	Let(fence uint64, by gpu.By, sources ...pace.Source) bool
}

// Options are the parts that a Throttle works with.
type Options struct {
	Settings *config.Config // Configure changes them
	Devices  Devices
	Leases   Leases
	Pacer    Pacer                    // nil if nothing holds leases back
	Denied   func(uuid string) string // why another daemon acts on a device; nil or "" if this one does

	File     string            // keeps what was changed; if empty, nothing does
	Event    func(gpu.Event)   // must not block
	Count    func(kind string) // counts a step; may be nil
	Steered  func(uuid string) // is told that the fans of a device have another speed; may be nil
	Complain func(error)       // reports that the file cannot be written; may be nil
}

// The kinds of steps that Count gets, besides those of a power limit.
const (
	paceStep = "paced"
	fanStep  = "fan"
)

// Kinds returns the kinds of steps that are counted.
func Kinds() []string {
	kinds := []string{paceStep, fanStep}
	for _, k := range slowdown.Kinds() {
		kinds = append(kinds, string(k))
	}
	return kinds
}

// Throttle acts on devices.
type Throttle struct {
	Options
	notes notes
	paces pacing

	switching sync.Mutex // held by Rest and Resume; guards endRest
	endRest   func()     // ends what a Rest still tries, and waits for that

	mu       sync.Mutex // guards what follows
	settings *config.Config
	paced    bool // some service is paced, or has a share, whatever the policy of the device
	hands    map[string]*hand
	running  context.Context // ends with Run; nil unless Run runs
	resting  bool            // nothing is done until Resume
	working  sync.WaitGroup
}

// hand holds what a Throttle does to one device. One goroutine at a time works on it.
type hand struct {
	uuid string

	// Guarded by Throttle.mu.
	newest   monitor.Reading
	fresh    bool // newest was not acted on
	busy     bool // a goroutine works
	settings config.GPU
	retry    bool // the settings have changed, so try again what could not be steered
	acts     slowdown.Acts
	sharing  bool // leases on the device are held to the share of their service

	// The working goroutine owns what follows.
	tracker thermal.Tracker
	ramp    slowdown.Ramp
	limit   slowdown.Limit
	fan     slowdown.Fan
	power   refusal   // of the power limit
	fans    refusal   // of their speed
	seen    time.Time // time of the last sample that was acted on
	sighted time.Time // when that was

	taken     bool // somebody else has set the power limit, and berth leaves it alone
	fanQuiet  bool // the fans were tried again in vain, which people need not hear
	fanTold   bool // an event said that the fans cannot be set or given back
	fanTaken  bool // the device may have taken a speed for its fans since they were the driver's
	unwritten bool // the file could not be written, and that was reported
}

// refusal is what a device refuses to be set. It may be another time that the device takes
// it, as when it has been reset, so it is tried again after a while that grows.
type refusal struct {
	shut  bool      // it is not tried now
	times int       // that it was refused since it was last set
	until time.Time // when it is tried again
}

// note notes a refusal. While it is shut, only what was done before is undone, and whether
// that is refused says nothing new.
func (r *refusal) note(now time.Time) {
	if r.shut {
		return
	}
	const first, longest = 10 * time.Second, time.Hour
	*r = refusal{shut: true, times: r.times + 1, until: now.Add(min(first<<min(r.times, 9), longest))}
}

// opens reports whether the time has come to try again, once.
func (r *refusal) opens(now time.Time) bool {
	opens := r.shut && !now.Before(r.until)
	r.shut = r.shut && !opens
	return opens
}

// Open returns a Throttle that knows what an earlier daemon changed.
func Open(o Options) (*Throttle, *file.Damage) {
	if o.Denied == nil {
		o.Denied = func(string) string { return "" }
	}
	if o.Count == nil {
		o.Count = func(string) {}
	}
	if o.Complain == nil {
		o.Complain = func(error) {}
	}
	t := &Throttle{Options: o, hands: map[string]*hand{}, endRest: func() {}}
	t.Configure(o.Settings)
	t.notes = newNotes(o.File)
	t.paces = pacing{pacer: o.Pacer, leases: map[uint64]*paced{}, served: map[string]map[uint64]float64{}}
	kept, damage := t.notes.read()
	for uuid, k := range kept {
		h := t.hand(uuid)
		if k.Power != nil {
			h.limit = slowdown.Recall(*k.Power)
			h.acts.Original = gpu.Some(k.Power.Original)
		}
		if k.Fan {
			h.fan, h.fanTaken = slowdown.Fan{Held: true, Speed: -1}, true
			h.acts.Fans = true
		}
	}
	return t, damage
}

// hand returns the hand of a device. The caller holds mu, or is alone.
func (t *Throttle) hand(uuid string) *hand {
	h := t.hands[uuid]
	if h == nil {
		h = &hand{uuid: uuid, settings: t.settings.GPU.For(uuid), acts: slowdown.Acts{Share: 1}}
		t.hands[uuid] = h
	}
	return h
}

// Configure changes the settings. The Throttle then tries again what it could not steer
// before.
func (t *Throttle) Configure(c *config.Config) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settings, t.paced = c, false
	for _, s := range c.Services {
		t.paced = t.paced || slowdown.Policy(s.Throttle).Does(slowdown.Pace) || s.Compute.Known()
	}
	for _, h := range t.hands {
		h.settings = c.GPU.For(h.uuid)
		h.retry, h.fresh = true, h.newest.Sampled
		t.work(h)
	}
}

// Observe records a reading of a device. It does not block.
func (t *Throttle) Observe(r monitor.Reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.hand(r.Device.UUID)
	h.newest, h.fresh = r, true
	t.work(h)
}

// work starts a goroutine for a device that has something to act on. The caller
// holds mu.
func (t *Throttle) work(h *hand) {
	if t.running == nil || t.resting || !h.fresh || h.busy || !t.needed(h) {
		return
	}
	h.busy = true
	ctx := t.running
	t.working.Go(func() {
		for {
			t.mu.Lock()
			h.busy = h.fresh && !t.resting && ctx.Err() == nil
			if !h.busy {
				t.mu.Unlock()
				return
			}
			r, s, services := h.newest, h.settings, t.settings.Services
			if h.retry {
				h.seen = time.Time{}
				h.power, h.fans, h.taken, h.fanTold, h.limit = refusal{}, refusal{}, false, false, h.limit.Again()
			}
			h.fresh, h.retry = false, false
			t.mu.Unlock()
			sharing := t.share(h.uuid, services)
			// A call that is given up is still in the driver, which then answers nobody: the
			// restore at the end would come in vain. Steer limits the time of each call.
			acts := t.act(context.WithoutCancel(ctx), h, r, s, services)
			t.mu.Lock()
			h.acts, h.sharing = acts, sharing
			t.mu.Unlock()
		}
	})
}

// needed reports whether there may be something to do about a device. The caller
// holds mu.
func (t *Throttle) needed(h *hand) bool {
	acting := h.acts.Share < 1 || h.acts.Original.Known() || h.acts.Fans
	return acting || h.sharing || t.paced || slowdown.Policy(h.settings.Throttle).Does(slowdown.Pace) || h.settings.FanCurve != ""
}
