package placement

import (
	"slices"

	"github.com/berth-gpu/berth/internal/lease"
)

// Could reports whether a device would do for one of the devices of a request
// if nobody held anything and it were well. A Gate may ask it in the middle of a
// decision: it leaves the scratch space of that decision alone.
func (s *Snapshot) Could(uuid string, r *lease.Request) bool {
	i := s.lookup(uuid)
	if i < 0 {
		return false
	}
	u, w := &s.use[i], &r.Where
	return w.Allows(uuid, s.devices[i].Index) && w.Unmet(&s.models[s.model[i]]) == "" &&
		(len(r.Only) == 0 || slices.Contains(r.Only, uuid)) && u.Ceiling >= r.Memory && u.MaxPipelines >= r.Slots
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
