package placement

import "github.com/berth-gpu/berth/gpu"

// model is everything about a device that constraints look at. A machine has
// few models however many devices it has, so constraints are judged per model.
type model struct {
	vendor gpu.Vendor
	name   string
	cc     Capability
	hasCC  bool
	memory gpu.MiB
}

// modelOf finds the model of a device, or adds it to those already known.
func (s *Snapshot) modelOf(d *gpu.Device, known map[model]int32) int32 {
	m := model{vendor: d.Vendor, name: d.Name, memory: d.MemoryTotal}
	if cc, err := ParseCapability(d.ComputeCapability); err == nil {
		m.cc, m.hasCC = cc, true
	}
	at, ok := known[m]
	if !ok {
		at = int32(len(s.models))
		known[m] = at
		s.models = append(s.models, m)
	}
	return at
}

// judge says which models meet the constraints. The answer lies in scratch
// space and holds until the next call.
func (s *Snapshot) judge(w *Where) []bool {
	verdict := s.scratch.models[:0]
	for i := range s.models {
		verdict = append(verdict, w.unmet(&s.models[i]) == "")
	}
	s.scratch.models = verdict
	return verdict
}
