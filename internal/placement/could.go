package placement

// Could reports whether a device would do for one of the devices of a request
// if nobody held anything and it were well.
func (s *Snapshot) Could(uuid string, r *Request) bool {
	i := s.lookup(uuid)
	if i < 0 {
		return false
	}
	n := s.needOf(r)
	return s.could(&n, i)
}

func (s *Snapshot) could(n *need, i int) bool {
	u := &s.use[i]
	return s.meets(n, i) && u.Ceiling >= n.memory && u.MaxPipelines >= n.slots
}
