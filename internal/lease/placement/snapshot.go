package placement

import (
	"math"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// Use has what changes on a device from one decision to the next.
type Use struct {
	Available gpu.MiB // memory that can be leased now; negative if the device is over-used
	Ceiling   gpu.MiB // memory that could be leased if nobody held anything

	Active       int // slots in use
	Usable       int // slots that may be in use in the present state
	MaxPipelines int // slots in the best state

	Leases int     // active leases
	Held   gpu.MiB // memory that they take
	Alone  bool    // one of them has the device alone

	Recent Recent          // what was measured lately
	Warmth gpu.Opt[Warmth] // where its temperature settles; absent if not known

	State  gpu.State
	Reason string // why it is in this state; empty if not known
	Closed string // why nothing is granted here, such as a quarantine; empty if open
	Slower string // why fewer slots can be used than the state allows; empty if no fewer
}

// free returns the number of slots that berth can grant, or -1 if it grants
// nothing at all, not even a lease without slots.
func (u *Use) free() int32 {
	if u.Closed != "" || u.Alone || u.State.Multiplier() == 0 {
		return -1
	}
	return int32(min(max(u.Usable-u.Active, 0), math.MaxInt32))
}

// Snapshot is the machine as placement sees it. One goroutine owns it: Choose and Explain
// use its scratch space. It keeps devices in the order of their index, and by position in
// parallel slices, so that a decision walks through memory in a straight line.
type Snapshot struct {
	devices  []gpu.Device
	position map[string]int // by UUID
	models   []gpu.Model    // the distinct models, which constraints look at
	model    []int32        // by position

	links     [][]link // by position, sorted by the other end
	strongest int32    // of all links

	use   []Use
	room  []gpu.MiB // Use.Available again, for the scan
	free  []int32   // Use.free
	spare []float32 // Use.spare
	keys  [][]Key   // by policy
	lows  [][]Key   // by policy: the least key of each block

	services map[string]presence

	scratch scratch
}

// block is the number of devices that a scan leaves out at once, if the least of their
// keys is too large. With 10,000 devices, a decision about one takes a tenth of the time that
// it takes to look at all keys, and one about four takes two fifths.
const block = 32

// NewSnapshot returns a snapshot of these devices. A device is closed until its first
// Update. When a device appears or its facts change, make a new snapshot.
func NewSnapshot(devices []gpu.Device) *Snapshot {
	s := &Snapshot{
		position: make(map[string]int), services: make(map[string]presence),
		keys: make([][]Key, len(policies)), lows: make([][]Key, len(policies)),
	}
	for _, d := range devices {
		if _, twice := s.position[d.UUID]; !twice {
			s.position[d.UUID] = 0
			s.devices = append(s.devices, d)
		}
	}
	slices.SortStableFunc(s.devices, func(a, b gpu.Device) int {
		if a.Index != b.Index {
			return a.Index - b.Index
		}
		return strings.Compare(a.UUID, b.UUID)
	})
	n := len(s.devices)
	s.use, s.room, s.free, s.model = make([]Use, n), make([]gpu.MiB, n), make([]int32, n), make([]int32, n)
	s.spare = make([]float32, n)
	for p := range s.keys {
		s.keys[p], s.lows[p] = make([]Key, n), make([]Key, (n+block-1)/block)
	}
	s.scratch.rank, s.scratch.pull = make([]int8, n), make([]pull, n)
	s.scratch.only = make([]bool, n)
	known := make(map[gpu.Model]int32)
	for i := range s.devices {
		s.position[s.devices[i].UUID] = i
		s.model[i] = s.modelOf(&s.devices[i], known)
		s.set(i, Use{Closed: "it has not been measured yet"})
	}
	s.links = linksOf(s.devices, s.position)
	for _, all := range s.links {
		for _, l := range all {
			s.strongest = max(s.strongest, l.strength)
		}
	}
	return s
}

// Len returns the number of devices.
func (s *Snapshot) Len() int { return len(s.devices) }

// Update replaces the Use of one device. It reports whether the snapshot has that device.
func (s *Snapshot) Update(uuid string, u Use) bool {
	i, ok := s.position[uuid]
	if ok {
		s.set(i, u)
	}
	return ok
}

// Use returns the Use of a device from its last Update, and whether the snapshot has that
// device.
func (s *Snapshot) Use(uuid string) (Use, bool) {
	i, ok := s.position[uuid]
	if !ok {
		return Use{}, false
	}
	return s.use[i], true
}

func (s *Snapshot) set(i int, u Use) {
	s.use[i], s.room[i], s.free[i], s.spare[i] = u, u.Available, u.free(), u.spare()
	for p := range s.keys {
		s.rekey(p, i, policies[p].key(&s.use[i]))
	}
}

// rekey changes the key of a device, and the least key of its block.
func (s *Snapshot) rekey(policy, i int, key Key) {
	keys, low := s.keys[policy], &s.lows[policy][i/block]
	before := keys[i]
	keys[i] = key
	switch {
	case key <= *low:
		*low = key
	case before == *low: // it may have been the only one
		from := i - i%block
		*low = slices.Min(keys[from:min(from+block, len(keys))])
	}
}

// SameFacts reports whether two devices are equal in all that placement uses.
func SameFacts(a, b *gpu.Device) bool {
	return a.Index == b.Index && a.Name == b.Name && a.Vendor == b.Vendor && a.ComputeCapability == b.ComputeCapability &&
		a.MemoryTotal == b.MemoryTotal && a.Confidential == b.Confidential && slices.Equal(a.Links, b.Links)
}

// mostOwnUse is more than a driver uses for itself. Memory in use beyond it
// belongs to a process that berth cannot see, and that may end.
const mostOwnUse = gpu.MiB(1024)

// OwnUse returns the memory that a driver uses for itself, which nobody can ever lease:
// the least that was measured beyond what processes use, in this sample and before. It
// ignores a sample that lacks the memory of a process.
func OwnUse(s *gpu.Sample, before gpu.Opt[gpu.MiB]) gpu.Opt[gpu.MiB] {
	rest, measured := s.MemoryUsed.Get()
	for _, p := range s.Processes {
		memory, known := p.Memory.Get()
		rest, measured = rest-memory, measured && known
	}
	if !measured {
		return before
	}
	return gpu.Some(min(max(rest, 0), mostOwnUse, before.Or(mostOwnUse)))
}

// modelOf returns the position of a device's model in s.models, and adds the model if it
// is new. A machine has few models, so constraints are judged per model.
func (s *Snapshot) modelOf(d *gpu.Device, known map[gpu.Model]int32) int32 {
	m := d.Model()
	at, ok := known[m]
	if !ok {
		at = int32(len(s.models))
		known[m] = at
		s.models = append(s.models, m)
	}
	return at
}

// judge returns which models meet the constraints. The result lies in scratch space and
// is valid until the next call.
func (s *Snapshot) judge(w *gpu.Where) []bool {
	verdict := s.scratch.models[:0]
	for i := range s.models {
		verdict = append(verdict, w.Unmet(&s.models[i]) == "")
	}
	s.scratch.models = verdict
	return verdict
}

// link is a link to another device. Larger strength is better.
type link struct {
	to       int32
	strength int32
}

// strength returns the strength of a link: its kind counts before the number of its
// lanes.
func strength(l gpu.Link) int32 {
	return int32(l.Kind.Closeness())<<8 | int32(min(max(l.Lanes, 0), 255))
}

// linksOf returns the links of each device, by position. Two devices may report the same
// link; the better report counts for both ends.
func linksOf(devices []gpu.Device, position map[string]int) [][]link {
	links := make([][]link, len(devices))
	for i := range devices {
		for _, l := range devices[i].Links {
			if j, ok := position[l.To]; ok && j != i {
				links[i] = append(links[i], link{int32(j), strength(l)})
				links[j] = append(links[j], link{int32(i), strength(l)})
			}
		}
	}
	for i := range links {
		slices.SortFunc(links[i], func(a, b link) int {
			if a.to != b.to {
				return int(a.to - b.to)
			}
			return int(b.strength - a.strength)
		})
		links[i] = slices.CompactFunc(links[i], func(a, b link) bool { return a.to == b.to })
	}
	return links
}
