package ledger

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/placement"
)

// Held is a lease with what its processes were measured to use, part by part;
// absent where they were not seen yet.
type Held struct {
	*lease.Lease
	Measured []gpu.Opt[gpu.MiB]
}

// View is who holds what and who waits, at one moment.
type View struct {
	Leases  []Held           // oldest grant first
	Waiting []*lease.Request // in the order in which they will be served
}

// View looks at the whole book.
func (l *Ledger) View() View {
	l.mu.Lock() // not for reading only: the queue is put in order by looking
	defer l.mu.Unlock()
	var v View
	for _, each := range l.book.Leases() {
		v.Leases = append(v.Leases, l.held(each))
	}
	v.Waiting = append(v.Waiting, l.book.Waiting()...)
	return v
}

// Find looks a lease up; false if there is none.
func (l *Ledger) Find(id string) (Held, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	found := l.book.Lease(id)
	if found == nil {
		return Held{}, false
	}
	return l.held(found), true
}

func (l *Ledger) held(each *lease.Lease) Held {
	h := Held{Lease: each, Measured: make([]gpu.Opt[gpu.MiB], len(each.Parts))}
	for i, p := range each.Parts {
		if o := l.devices[p.GPU]; o != nil {
			if m, seen := o.owned[each.ID]; seen {
				h.Measured[i] = gpu.Some(m)
			}
		}
	}
	return h
}

// DeviceSum is the sum of a device with its state.
type DeviceSum struct {
	lease.Sum
	Device gpu.Device
	State  gpu.State
	Health gpu.Health
	Closed string // why nothing is granted; empty: it is
}

// Sums is what is left of every device, and how that comes about, by UUID.
func (l *Ledger) Sums() map[string]DeviceSum {
	l.mu.RLock()
	defer l.mu.RUnlock()
	sums := make(map[string]DeviceSum, len(l.devices))
	for uuid := range l.devices {
		sums[uuid] = l.sum(uuid)
	}
	return sums
}

// Sum is what is left of one device; the zero value if it is not known.
func (l *Ledger) Sum(uuid string) DeviceSum {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.devices[uuid] == nil {
		return DeviceSum{}
	}
	return l.sum(uuid)
}

func (l *Ledger) sum(uuid string) DeviceSum {
	o := l.devices[uuid]
	sum, _ := l.book.Sum(uuid)
	closed := o.closed()
	if closed == "" && o.State.Multiplier() == 0 {
		closed = o.Reason
	}
	return DeviceSum{Sum: sum, Device: o.Device, State: o.State, Health: o.Health, Closed: closed}
}

// Explanation is what stands in the way of a request.
type Explanation struct {
	Refusal  *placement.NoFitError // nil: it would be granted now
	Quota    error                 // the service is over its quota
	Position int                   // in the queue, from 1; 0: it does not wait
	Ahead    []*lease.Request
	Holdings map[string][]lease.Holding // by device: who holds it
	Grant    *lease.Lease               // what it would get now; nil: nothing
}

// Explain says what would become of a request, by the code that decides.
func (l *Ledger) Explain(r Request) (Explanation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	request, err := l.admit(r, now)
	if err != nil {
		return Explanation{}, err
	}
	asked, err := l.book.Apply(lease.Ask{Request: request}, now)
	if err != nil {
		return Explanation{}, err
	}
	defer l.book.Revert(asked) // it stood in the queue only to find its place
	e := l.explain(request)
	e.Position = 0
	if e.Refusal == nil && e.Quota == nil {
		e.Grant = l.wouldGrant(request)
	}
	return e, nil
}

// wouldGrant is the lease that place would make of a request. The caller holds
// mu.
func (l *Ledger) wouldGrant(r *lease.Request) *lease.Lease {
	wish := l.behind(r, l.lineBefore(r))
	chosen, fits := placement.Choose(l.snapshot, &wish, nil)
	if !fits {
		return nil
	}
	granted := r.Lease(chosen...)
	granted.EnforcedBy = wishOf(r).enforcedBy
	return granted
}

// ExplainWaiting says what a waiting request waits for; false if none with
// this id waits.
func (l *Ledger) ExplainWaiting(id string) (Explanation, *lease.Request, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	request := l.book.Request(id)
	if request == nil {
		return Explanation{}, nil, false
	}
	return l.explain(request), request, true
}

// explain is about a request in the queue.
func (l *Ledger) explain(r *lease.Request) Explanation {
	before := l.lineBefore(r)
	e := Explanation{Refusal: l.refusal(r, before), Quota: l.overQuota(r, before), Holdings: map[string][]lease.Holding{}}
	waiting := l.book.Waiting()
	e.Position = slices.Index(waiting, r) + 1
	e.Ahead = slices.Clone(waiting[:e.Position-1])
	for uuid := range l.devices {
		e.Holdings[uuid] = l.book.Holdings(uuid)
	}
	return e
}

// Len is the number of leases, and of requests that wait.
func (l *Ledger) Len() (leases, waiting int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.Len()
}

// Journal is the numbers of the journal.
func (l *Ledger) Journal() journal.Stats { return l.journal.Stats() }

// Holdings lists who holds what of a device, and what was measured for them.
func (l *Ledger) Holdings(uuid string) []lease.Holding {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.Holdings(uuid)
}
