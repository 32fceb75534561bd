package placement

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// Could reports whether a device could be one of the devices of a request if nobody held
// anything and the device were well. A Gate may call it during a decision: it does not
// touch the scratch space of that decision.
func (s *Snapshot) Could(uuid string, r *lease.Request) bool {
	i := s.lookup(uuid)
	return i >= 0 && r.Load().Within(s.most(i)) && s.allows(i, r)
}

func (s *Snapshot) allows(i int, r *lease.Request) bool {
	if len(r.Only) > 0 && !slices.Contains(r.Only, s.devices[i].UUID) {
		return false
	}
	w := &r.Where
	return *w == gpu.Where{} || w.Allows(s.devices[i].UUID, s.devices[i].Index) && w.Unmet(&s.models[s.model[i]]) == ""
}

func (s *Snapshot) most(i int) lease.Load {
	return lease.Load{Memory: s.use[i].Ceiling, Slots: s.use[i].MaxPipelines}
}

// Ever reports whether a request would fit if nobody held anything and every device were
// well, like the Ever of Explain but without the cost of reasons.
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

// UUIDOf returns the UUID of the device with this index or UUID, or "" if there is none.
func (s *Snapshot) UUIDOf(ref string) string {
	where := gpu.Where{GPU: ref}
	for i := range s.devices {
		if d := &s.devices[i]; ref != "" && where.Allows(d.UUID, d.Index) {
			return d.UUID
		}
	}
	return ""
}
