package monitor

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/health/heat"
	"github.com/berth-gpu/berth/internal/health/thermal"
)

// unit is one device and everything known about it. Its locks are taken in the order of
// the fields here, and after those of Monitor.
type unit struct {
	source *source
	guard  *device.Guard
	uuid   string
	own    int // its index among the devices of its source; guarded by Monitor.adopting

	whole   atomic.Pointer[unit] // the device that it is an instance of; nil if none, or not found yet
	removed atomic.Bool          // whether it is an instance that its device does not have any more

	sampling bool // whether it has a goroutine; guarded by Monitor.mu

	asking  chan struct{} // holds a token while the driver is called
	slowDue time.Time     // guarded by asking
	slowAt  time.Time     // when the slow metrics were last asked for; guarded by asking
	steered atomic.Int64  // when berth last changed something that the slow metrics show, as UnixNano

	// judging is held while the monitor judges the device and reports on it, and never
	// while it calls the driver. It serializes the hooks.
	judging   sync.Mutex
	tracker   thermal.Tracker
	lost      bool // whether it fell off the bus, and an event said so
	throttled bool // whether a throttle event was sent, and no resume event yet
	hot       bool // whether an overheat event was sent, and it is not over
	silent    bool // whether it did not answer the last call
	standing  health.Standing
	heat      heat.Model
	foresight thermal.Foresight
	ahead     *Outlook // the last outlook, and when it was computed
	looked    time.Time
	foretold  gpu.State // the state ahead in the last forecast event; OPTIMAL if nothing is ahead

	announcing sync.Mutex  // held while tellStuck reports that the sampler hangs
	telling    atomic.Bool // whether a goroutine is in tellStuck, or hangs there

	mu      sync.RWMutex // guards what readers copy; nothing is called under it
	device  gpu.Device
	verdict thermal.Verdict
	health  gpu.Health
	trust   health.Standing // copy of standing, for readers
	model   heat.Model      // copy of heat, for readers
	outlook *Outlook        // nil if not known; never changed
	sight   thermal.Sight
	slow    gpu.Slow
	history history
	asked   time.Time // when the newest fast call began
	judged  time.Time // when the sampler last recorded an answer, or the lack of one
	hung    time.Time // since when the sampler is reported as hanging; zero if it is not
	hurried bool      // whether the next sample should come soon
}

func newUnit(src *source, d device.Device, described gpu.Device, now time.Time, before health.Standing, known heat.Model) *unit {
	return &unit{
		source:  src,
		guard:   device.NewGuard(d),
		asking:  make(chan struct{}, 1),
		uuid:    described.UUID,
		own:     d.Describe().Index,
		device:  described,
		judged:  now,
		verdict: thermal.Verdict{State: gpu.Unavailable, Since: now, Reason: "not measured yet", Cause: gpu.CauseSilent},
		health:  gpu.HealthUnknown,

		standing: before,
		trust:    before,
		heat:     known,
		model:    known,
		foretold: gpu.Optimal,
		sight:    thermal.Sight{State: gpu.Optimal},
	}
}

// due returns when the next sample is due.
func (u *unit) due(s Settings) time.Time {
	u.mu.RLock()
	defer u.mu.RUnlock()
	if u.hurried {
		return u.asked.Add(min(s.Interval, soon))
	}
	return u.asked.Add(s.Interval)
}

// soon is the shortest time between two samples, however much they hurry.
const soon = 100 * time.Millisecond

// reading returns a copy of what is known, or UNAVAILABLE if the sampler hangs, or if the
// device that it is an instance of is in quarantine.
func (u *unit) reading(now time.Time, p pace) Reading {
	r := u.ownReading(now, p)
	whole := u.whole.Load()
	if whole == nil {
		return r
	}
	if trust := whole.trusted(); trust.Phase == health.Quarantined && r.State != gpu.Unavailable {
		r.State, r.Since, r.Until, r.Health, r.Stop = gpu.Unavailable, trust.Since, trust.Until, gpu.Unhealthy, true
		r.Reason = whole.description().Label() + ", which it is part of, is " + trust.Reason()
		r.Multiplier, r.Cause, r.Slower, r.StateCause = 0, CauseState, "", gpu.CauseFault
	}
	return r
}

// trusted returns the standing of the device.
func (u *unit) trusted() health.Standing {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.trust
}

// ownReading returns a copy of what is known of the device alone.
func (u *unit) ownReading(now time.Time, p pace) Reading {
	u.mu.RLock()
	defer u.mu.RUnlock()
	v := u.verdict
	r := Reading{
		Device: u.device, Outlook: u.outlook, State: v.State, Since: v.Since, Reason: v.Reason, StateCause: v.Cause, Until: v.Until, Health: u.health, Standing: u.trust,
		Hot: v.Stop, Stop: v.Stop || u.trust.Phase == health.Quarantined, Removed: u.removed.Load(),
	}
	if s := u.history.newest(); s != nil {
		r.Sample, r.Sampled = *s, true
		r.Stale = now.Sub(s.Time) > p.limit
	}
	if since, stuck := p.overdue(now, u.judged); stuck && r.State != gpu.Unavailable {
		r.State, r.Since, r.Reason, r.Until, r.Health = gpu.Unavailable, since, p.reason(), time.Time{}, gpu.HealthUnknown
		r.Outlook, r.StateCause = nil, gpu.CauseSilent
	}
	r.Multiplier, r.Cause = r.State.Multiplier(), CauseState
	r.slow(u.sight)
	return r
}

// describe replaces the description.
func (u *unit) describe(d gpu.Device) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.device = d
}

// describeAgain asks the device what it is now. It keeps the index, which the backend
// counts among its own devices only.
func (u *unit) describeAgain() {
	d := u.guard.Describe()
	u.mu.Lock()
	defer u.mu.Unlock()
	d.Index = u.device.Index
	u.device = d
}

func (u *unit) description() gpu.Device {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.device
}

// begin records the start of a fast call.
func (u *unit) begin(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked, u.hurried = now, false
}

// keep stores a verdict and its sample, which is nil if nothing was measured. The caller
// holds judging.
func (u *unit) keep(v thermal.Verdict, s *gpu.Sample) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.verdict, u.health, u.trust = v, u.healthNow(), u.standing
	if s != nil {
		s.Slow, s.State = u.slow, v.State
		u.history.add(s)
	}
}

// keepSlow stores the slow metrics: for the samples to come, and in the newest one, which
// they belong to.
func (u *unit) keepSlow(slow gpu.Slow) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.slow = slow
	if s := u.history.newest(); s != nil {
		s.Slow = slow
	}
}

// healthNow returns the health of a device. A device on probation still has to prove
// itself. The caller holds judging.
func (u *unit) healthNow() gpu.Health {
	switch {
	case u.silent || u.standing.Phase == health.Probation:
		return gpu.HealthUnknown
	case u.standing.Phase == health.Quarantined:
		return gpu.Unhealthy
	}
	return gpu.Healthy
}
