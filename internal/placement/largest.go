package placement

import (
	"cmp"
	"slices"
	"sort"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// LargestNow is the most memory on each device with which a request would be
// placed now and that it is allowed, all else being as it is; zero if there is
// none. It is found by asking Choose.
func LargestNow(s *Snapshot, r *lease.Request, gate Gate) gpu.MiB {
	var most gpu.MiB
	for _, room := range s.room {
		most = max(most, room)
	}
	ask := *r
	chosen := make([]string, 0, r.Devices())
	tooMuch := func(less int) bool {
		ask.Memory = gpu.MiB(less + 1)
		_, fits := Choose(s, &ask, gate, chosen)
		return !fits
	}
	if tooMuch(0) { // where many wait this is the answer, and each look may be long
		return 0
	}
	most = gpu.MiB(sort.Search(int(most), tooMuch))
	if gate != nil {
		return gate.Allow(most)
	}
	return most
}

// LargestEver is the most memory on each device with which a request would be
// placed if nobody held anything and every device were well; zero if it would
// not be with any.
func LargestEver(s *Snapshot, r *lease.Request) gpu.MiB {
	n := s.needOf(r, nil)
	return largest(s.ceilings(&n), r.Devices())
}

// ceilings is what the devices could ever give that are what a request asks for
// and have the slots.
func (s *Snapshot) ceilings(n *need) []gpu.MiB {
	var all []gpu.MiB
	for i := range s.devices {
		if s.meets(n, i) && s.use[i].MaxPipelines >= n.slots {
			all = append(all, s.use[i].Ceiling)
		}
	}
	return all
}

// largest is the most memory that count devices have each; zero if fewer have
// any.
func largest(amounts []gpu.MiB, count int) gpu.MiB {
	if len(amounts) < count {
		return 0
	}
	slices.SortFunc(amounts, func(a, b gpu.MiB) int { return cmp.Compare(b, a) })
	return max(amounts[count-1], 0)
}
