package ledger

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// Observe takes in the latest measurement of a device: its state, and how much
// each process uses. It does not wait for the journal.
func (l *Ledger) Observe(o Observation) {
	var used []usedBy
	if o.Sample != nil {
		used = l.census.used(o.Sample.Processes, time.Now())
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
		d.used, d.total = used, totalOf(o.Sample, used)
		d.driver = placement.OwnUse(o.Sample, d.driver)
		d.recent.Add(o.Sample)
		l.attribute(d)
		l.holders.releaseUnused()
		if l.noteUse(d, time.Now()) {
			l.nudge()
		}
	}
	l.capacity(o.Device.UUID)
	l.dirty = true
	if _, waiting := l.book.Len(); waiting > 0 {
		l.nudge()
	}
}

// rebuild makes a new snapshot for placement, because a device was added or has
// changed.
func (s *state) rebuild() {
	var all []gpu.Device
	for _, o := range s.devices {
		all = append(all, o.Device)
	}
	s.snapshot = placement.NewSnapshot(all, s.book, &s.usual)
	for _, held := range s.book.Leases() {
		for _, p := range held.Parts {
			s.snapshot.AddLeases(held.Holder.Service, p.GPU, 1)
		}
	}
	s.recount()
}

// totalOf returns the memory in use on a device.
func totalOf(s *gpu.Sample, used []usedBy) gpu.MiB {
	var sum gpu.MiB
	for _, u := range used {
		sum += u.memory
	}
	return s.MemoryUsed.Or(sum)
}
