package ledger

import (
	"maps"
	"slices"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// Queue returns the leases and the waiting requests at one moment, for deciding whose
// turn it is. A request that waits for a quota or a limit has no rooms.
func (l *Ledger) Queue() placement.Pressure {
	l.mu.Lock() // not RLock: Waiting sorts the queue
	defer l.mu.Unlock()
	parents := map[lease.Key]bool{}
	for _, held := range l.book.Leases() {
		if held.Parent != "" {
			parents[lease.Key{Owner: held.Holder.Owner(), ID: held.Parent}] = true
		}
	}
	waiting := l.book.Waiting()
	for _, r := range waiting {
		if r.Parent != "" {
			parents[parentOf(r)] = true
		}
	}
	var p placement.Pressure
	for _, uuid := range slices.Sorted(maps.Keys(l.devices)) {
		for _, h := range l.book.Holdings(uuid) {
			service := l.settings.Services[h.Lease.Holder.Service]
			if h.Lease.State == lease.Active {
				parkable := service.ParksItself(h.Lease) && !parents[h.Lease.Key()] && l.mayPark(h.Lease) == nil
				p.Holdings = append(p.Holdings, placement.HoldingOf(uuid, h, parkable))
			}
		}
	}
	for _, r := range waiting {
		memory, priority := r.Memory, r.Priority
		if r.Into != 0 { // even one that goes before all others has the priority of its lease
			memory, priority = l.book.Lacks(r), l.book.Lease(r.Key()).Priority
		}
		w := l.snapshot.WantOf(r, memory)
		w.Priority = priority
		if l.overQuota(r, nil) != nil {
			w.Rooms = nil
		}
		p.Wants = append(p.Wants, w)
	}
	return p
}
