package ledger

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// Held is a lease with the measured use of its processes.
type Held struct {
	*lease.Lease
	Measured []gpu.Opt[gpu.MiB] // by part; absent if not seen yet
	InPool   *lease.PoolUse     // what became of the memory of a pool; nil for other leases
	// KeptBy is the pid of one of the processes that keep the lease after its own process
	// has ended; 0 if that has not ended. The API calls it heir_pid.
	KeptBy int
}

// View has all leases and all waiting requests at one moment.
type View struct {
	Leases  []Held           // oldest grant first
	Waiting []*lease.Request // in the order of the queue
}

// View returns all leases and all waiting requests.
func (l *Ledger) View() View {
	l.mu.Lock() // not RLock: Waiting sorts the queue
	defer l.mu.Unlock()
	v := View{Leases: l.standingNow()}
	v.Waiting = append(v.Waiting, l.book.Waiting()...)
	return v
}

// Standing returns all leases, the oldest grant first.
func (l *Ledger) Standing() []Held {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.standingNow()
}

// standingNow does what Standing does for a caller who holds mu.
func (l *Ledger) standingNow() []Held {
	n, _ := l.book.Len()
	list := make([]Held, 0, n)
	for each := range l.book.After(0) {
		list = append(list, l.held(each))
	}
	return list
}

// Seek returns the key of the lease or request that an actor names to act on; see
// lease.Book.Seek.
func (l *Ledger) Seek(by access.Actor, v access.Verb, name lease.Name) (lease.Key, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.Seek(&by, v, name, 0)
}

// Unknown returns the error for a key that neither a lease nor a request has; see
// lease.Book.Unknown.
func (l *Ledger) Unknown(by access.Actor, v access.Verb, k lease.Key) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.Unknown(&by, v, k)
}

// Held returns the lease that an actor names and may act on; see lease.Book.Held.
func (l *Ledger) Held(by access.Actor, v access.Verb, name lease.Name) (Held, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	found, err := l.book.Held(&by, v, name)
	if err != nil {
		return Held{}, err
	}
	return l.held(found), nil
}

// Find returns a lease by its key, or false if there is none.
func (l *Ledger) Find(k lease.Key) (Held, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	found := l.book.Lease(k)
	if found == nil {
		return Held{}, false
	}
	return l.held(found), true
}

// Taken reports whether a lease or a waiting request of a user has an id.
func (l *Ledger) Taken(of lease.Owner, id string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.InUse(of, id)
}

// Lease returns the lease with this key and fence, or nil if it has ended. As the fence
// says which lease is meant, the key may be without its run. A lease whose end the journal
// does not have yet has not ended: the journal may refuse it.
func (l *Ledger) Lease(k lease.Key, fence uint64) *lease.Lease {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.stands(k, fence)
}

// stands does what Lease does for a caller who holds mu.
func (s *state) stands(k lease.Key, fence uint64) *lease.Lease {
	if fence == 0 {
		return nil
	}
	if held := s.book.Standing(k, fence); held != nil {
		return held
	}
	for i := range s.pending {
		if e := &s.pending[i]; e.Ends() && e.Before.Fence == fence && e.Before.ID == k.ID && e.Before.Holder.Owner() == k.Owner {
			return e.Before
		}
	}
	return nil
}

// FindWaiting returns a waiting request by its key and its position in the queue, from 1,
// or false if there is none.
func (l *Ledger) FindWaiting(k lease.Key) (r *lease.Request, position int, waits bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if r = l.book.Request(k); r == nil {
		return nil, 0, false
	}
	return r, l.book.Position(r), true
}

func (l *Ledger) held(each *lease.Lease) Held {
	h := Held{Lease: each, Measured: make([]gpu.Opt[gpu.MiB], len(each.Parts)), KeptBy: l.holders.keptBy(each)}
	if each.Pool {
		if use, is := l.book.Pool(each.Key()); is {
			h.InPool = &use
		}
	}
	for i, p := range each.Parts {
		if o := l.devices[p.GPU]; o != nil && len(o.owned) > 0 {
			if m, seen := o.owned[each.Key()]; seen {
				h.Measured[i] = gpu.Some(m)
			}
		}
	}
	return h
}

// DeviceSum is the sum of a device together with its state.
type DeviceSum struct {
	lease.Sum
	Device gpu.Device
	State  gpu.State
	Health gpu.Health
	Closed string  // why nothing is granted on it; empty if it is open
	Most   gpu.MiB // memory that could be leased if nobody held anything: the ceiling, less what the driver uses

	Recent placement.Recent // average of recent measurements
}

// Sums returns the sum of every device, by UUID.
func (l *Ledger) Sums() map[string]DeviceSum {
	l.mu.RLock()
	defer l.mu.RUnlock()
	sums := make(map[string]DeviceSum, len(l.devices))
	for uuid := range l.devices {
		sums[uuid] = l.sum(uuid)
	}
	return sums
}

