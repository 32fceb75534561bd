package monitor

import (
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/thermal"
)

// unit is one device and all that is known about it. Its locks are taken in
// the order in which they stand here, and after those of Monitor.
type unit struct {
	source *source
	guard  *device.Guard
	uuid   string

	sampling bool // it has a goroutine; guarded by Monitor.mu

	asking  chan struct{} // holds a token while the driver is asked
	slowDue time.Time     // guarded by asking

	// judging is held while something about the device is worked out and told,
	// never while its driver is asked; it makes the hooks come one at a time.
	judging   sync.Mutex
	tracker   thermal.Tracker
	lost      bool      // it fell off, and that was told
	throttled bool      // work was told to slow down, and not yet to go on
	hot       bool      // an overheat was told, and is not over
	fault     time.Time // the newest device fault that still counts; zero: none

	mu      sync.RWMutex // guards what readers copy; nothing is called under it
	device  gpu.Device
	verdict thermal.Verdict
	health  gpu.Health
	slow    gpu.Slow
	history history
	asked   time.Time // when the newest fast call began
}

func newUnit(src *source, d device.Device, now time.Time) *unit {
	described := d.Describe()
	return &unit{
		source:  src,
		guard:   device.NewGuard(d),
		asking:  make(chan struct{}, 1),
		uuid:    described.UUID,
		device:  described,
		verdict: thermal.Verdict{State: gpu.Unavailable, Since: now, Reason: "not measured yet"},
		health:  gpu.HealthUnknown,
	}
}

// due is when the next sample is.
func (u *unit) due(s Settings) time.Time {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.asked.Add(s.Interval)
}

func (u *unit) reading() Reading {
	u.mu.RLock()
	defer u.mu.RUnlock()
	v := u.verdict
	r := Reading{
		Device: u.device, State: v.State, Since: v.Since, Reason: v.Reason, Until: v.Until, Stop: v.Stop, Health: u.health,
	}
	if s := u.history.newest(); s != nil {
		r.Sample, r.Sampled = *s, true
	}
	return r
}

// describe replaces the description.
func (u *unit) describe(d gpu.Device) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.device = d
}

func (u *unit) description() gpu.Device {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.device
}

func (u *unit) resize(size int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.history.resize(size)
}

// begin notes the start of a fast call.
func (u *unit) begin(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = now
}

// keep stores a verdict and the sample it is about; nil for a miss.
func (u *unit) keep(v thermal.Verdict, h gpu.Health, s *gpu.Sample) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.verdict, u.health = v, h
	if s != nil {
		s.Slow = u.slow
		u.history.add(s)
	}
}

// keepSlow stores the slow metrics: for the samples to come, and in the newest
// one, which they belong to.
func (u *unit) keepSlow(slow gpu.Slow) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.slow = slow
	if s := u.history.newest(); s != nil {
		s.Slow = slow
	}
}

// faultMemory is how long a device is unhealthy after its last device fault,
// unless it was lost and came back before: a reset is the cure for most.
const faultMemory = 10 * time.Minute

// healthAt is the health of a device that answers.
func (u *unit) healthAt(now time.Time) gpu.Health {
	if !u.fault.IsZero() && now.Sub(u.fault) < faultMemory {
		return gpu.Unhealthy
	}
	return gpu.Healthy
}

// markUnhealthy makes a fault show before the next sample. A device that does
// not answer stays unknown.
func (u *unit) markUnhealthy() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.health == gpu.Healthy {
		u.health = gpu.Unhealthy
	}
}
