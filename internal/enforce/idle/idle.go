// Package idle keeps since when the processes of leases have not used their devices.
//
// It looks only at leases that berth may park, and only while there are any. It learns
// what they hold from the samples of the monitor, and asks the driver how much each of
// their processes used the device: every five seconds, or more often where the settings
// call a lease idle after less than fifteen.
//
// Evidence has the rules of what counts as use. If a driver does not report the use of a
// process, its lease stays in use forever.
package idle

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/lease"
)

// Often returns how often to look whether leases are idle, if one is idle after this long.
// The first answer of a driver without use comes up to two questions after the last use,
// so there are three in that time. NVIDIA's driver takes 2.3 ms to answer.
func Often(after time.Duration) time.Duration {
	return min(max(after/3, time.Second), 5*time.Second)
}

// Holding is a lease on a device that berth may park.
type Holding struct {
	lease.Holding
	PIDs  []int // its processes on the device
	Alone bool  // nobody else has processes there
}

// Figures are the evidence that a lease is idle.
type Figures struct {
	Spell      // on all its devices together
	Long  bool // it has been idle for as long as the settings ask for
}

// Options are the parts that Idlers work with.
type Options struct {
	// Busy asks a device how much its processes used it since a moment.
	Busy func(ctx context.Context, uuid string, since time.Time) (device.Busy, error)
	// After returns how long a lease must not have used its devices to be idle.
	After func() time.Duration
	// Publish sends an event when a lease becomes idle, or is used again. It is called
	// without a lock held.
	Publish func(gpu.Event)
}

// Idlers keeps since when leases are idle. New makes them.
type Idlers struct {
	Options
	due chan struct{} // holds one value when a device should be asked

	mu      sync.Mutex // guards what follows
	devices map[string]*unit
	leases  map[uint64]*held // by fence
}

// unit is a device with leases that berth may park.
type unit struct {
	device gpu.Device
	seen   time.Time           // when it was last sampled
	asked  time.Time           // when it was last asked
	here   map[uint64]*measure // by fence
}

// measure holds what is known about a lease on one device.
type measure struct {
	Evidence
	memory gpu.MiB
	pids   []int
	used   bool // the device worked for it since it was last asked
}

// held is a lease on any number of devices.
type held struct {
	*lease.Lease
	devices map[string]*measure // by UUID
	told    bool                // an event has said that it is idle
}

// New returns Idlers that know nothing.
func New(o Options) *Idlers {
	return &Idlers{Options: o, due: make(chan struct{}, 1), devices: map[string]*unit{}, leases: map[uint64]*held{}}
}

// Observe records a sample of a device, and the leases on it that berth may park. It does
// not ask the driver, and returns at once if there are no such leases.
func (i *Idlers) Observe(on gpu.Device, s *gpu.Sample, here []Holding) {
	after := i.After() // before mu is locked: it is the caller's code
	i.mu.Lock()
	u := i.devices[on.UUID]
	if u == nil && len(here) == 0 {
		i.mu.Unlock()
		return
	}
	if u == nil {
		u = &unit{asked: s.Time, here: map[uint64]*measure{}} // the first question begins with this sample
		i.devices[on.UUID] = u
	}
	u.device = on
	if s.Time.Equal(u.seen) {
		i.mu.Unlock()
		return // the device did not answer, so this sample is an old one
	}
	u.seen = s.Time
	i.leave(on.UUID, here)
	for _, h := range here {
		if i.meet(u, h).observe(on, s, h) {
			i.leases[h.Lease.Fence].told = false // it uses nothing, so there is nothing to publish
		}
	}
	if len(u.here) == 0 {
		delete(i.devices, on.UUID)
	} else if since := s.Time.Sub(u.asked); since >= Often(after) || since < 0 {
		select {
		case i.due <- struct{}{}:
		default: // it is going to be asked anyway
		}
	}
	events := i.judge(u, s.Time, after)
	i.mu.Unlock()
	i.tell(events)
}

// observe records what a sample says about a lease on a device. It reports whether
// processes of the lease have left the device, because they ended or are parked, and
// nothing else has changed.
func (m *measure) observe(on gpu.Device, s *gpu.Sample, h Holding) (left bool) {
	left = h.Measured < m.memory && len(h.PIDs) < len(m.pids) && within(m.pids, h.PIDs)
	if h.Measured != m.memory || s.Processes == nil {
		m.Sample(s.Time, s.Time, gpu.Opt[gpu.Percent]{}, h.Measured)
	}
	m.memory, m.pids = h.Measured, h.PIDs
	// A driver reports use over the last second or so. Use of the device before that is
	// due to the only lease on it. A simulated device has work of its own.
	if h.Alone && on.Vendor != gpu.Simulated && s.Utilization.Or(0) > NoUse {
		m.used = true
	}
	return left
}

// within reports whether all processes of now are in before.
func within(before, now []int) bool {
	for _, pid := range now {
		if !slices.Contains(before, pid) {
			return false
		}
	}
	return true
}

// meet returns what is known about a lease on a device. The caller holds mu.
func (i *Idlers) meet(u *unit, h Holding) *measure {
	l := i.leases[h.Lease.Fence]
	if l == nil {
		l = &held{devices: map[string]*measure{}}
		i.leases[h.Lease.Fence] = l
	}
	l.Lease = h.Lease
	m := u.here[h.Lease.Fence]
	if m == nil {
		m = &measure{memory: h.Measured}
		u.here[h.Lease.Fence], l.devices[u.device.UUID] = m, m
	}
	return m
}

// leave forgets the leases that are not on a device any more. The caller holds mu.
func (i *Idlers) leave(uuid string, here []Holding) {
	stay := map[uint64]bool{}
	for _, h := range here {
		stay[h.Lease.Fence] = true
	}
	for fence := range i.devices[uuid].here {
		if stay[fence] {
			continue
		}
		delete(i.devices[uuid].here, fence)
		delete(i.leases[fence].devices, uuid)
		if len(i.leases[fence].devices) == 0 {
			delete(i.leases, fence)
		}
	}
}

// Of returns since when a lease is idle. It returns false if the lease is in use, if that
// is not known, or if berth may not park the lease.
func (i *Idlers) Of(fence uint64) (Figures, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	l := i.leases[fence]
	if l == nil {
		return Figures{}, false
	}
	f, idle := l.figures()
	f.Long = l.told
	return f, idle
}

// Count returns how many leases have been idle for as long as the settings ask for.
func (i *Idlers) Count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := 0
	for _, l := range i.leases {
		if l.told {
			n++
		}
	}
	return n
}

// figures returns the evidence of all devices of a lease together.
func (l *held) figures() (f Figures, idle bool) {
	for _, m := range l.devices {
		here, idle := m.Idle()
		if !idle {
			return Figures{}, false
		}
		f.Utilization, f.Memory = max(f.Utilization, here.Utilization), f.Memory+here.Memory
		if here.Since.After(f.Since) {
			f.Since = here.Since
		}
	}
	return f, len(l.devices) > 0
}
