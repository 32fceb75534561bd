package placement

import (
	"math"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// View is a device as the score of a policy sees it. The score must not change or keep
// what the View points to.
type View struct {
	Device *gpu.Device
	Use    *Use
	Leases []lease.Holding // the leases that have a part of the device, in no order
	Usual  []Usual         // the usual requests on this machine, most frequent first
}

// scored is the number of devices that a policy with a score looks at: the first in the
// order of its key. It bounds the cost of a decision on a large machine.
const scored = 64

// rank orders the candidates in scratch space by tier, then by the score of the policy.
// It replaces their keys by their places, so that later comparisons keep this order.
func (s *Snapshot) rank(n *need) {
	list := s.scratch.candidates
	for i := range list {
		list[i].score = s.score(n, list[i].position)
	}
	slices.SortFunc(list, func(a, b candidate) int {
		switch {
		case a.tier != b.tier:
			return int(a.tier - b.tier)
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return compare(a, b)
	})
	for i := range list {
		list[i].key = Key(i)
		s.scratch.places[list[i].position] = int32(i) + 1
	}
	n.places = s.scratch.places
}

// unrank clears the scratch space that rank used.
func (s *Snapshot) unrank(n *need) {
	if n.places == nil {
		return
	}
	for _, c := range s.scratch.candidates {
		s.scratch.places[c.position] = 0
	}
}

// score returns the score of a device under the policy. A score that is not a number
// comes last.
func (s *Snapshot) score(n *need, i int) float64 {
	view := &s.scratch.view
	*view = View{Device: &s.devices[i], Use: &s.use[i], Usual: s.usual.List()}
	if s.book != nil {
		s.scratch.holdings = s.book.AppendHoldings(s.scratch.holdings[:0], s.devices[i].UUID)
		view.Leases = s.scratch.holdings
	}
	if score := n.score(view, n.request); !math.IsNaN(score) {
		return score
	}
	return math.Inf(-1)
}
