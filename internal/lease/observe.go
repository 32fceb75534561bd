package lease

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// Holding is a part of a lease on a device, with what was measured for it. The part of a
// pool is without what its children have.
type Holding struct {
	Lease    *Lease
	Part     Part
	Measured gpu.MiB
}

// Holdings lists the leases on a device, largest first.
func (b *Book) Holdings(uuid string) []Holding {
	d := b.devices[uuid]
	if d == nil {
		return nil
	}
	return held(d.spots)
}

// On yields the leases on a device in no order, which costs no sorting. The book must not
// change meanwhile.
func (b *Book) On(uuid string) iter.Seq[Holding] {
	return func(yield func(Holding) bool) {
		d := b.devices[uuid]
		for i := 0; d != nil && i < len(d.spots); i++ {
			if !yield(d.spots[i].holding()) {
				return
			}
		}
	}
}

// Noted lists the leases on a device that a sample of it is about, largest first: those
// whose processes were measured there, and those that say that berth may park them. Unlike
// Holdings, it takes no time for the others.
func (b *Book) Noted(uuid string) []Holding {
	d := b.devices[uuid]
	if d == nil {
		return nil
	}
	return held(d.spots[:d.noted])
}

// held returns the holdings of spots, largest first.
func held(spots []spot) []Holding {
	all := make([]Holding, 0, len(spots))
	for _, s := range spots {
		all = append(all, s.holding())
	}
	slices.SortFunc(all, func(a, b Holding) int {
		if c := cmp.Compare(max(b.Part.Memory, b.Measured), max(a.Part.Memory, a.Measured)); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.Lease.ID, b.Lease.ID), cmp.Compare(a.Lease.Fence, b.Lease.Fence))
	})
	return all
}

// Granted lists the leases on a device, oldest grant first.
func (b *Book) Granted(uuid string) []Holding {
	d := b.devices[uuid]
	if d == nil {
		return nil
	}
	all := make([]Holding, 0, len(d.spots))
	for _, s := range d.spots {
		all = append(all, s.holding())
	}
	slices.SortFunc(all, func(a, b Holding) int { return cmp.Compare(a.Lease.Fence, b.Lease.Fence) })
	return all
}

// holding returns the part of a lease at a spot.
func (s spot) holding() Holding {
	l := s.entry.lease
	held := Holding{l, l.Parts[s.part], s.entry.places[s.part].measured}
	held.Part.Memory = s.entry.holds(s.part)
	return held
}

// Observe sets how much memory the processes of a lease were measured to use on a
// device. It reports whether the lease has a part there.
func (b *Book) Observe(k Key, uuid string, measured gpu.MiB) bool {
	e := b.leases.get(k)
	if e == nil {
		return false
	}
	for i := range e.places {
		if e.lease.Parts[i].GPU == uuid {
			e.count(i, -1)
			e.places[i].measured = sane(measured)
			e.count(i, 1)
			e.note(i)
			return true
		}
	}
	return false
}

// ObserveForeign sets how much memory of a device was measured for processes
// under no lease.
func (b *Book) ObserveForeign(uuid string, measured gpu.MiB) {
	b.device(uuid).Foreign = sane(measured)
}

// sane keeps a measurement that cannot be right from spoiling the sum.
func sane(m gpu.MiB) gpu.MiB { return min(max(m, 0), MaxMemory) }
