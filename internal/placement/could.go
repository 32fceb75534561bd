package placement

// Could reports whether a device would do for one of the devices of a request
// if nobody held anything and it were well. Request.Refuse may ask it in the
// middle of a decision: it leaves the scratch space of that decision alone.
func (s *Snapshot) Could(uuid string, r *Request) bool {
	i := s.lookup(uuid)
	if i < 0 {
		return false
	}
	u, w := &s.use[i], &r.Where
	return (w.GPU == "" || w.GPU == uuid) && w.unmet(&s.models[s.model[i]]) == "" &&
		u.Ceiling >= r.Memory && u.MaxPipelines >= r.Slots
}

// Ever reports whether a request would fit if nobody held anything and every
// device were well: Explain's Ever, without the cost of reasons.
func (s *Snapshot) Ever(r *Request) bool {
	n, ready := s.needOf(r), 0
	for i := range s.devices {
		if s.could(&n, i) {
			ready++
		}
	}
	return ready >= r.count()
}

func (s *Snapshot) could(n *need, i int) bool {
	u := &s.use[i]
	return s.meets(n, i) && u.Ceiling >= n.memory && u.MaxPipelines >= n.slots
}
