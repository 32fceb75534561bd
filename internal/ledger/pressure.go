package ledger

import (
	"maps"
	"slices"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/park"
)

// Queue returns who has what and who waits for what, at one moment, for those who
// decide whose turn it is.
func (l *Ledger) Queue() park.Pressure {
	l.mu.Lock() // not RLock: Waiting sorts the queue
	defer l.mu.Unlock()
	parents := map[lease.Key]bool{}
	for _, held := range l.book.Leases() {
		if held.Parent != "" {
			parents[lease.Key{Owner: held.Holder.Owner(), ID: held.Parent}] = true
		}
	}
	var p park.Pressure
	devices := slices.Sorted(maps.Keys(l.devices))
	for _, uuid := range devices {
		for _, h := range l.book.Holdings(uuid) {
			if h.Lease.State == lease.Active {
				p.Holdings = append(p.Holdings, l.holding(uuid, h, parents[h.Lease.Key()]))
			}
		}
	}
	for _, r := range l.book.Waiting() {
		p.Wants = append(p.Wants, l.wantOf(r, devices))
	}
	return p
}

// holding returns an active lease as package park sees it.
func (m *machine) holding(uuid string, h lease.Holding, hasChildren bool) park.Holding {
	held := h.Lease
	service := m.settings.Services[held.Holder.Service]
	p := park.Holding{
		Key: parkKey(held.Key()), Fence: held.Fence, GPU: uuid, Memory: max(h.Part.Memory, h.Measured), Slots: h.Part.Slots, Measured: h.Measured,
		Priority: held.Priority, Parkable: !hasChildren && service.ParksItself(held), Since: held.Granted,
	}
	if !held.Returned.IsZero() {
		p.Since = held.Returned
	}
	return p
}

// wantOf returns a waiting request as package park sees it. A request that waits
// for a quota or a limit has no rooms.
func (m *machine) wantOf(r *lease.Request, devices []string) park.Want {
	w := park.Want{
		Key: parkKey(r.Key()), Into: r.Into, Priority: r.Priority, Since: r.Requested, Memory: r.Memory, Slots: r.Slots, GPUs: r.Devices(),
	}
	if r.Into != 0 {
		w.Memory = m.book.Lacks(r)
		w.Priority = m.book.Lease(r.Key()).Priority // also of one that goes before all others
	}
	if m.overQuota(r, nil) != nil {
		return w
	}
	for _, uuid := range devices {
		if sum := m.sum(uuid); sum.Closed == "" && m.snapshot.Could(uuid, r) {
			w.Rooms = append(w.Rooms, park.Room{
				GPU: uuid, Missing: max(w.Memory-sum.Available(), 0), MissingSlots: max(w.Slots-sum.FreeSlots(), 0),
			})
		}
	}
	return w
}

func parkKey(k lease.Key) park.Key { return park.Key{UID: k.UID, User: k.User, ID: k.ID} }
