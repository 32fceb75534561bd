package ledger

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/placement"
)

// Observation is what was last measured on a device.
type Observation struct {
	Device gpu.Device
	Sample *gpu.Sample // nil: it did not answer
	State  gpu.State
	Health gpu.Health
	Stop   bool   // above temp_critical, or in quarantine: nothing is granted
	Reason string // why it is in this state

	Standing health.Standing
}

// observed is a device as the ledger knows it.
type observed struct {
	Observation
	used  []usedBy           // what processes were measured to use
	total gpu.MiB            // what was measured in all, with the driver's own
	owned map[string]gpu.MiB // the part of it that is under leases, by lease

	// driver is what the device has in use for itself, which nobody can ever
	// lease: the least that was ever measured beyond what its processes use.
	driver gpu.Opt[gpu.MiB]
}

// mostOwnUse is more than a driver takes for itself. Beyond it there is somebody
// whom berth cannot see, and who may leave.
const mostOwnUse = gpu.MiB(1024)

// ownUse learns from a sample what the device takes for itself. Where the memory
// of a process is not known, nothing can be learned.
func (o *observed) ownUse(s *gpu.Sample) {
	rest, measured := s.MemoryUsed.Get()
	for _, p := range s.Processes {
		memory, known := p.Memory.Get()
		rest, measured = rest-memory, measured && known
	}
	if measured {
		o.driver = gpu.Some(min(max(rest, 0), mostOwnUse, o.driver.Or(mostOwnUse)))
	}
}

// most is what could be leased of a device if nobody held anything.
func (o *observed) most(sum lease.Sum) gpu.MiB { return sum.Ceiling() - o.driver.Or(0) }

// closed says why nothing is granted on a device; empty if it is.
func (o *observed) closed() string {
	switch {
	case o.State == gpu.Unavailable:
		return o.Reason
	case o.Stop:
		return "it is too hot: " + o.Reason
	}
	return ""
}

// recount works the capacity of every device out again.
func (m *machine) recount() {
	for uuid := range m.devices {
		m.capacity(uuid)
	}
	m.dirty = true
}

// capacity tells the book what a device has to give.
func (m *machine) capacity(uuid string) {
	o := m.devices[uuid]
	set := m.settings.Device(uuid)
	slots := set.MaxPipelines
	if slots == 0 {
		// A pipeline needs a CPU to feed its device.
		slots = max(1, (m.cpus+len(m.devices)-1)/len(m.devices))
	}
	c := lease.Capacity{Total: o.Device.MemoryTotal, Limit: set.Limit, Reserve: set.Reserve, MaxPipelines: slots}
	if o.closed() == "" {
		c.Usable = o.Standing.Slots(lease.UsableSlots(slots, o.State.Multiplier()))
	}
	m.book.SetCapacity(uuid, c)
	m.refresh(uuid)
}

// refresh shows placement what the book says about a device.
func (m *machine) refresh(uuid string) {
	o := m.devices[uuid]
	if o == nil {
		return // a lease from before a restart, on a device that was not seen yet
	}
	sum, _ := m.book.Sum(uuid)
	m.snapshot.Update(uuid, placement.Use{
		Available: sum.Available(), Ceiling: o.most(sum),
		Active: sum.Active, Usable: sum.Usable, MaxPipelines: sum.MaxPipelines,
		State: o.State, Reason: o.Reason, Closed: o.closed(),
	})
}
