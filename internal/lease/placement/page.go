package placement

import (
	"cmp"
	"slices"

	"github.com/berth-gpu/berth/internal/lease"
)

// Mark is a position in the list of leases and waiting requests, up to which a client has
// read. The fences of leases and the arrivals of requests only grow, and neither changes,
// so a mark stays right while leases come and go.
type Mark struct {
	Fence   uint64 // of the newest lease that was read
	Arrival uint64 // number of the last request that was read
}

// Placed is a waiting request with its place in the queue.
type Placed struct {
	*lease.Request
	Position int // from 1
}

// PageOf returns at most limit leases and waiting requests of a book that follow a mark,
// the mark of the last one, and whether there are more. Leases come first, oldest grant
// first, and then the requests that have waited longest, in the order of the queue. A
// request that is granted between two pages follows as a lease, because its fence is new.
// So every lease or request that exists from the first page to the last is on one of
// them.
func PageOf(b *lease.Book, after Mark, limit int) (leases []*lease.Lease, waiting []Placed, last Mark, more bool) {
	last = after
	n, _ := b.Len()
	leases = make([]*lease.Lease, 0, min(n, limit))
	for l := range b.After(after.Fence) {
		if more = len(leases) == limit; more {
			break
		}
		leases = append(leases, l)
	}
	if len(leases) > 0 {
		last.Fence = leases[len(leases)-1].Fence
	}
	for i, r := range b.Waiting() {
		if r.Arrival > after.Arrival {
			waiting = append(waiting, Placed{Request: r, Position: i + 1})
		}
	}
	if room := limit - len(leases); room < len(waiting) {
		more = true
		slices.SortFunc(waiting, func(a, b Placed) int { return cmp.Compare(a.Arrival, b.Arrival) })
		waiting = waiting[:room]
		slices.SortFunc(waiting, func(a, b Placed) int { return cmp.Compare(a.Position, b.Position) })
	}
	for _, w := range waiting {
		last.Arrival = max(last.Arrival, w.Arrival)
	}
	return leases, waiting, last, more
}