// Sum returns the sum of one device, or the zero value if the device is not known.
func (l *Ledger) Sum(uuid string) DeviceSum {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.devices[uuid] == nil {
		return DeviceSum{}
	}
	return l.sum(uuid)
}

func (s *state) sum(uuid string) DeviceSum {
	o := s.devices[uuid]
	sum, _ := s.book.Sum(uuid)
	closed := o.Shut()
	if closed == "" && o.State.Multiplier() == 0 {
		closed = o.Reason
	}
	return DeviceSum{Sum: sum, Device: o.Device, State: o.State, Health: o.Health, Closed: closed, Most: o.most(sum), Recent: o.recent}
}

// Len returns the number of leases and of waiting requests.
func (l *Ledger) Len() (leases, waiting int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.Len()
}

// Journal returns the statistics of the journal.
func (l *Ledger) Journal() journal.Stats { return l.journal.Stats() }

// Holdings lists the leases on a device, with the measured use of each.
func (l *Ledger) Holdings(uuid string) []lease.Holding {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.Holdings(uuid)
}

// Noted lists the leases on a device that a sample of it is about, with the measured use
// of each: those whose processes were measured there, and those that berth may park by
// itself. It takes no time for the others, unless the settings say of a service that berth
// may park its leases.
func (l *Ledger) Noted(uuid string) []lease.Holding {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.settings.ParkServices() {
		return l.book.Noted(uuid)
	}
	return slices.DeleteFunc(l.book.Holdings(uuid), func(h lease.Holding) bool {
		service := l.settings.Services[h.Lease.Holder.Service]
		return h.Measured == 0 && !service.ParksItself(h.Lease)
	})
}

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
	p.Leases = make([]Held, 0, len(leases))
	for _, each := range leases {
		p.Leases = append(p.Leases, l.held(each))
	}
	return p
}

// Tallies returns what every user holds and waits for, by service.
func (l *Ledger) Tallies() map[lease.Party]lease.Tally {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.Tallies()
}

// SetShares says by which share of the machine some requests have their places in the
// queue; see lease.Book.SetShares. It holds until it is called again, or the ledger stops.
func (l *Ledger) SetShares(shares map[lease.Key]float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.book.SetShares(shares) {
		l.dirty = true
		l.nudge()
	}
}

// LeaseShare returns the share of the machine that a lease takes, from 0 to 1; 0 if it is
// parked, or has ended.
func (l *Ledger) LeaseShare(k lease.Key, fence uint64) float64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.LeaseShare(k, fence)
}

// DevicesOf lists the UUIDs of the devices that a service has leases on, in no
// order. It returns an error if the user may not ask in the name of the service.
func (l *Ledger) DevicesOf(service string, by access.Actor) ([]string, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.settings.Knows(service); err != nil {
		return nil, err
	}
	known := l.settings.Services[service] // a service that is not configured serves everybody
	if err := known.Serves(lease.Holder{User: by.User, UID: by.UID}); err != nil {
		return nil, err
	}
	return l.book.DevicesOf(service), nil
}

// Queue returns the leases and the waiting requests at one moment, for deciding whose
// turn it is. A request that waits for a quota or a limit has no rooms.
func (l *Ledger) Queue() placement.Pressure {
	p := l.pressure()
	slices.SortFunc(p.Holdings, func(a, b placement.Holding) int { // the largest first; nobody has to wait for it
		if c := cmp.Or(strings.Compare(a.GPU, b.GPU), cmp.Compare(b.Memory, a.Memory)); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.Key.ID, b.Key.ID), cmp.Compare(a.Fence, b.Fence))
	})
	return p
}

// pressure does the part of Queue that needs the lock. The holdings are in no order.
func (l *Ledger) pressure() placement.Pressure {
	l.mu.Lock() // not RLock: Waiting sorts the queue
	defer l.mu.Unlock()
	parents := map[uint64]bool{} // by fence
	for _, held := range l.book.Leases() {
		parents[held.ParentFence] = true
	}
	waiting := l.book.Waiting()
	for _, r := range waiting {
		parents[r.ParentFence] = true
	}
	var p placement.Pressure
	for uuid := range l.devices {
		for h := range l.book.On(uuid) {
			if h.Lease.State == lease.Active {
				service := l.settings.Services[h.Lease.Holder.Service]
				parkable := service.ParksItself(h.Lease) && !parents[h.Lease.Fence] && l.mayPark(h.Lease) == nil
				p.Holdings = append(p.Holdings, placement.HoldingOf(uuid, h, parkable))
			}
		}
	}
	for _, r := range waiting {
		if r.Absent { // nobody makes room for a client that may not come back
			continue
		}
		memory, priority := r.Load().Memory, r.Priority
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
