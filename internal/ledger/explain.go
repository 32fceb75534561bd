package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/placement"
)

// Explanation is what stands in the way of a request.
type Explanation struct {
	Refusal  *placement.NoFitError // nil: it would be granted now
	Quota    error                 // the service is over its quota
	Position int                   // in the queue, from 1; 0: it does not wait
	Ahead    []*lease.Request
	Holdings map[string][]lease.Holding // by device: who holds it
	Foreign  map[string]ForeignUse      // by device: who uses it under no lease
	Grant    *lease.Lease               // what it would get now; nil: nothing

	// LargestNow and LargestEver are the most memory on each device that the
	// same request could have, now and on an empty machine; zero: none.
	LargestNow, LargestEver gpu.MiB
}

// ForeignUse is what processes under no lease use of a device.
type ForeignUse struct {
	Memory gpu.MiB
	PIDs   []int
}

// Explain says what would become of a request, by the code that decides. One
// without an id has one that nobody uses.
func (l *Ledger) Explain(r lease.Request) (Explanation, error) {
	var e Explanation
	err := l.suppose(r, func(request *lease.Request) {
		e = l.explain(request)
		e.Position = 0
		if e.Refusal == nil && e.Quota == nil {
			e.Grant = l.wouldGrant(request, l.lineBefore(request))
		}
	})
	return e, err
}

// Fits reports whether a request would be granted now: what Explain says,
// without the cost of reasons.
func (l *Ledger) Fits(r lease.Request) bool {
	fits := false
	err := l.suppose(r, func(request *lease.Request) {
		before := l.lineBefore(request)
		fits = l.overQuota(request, before) == nil && l.wouldGrant(request, before) != nil
	})
	return err == nil && fits
}

// suppose puts a request into the queue for as long as look takes.
func (l *Ledger) suppose(r lease.Request, look func(*lease.Request)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if r.ID == "" {
		r.ID = l.unusedID()
	}
	request, err := l.admit(r, now)
	if err != nil {
		return err
	}
	asked, err := l.book.Apply(lease.Ask{Request: request}, now)
	if err != nil {
		return err
	}
	defer l.book.Revert(asked) // it stood in the queue only to find its place
	look(request)
	return nil
}

// unusedID is an id for a request that nobody makes. The caller holds mu.
func (m *machine) unusedID() string {
	id := "(asked)"
	for n := 2; m.book.Lease(id) != nil || m.book.Request(id) != nil; n++ {
		id = fmt.Sprintf("(asked %d)", n)
	}
	return id
}

// wouldGrant is the lease that place would make of a request. The caller holds
// mu.
func (m *machine) wouldGrant(r *lease.Request, before *line) *lease.Lease {
	chosen, fits := placement.Choose(m.snapshot, r, m.behind(r, before), nil)
	if !fits {
		return nil
	}
	granted := r.Lease(chosen...)
	granted.State = lease.Active
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
func (m *machine) explain(r *lease.Request) Explanation {
	before := m.lineBefore(r)
	e := Explanation{
		Refusal: m.refusal(r, before), Quota: m.overQuota(r, before),
		Holdings: map[string][]lease.Holding{}, Foreign: map[string]ForeignUse{},
		LargestEver: m.largestEver(r),
	}
	if e.Refusal != nil { // which has found it out
		e.LargestNow = e.Refusal.LargestNow
	} else {
		e.LargestNow = m.largestNow(r, before)
	}
	waiting := m.book.Waiting()
	e.Position = slices.Index(waiting, r) + 1
	e.Ahead = slices.Clone(waiting[:e.Position-1])
	for uuid := range m.devices {
		e.Holdings[uuid] = m.book.Holdings(uuid)
		if used := m.foreign(uuid); len(used.PIDs) > 0 {
			e.Foreign[uuid] = used
		}
	}
	return e
}
