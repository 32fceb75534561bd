package ledger

import (
	"iter"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// observed is a device as the ledger knows it.
type observed struct {
	placement.Observation
	used []*usedBy // the measured use of each process
	relatives
	total gpu.MiB               // the memory in use, with that of the driver itself
	rest  gpu.MiB               // of total, what no process told when the device last told its sum
	owned map[lease.Key]gpu.MiB // by lease: the part of total that its processes use
	stale bool                  // its processes may belong to other leases than owned says; see recharge

	recent placement.Recent // average of recent measurements
	growth placement.Growth // of its slots

	// driver is the memory that the driver uses for itself, which nobody can ever
	// lease: the least that was ever measured beyond what processes use.
	driver gpu.Opt[gpu.MiB]
}

// relatives finds the processes of a sample by whom they may work for.
type relatives struct {
	below map[process.ID][]*usedBy     // by a process: itself, and what descends from it
	under map[kinship.Origin][]*usedBy // by the lease that they were started under
}

func relativesOf(used []*usedBy) relatives {
	r := relatives{below: map[process.ID][]*usedBy{}, under: map[kinship.Origin][]*usedBy{}}
	for _, u := range used {
		for _, id := range u.Ancestry {
			r.below[id] = append(r.below[id], u)
		}
		if u.Origin.Lease != "" {
			r.under[u.Origin] = append(r.under[u.Origin], u)
		}
	}
	return r
}

// forget removes processes from a device, with the memory that they used.
func (s *state) forget(o *observed, which iter.Seq[*usedBy]) {
	some := false
	for u := range which {
		u.gone, some = true, true
		o.total -= u.memory
	}
	if some {
		o.used = slices.DeleteFunc(o.used, func(u *usedBy) bool { return u.gone })
		s.attribute(o)
		s.refresh(o.Device.UUID)
	}
}

// most returns how much memory of a device could be leased if nobody held any.
func (o *observed) most(sum lease.Sum) gpu.MiB { return sum.Ceiling() - o.driver.Or(0) }

// ever returns how much memory of a device could be leased at some time. What fits now does,
// also where processes that do not tell their memory hide how little the driver uses.
func (o *observed) ever(sum lease.Sum) gpu.MiB { return max(o.most(sum), sum.Available()) }

// recount computes the capacity of every device again.
func (s *state) recount() {
	for uuid := range s.devices {
		s.capacity(uuid)
	}
	s.dirty = true
}

// leasable returns the number of devices that can be leased.
func (s *state) leasable() (n int) {
	for _, o := range s.devices {
		if o.Leasable() {
			n++
		}
	}
	return n
}

// capacity sets the capacity of a device in the book.
func (s *state) capacity(uuid string) {
	o := s.devices[uuid]
	set := s.settings.Device(uuid)
	slots := set.MaxPipelines
	if slots == 0 {
		// A pipeline needs a CPU to feed its device.
		n := max(s.leasable(), 1)
		slots = max(1, (s.cpus+n-1)/n)
	}
	if set.Extra > 0 && o.Sample != nil {
		sum, _ := s.book.Sum(uuid)
		slots += o.growth.Extra(sum.Active, slots, set.Extra, o.Speed() == 1, &o.recent.Load, o.Sample.Time)
	}
	c := lease.Capacity{Total: o.Device.MemoryTotal, Limit: set.Limit, Reserve: set.Reserve, MaxPipelines: slots}
	switch {
	case !o.Leasable():
		c = lease.Capacity{}
	case c.Total <= 0: // nobody knows how much memory it has: slots only
		c.Reserve = 0
	}
	if o.Shut() == "" {
		c.Usable = o.Standing.Slots(lease.UsableSlots(slots, o.Speed()))
	}
	s.book.SetCapacity(uuid, c)
	s.refresh(uuid)
}

// refresh updates a device in the snapshot of placement from the book.
func (s *state) refresh(uuid string) {
	o := s.devices[uuid]
	if o == nil {
		return // the lease is from before a restart, and its device was not seen yet
	}
	sum, _ := s.book.Sum(uuid)
	s.snapshot.Update(uuid, placement.Use{
		Available: sum.Available(), Ceiling: o.ever(sum),
		Active: sum.Active, Usable: sum.Usable, MaxPipelines: sum.MaxPipelines, Leases: sum.Leases, Held: sum.Leased + sum.Overuse, Alone: sum.Alone > 0,
		Recent: o.recent, Warmth: o.Warmth, State: o.State, Reason: o.Reason, Closed: o.Shut(), Slower: o.Slower,
	})
}

// Observe takes in the latest measurement of a device: its state, and how much
// each process uses. It does not wait for the journal.
func (l *Ledger) Observe(o placement.Observation) {
	var used []*usedBy
	var kin relatives
	if o.Sample != nil {
		var unread []int
		used, unread = l.census.used(o.Sample.Processes, time.Now())
		if o.Sample.Processes == nil || len(unread) > 0 { // the driver or the machine does not say which there are
			used = append(used, l.stillUsed(o.Device.UUID, func(pid int) bool { return o.Sample.Processes == nil || slices.Contains(unread, pid) })...)
		}
		kin = relativesOf(used)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.devices[o.Device.UUID]
	if d == nil {
		d = &observed{Observation: o}
		l.devices[o.Device.UUID] = d
		l.rebuild()
	} else {
		facts := d.Device
		d.Observation = o
		if !placement.SameFacts(&facts, &o.Device) {
			l.rebuild()
		}
	}
	if o.Sample != nil {
		d.used, d.relatives = used, kin
		d.sumUp()
		d.driver = placement.OwnUse(o.Sample, d.driver)
		d.recent.Add(o.Sample)
		l.attribute(d)
		l.holders.releaseUnused()
		if l.noteUse(d, l.clock.Now()) {
			l.nudge()
		}
	}
	l.capacity(o.Device.UUID)
	l.dirty = true
	if _, waiting := l.book.Len(); waiting > 0 {
		l.nudge()
	}
}

// stillUsed returns the processes that were last seen on a device, have not ended as far
// as is known, and have one of the pids.
func (l *Ledger) stillUsed(uuid string, of func(pid int) bool) (used []*usedBy) {
	l.mu.RLock()
	if d := l.devices[uuid]; d != nil {
		used = slices.Clone(d.used)
	}
	l.mu.RUnlock()
	return slices.DeleteFunc(used, func(u *usedBy) bool { return !of(u.ID().PID) || l.processes.Ended(u.ID()) })
}

// rebuild makes a new snapshot for placement, because a device was added or has
// changed.
func (s *state) rebuild() {
	var all []gpu.Device
	for _, o := range s.devices {
		all = append(all, o.Device)
	}
	s.snapshot = placement.NewSnapshot(all)
	for _, held := range s.book.Leases() {
		for _, p := range held.Parts {
			s.snapshot.AddLeases(held.Holder.Service, p.GPU, 1)
		}
	}
	s.recount()
}

// sumUp sets the memory in use on a device after a sample. Where that has no sum, because the
// driver did not answer, what no process tells is as it was: it is not free.
func (o *observed) sumUp() {
	var known gpu.MiB
	for _, u := range o.used {
		known += u.memory
	}
	if total, told := o.Sample.MemoryUsed.Get(); told {
		o.rest = max(total-known, 0)
		o.total = total
	} else {
		o.total = known + o.rest
	}
}
