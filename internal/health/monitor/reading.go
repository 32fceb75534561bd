package monitor

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health"
)

// Reading is one device at a moment. It is a copy that does not change; its lists and
// maps are shared and must not be written to.
type Reading struct {
	Device  gpu.Device
	Sample  gpu.Sample // the newest one; it stays when the device stops answering
	Sampled bool       // whether there is a sample
	Stale   bool       // whether it is older than three intervals, and than 3 s
	State   gpu.State
	Since   time.Time
	// Multiplier is how fast work may run, from 0 to 1. Cause is what decided that:
	// CauseState, or a reason to be slower than the state says.
	Multiplier float64
	Cause      string
	Slower     string   // why it is slower than the state says; empty if it is not
	Outlook    *Outlook // forecast of the temperature; nil if not known
	Reason     string
	StateCause string    // the cause of the state, such as gpu.CauseMemory; empty if it is OPTIMAL, or nothing is measured
	Until      time.Time // the earliest time that work may run faster; zero while no cooldown runs
	Hot        bool      // above temp_critical
	Stop       bool      // above temp_critical, or in quarantine: holders must stop now
	Removed    bool      // it is an instance that its device does not have any more
	Health     gpu.Health
	Standing   health.Standing

	CheckDue bool // the device has to be checked before it leaves its quarantine; only in what a hook gets with a sample
	Stuck    bool // the sampler hangs, perhaps in a hook; only in what a hook gets
}

// The causes of a multiplier.
const (
	CauseState    = "state"
	CauseForecast = "forecast"
)

// Readings returns every device that was ever found, by index, then UUID, without
// instances that were removed.
func (m *Monitor) Readings() []Reading {
	units, now, p := m.list(), time.Now(), m.pace()
	readings := make([]Reading, 0, len(units))
	for _, u := range units {
		if !u.removed.Load() {
			readings = append(readings, u.reading(now, p))
		}
	}
	return readings
}

// Find returns the device with this UUID or, written as a decimal number, this
// index. For "" it returns the first one.
func (m *Monitor) Find(ref string) (Reading, bool) {
	units, now, p := m.list(), time.Now(), m.pace()
	if ref == "" && len(units) > 0 {
		return units[0].reading(now, p), true
	}
	if u := m.unit(ref); u != nil {
		return u.reading(now, p), true
	}
	where := gpu.Where{GPU: ref}
	for _, u := range units {
		if r := u.reading(now, p); where.Allows(r.Device.UUID, r.Device.Index) {
			return r, true
		}
	}
	return Reading{}, false
}

// History returns the newest samples of a device that are not older than since,
// oldest first. It returns at most limit of them, unless limit is 0.
func (m *Monitor) History(uuid string, since time.Time, limit int) []gpu.Sample {
	u := m.unit(uuid)
	if u == nil {
		return nil
	}
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.history.last(since, limit)
}

func (m *Monitor) list() []*unit {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.units
}

// unit returns the unit of a device by UUID, or nil.
func (m *Monitor) unit(uuid string) *unit { return find(m.list(), uuid) }

func find(units []*unit, uuid string) *unit {
	if i := slices.IndexFunc(units, func(u *unit) bool { return u.uuid == uuid }); i >= 0 {
		return units[i]
	}
	return nil
}
