package placement

import "github.com/berth-gpu/berth/gpu"

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
