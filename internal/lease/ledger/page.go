package ledger

import (
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// Page is a part of the leases and waiting requests at one moment.
type Page struct {
	Leases  []Held             // oldest grant first
	Waiting []placement.Placed // in the order of the queue
	Last    placement.Mark     // mark of the end of this page
	More    bool               // there is more behind Last
}

// Page returns at most limit leases and waiting requests that follow a mark; see
// placement.PageOf.
func (l *Ledger) Page(after placement.Mark, limit int) (p Page) {
	l.mu.Lock() // not RLock: the book sorts its queue
	defer l.mu.Unlock()
	var leases []*lease.Lease
	leases, p.Waiting, p.Last, p.More = placement.PageOf(l.book, after, limit)
	for _, each := range leases {
		p.Leases = append(p.Leases, l.held(each))
	}
	return p
}
