package ledger

import (
	"cmp"
	"slices"

	"github.com/berth-gpu/berth/internal/lease"
)

// Mark says how far somebody has read the leases and the waiting requests. The
// fences of leases and the arrivals of requests only grow, and neither changes, so
// a mark stays right while leases come and go.
type Mark struct {
	Fence   uint64 // of the newest lease that was read
	Arrival uint64 // number of the last request that was read
}

// Page is a part of the leases and waiting requests at one moment.
type Page struct {
	Leases  []Held   // oldest grant first
	Waiting []Placed // in the order of the queue
	Last    Mark     // of this page
	More    bool     // there is more behind Last
}

// Placed is a waiting request with its place in the queue.
type Placed struct {
	*lease.Request
	Position int // from 1
	arrival  uint64
}

// Page returns at most limit leases and waiting requests that follow a mark: first
// leases, and then the requests that have waited longest. A request that is
// granted between two pages follows as a lease, because its fence is new; so
// whatever stands from the first page to the last is on one of them.
func (l *Ledger) Page(after Mark, limit int) Page {
	l.mu.Lock() // not RLock: Queue sorts the queue
	defer l.mu.Unlock()
	p := Page{Last: after}
	standing := l.book.Leases()
	from, found := slices.BinarySearchFunc(standing, after.Fence, func(l *lease.Lease, fence uint64) int { return cmp.Compare(l.Fence, fence) })
	if found {
		from++
	}
	standing = standing[from:]
	for _, each := range standing[:min(limit, len(standing))] {
		p.Leases = append(p.Leases, l.held(each))
		p.Last.Fence = each.Fence
	}
	p.More = len(standing) > len(p.Leases)
	position := 0
	for arrival, r := range l.book.Queue() {
		if position++; arrival > after.Arrival {
			p.Waiting = append(p.Waiting, Placed{Request: r, Position: position, arrival: arrival})
		}
	}
	if room := limit - len(p.Leases); room < len(p.Waiting) {
		p.More = true
		slices.SortFunc(p.Waiting, func(a, b Placed) int { return cmp.Compare(a.arrival, b.arrival) })
		p.Waiting = p.Waiting[:room]
		slices.SortFunc(p.Waiting, func(a, b Placed) int { return cmp.Compare(a.Position, b.Position) })
	}
	for _, w := range p.Waiting {
		p.Last.Arrival = max(p.Last.Arrival, w.arrival)
	}
	return p
}
