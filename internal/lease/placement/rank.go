package placement

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// Place is where a device stands for a request.
type Place struct {
	GPU   string // UUID
	Index int

	Rank      int      // from 1; 0: the device does not take the request
	Reasons   []Reason // why it does not; empty: it does
	Preferred bool     // the request prefers the device
	Replicas  int      // leases of the service of the request on the device
	Use       Use

	Settles gpu.Opt[gpu.Celsius] // where its temperature ends with the request on it; absent: not known
	Warm    string               // that it gets too hot, so that cooler devices come first; empty: it does not
}

// Rank returns where every device stands for a request: those that take it in
// the order in which Choose prefers them, by the code of Choose, and then the
// others by position. A request for one device gets the first; one for several
// gets those with the best links, among equals the first. Rank is for answers to
// people: it costs far more than Choose.
func Rank(s *Snapshot, r *lease.Request, gate Gate) []Place {
	n := s.needOf(r, gate)
	list := s.scratch.candidates[:0]
	var rest []Place
	for i := range s.devices {
		if reasons := s.reasons(&n, r, i); reasons != nil {
			rest = append(rest, s.place(&n, i, 0, reasons))
			continue
		}
		list = append(list, s.candidate(&n, i))
	}
	slices.SortFunc(list, compare)
	if n.score != nil { // it decides among the first ones
		s.scratch.candidates = list[:min(len(list), scored)]
		s.rank(&n)
		s.unrank(&n)
	}
	s.scratch.candidates = list
	places := make([]Place, 0, len(s.devices))
	for at, c := range list {
		places = append(places, s.place(&n, c.position, at+1, nil))
	}
	return append(places, rest...)
}

func (s *Snapshot) place(n *need, i, rank int, reasons []Reason) Place {
	p := Place{
		GPU: s.devices[i].UUID, Index: s.devices[i].Index, Rank: rank, Reasons: reasons,
		Preferred: i == n.preferred, Replicas: int(n.runs.leases(i)), Use: s.use[i],
	}
	if w, known := p.Use.Warmth.Get(); known {
		more := n.request.Draw.Or(0)
		p.Settles = gpu.Some(w.With(more))
		if s.warm(n, i) {
			p.Warm = w.Text(more)
		}
	}
	return p
}
