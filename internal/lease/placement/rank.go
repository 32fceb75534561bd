package placement

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// Place describes a device as a choice for a request.
type Place struct {
	GPU   string // UUID
	Index int

	Rank      int      // from 1; 0 if the device does not take the request
	Reasons   []Reason // why it does not; empty if it does
	Preferred bool     // the request prefers the device
	Replicas  int      // leases of the service of the request on the device
	Use       Use

	Settles gpu.Opt[gpu.Celsius] // where its temperature settles with the request on it; absent if not known
	Warm    string               // says that it gets too hot, so cooler devices come first; empty if it does not
}

// Rank returns every device as a choice for a request. The devices that take it come
// first, in the order in which Choose prefers them, by the code of Choose; the others
// follow by position. A request for one device gets the first. A request for several gets
// those with the best links and, among equals, the first. Rank is for answers to people:
// it costs far more than Choose.
func Rank(s *Snapshot, r *lease.Request, gate Gate) []Place {
	n := s.needOf(r, gate)
	list := s.scratch.candidates[:0]
	var rest []Place
	for i := range s.devices {
		if reasons := s.reasons(&n, r, i); reasons != nil {
			rest = append(rest, s.place(&n, r, i, 0, reasons))
			continue
		}
		list = append(list, s.candidate(&n, i))
	}
	slices.SortFunc(list, compare)
	s.scratch.candidates = list
	places := make([]Place, 0, len(s.devices))
	for at, c := range list {
		places = append(places, s.place(&n, r, c.position, at+1, nil))
	}
	return append(places, rest...)
}

func (s *Snapshot) place(n *need, r *lease.Request, i, rank int, reasons []Reason) Place {
	p := Place{
		GPU: s.devices[i].UUID, Index: s.devices[i].Index, Rank: rank, Reasons: reasons,
		Preferred: i == n.preferred, Replicas: int(n.runs.leases(i)), Use: s.use[i],
	}
	if w, known := p.Use.Warmth.Get(); known {
		more := r.Draw.Or(0)
		p.Settles = gpu.Some(w.With(more))
		if s.warm(n, i) {
			p.Warm = w.Text(more)
		}
	}
	return p
}
