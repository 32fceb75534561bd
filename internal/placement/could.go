package placement

import (
	"iter"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// Could reports whether a device would do for one of the devices of a request
// if nobody held anything and it were well. A Gate may ask it in the middle of a
// decision: it leaves the scratch space of that decision alone.
func (s *Snapshot) Could(uuid string, r *lease.Request) bool {
	i := s.lookup(uuid)
	return i >= 0 && r.Load().Within(s.most(i)) && s.allows(i, r)
}

// Allows reports whether the constraints of a request allow a device, whatever
// the size of the request.
func (s *Snapshot) Allows(uuid string, r *lease.Request) bool {
	i := s.lookup(uuid)
	return i >= 0 && s.allows(i, r)
}

func (s *Snapshot) allows(i int, r *lease.Request) bool {
	if len(r.Only) > 0 && !slices.Contains(r.Only, s.devices[i].UUID) {
		return false
	}
	w := &r.Where
	return *w == gpu.Where{} || w.Allows(s.devices[i].UUID, s.devices[i].Index) && w.Unmet(&s.models[s.model[i]]) == ""
}

// Room is how much of a device can be granted.
type Room struct {
	Now  lease.Load // negative slots: nothing
	Most lease.Load // if nobody held anything and the device were well
}

// Rooms returns the room of every device, by UUID, in the order of their index.
func (s *Snapshot) Rooms() iter.Seq2[string, Room] {
	return func(yield func(string, Room) bool) {
		for i := range s.devices {
			now := lease.Load{Memory: s.room[i], Slots: int(s.free[i])}
			if !yield(s.devices[i].UUID, Room{Now: now, Most: s.most(i)}) {
				return
			}
		}
	}
}

func (s *Snapshot) most(i int) lease.Load {
	return lease.Load{Memory: s.use[i].Ceiling, Slots: s.use[i].MaxPipelines}
}

// Ever reports whether a request would fit if nobody held anything and every
// device were well: Explain's Ever, without the cost of reasons.
func (s *Snapshot) Ever(r *lease.Request) bool {
	n, ready := s.needOf(r, nil), 0
	for i := range s.devices {
		if s.could(&n, i) {
			ready++
		}
	}
	return ready >= r.Devices()
}

func (s *Snapshot) could(n *need, i int) bool {
	u := &s.use[i]
	return s.meets(n, i) && u.Ceiling >= n.memory && u.MaxPipelines >= n.slots
}
