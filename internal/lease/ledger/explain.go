package ledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// Explain returns whether a request would be granted now and what is in its way, with the
// code that decides about requests. It gives a request without an id an unused one.
func (l *Ledger) Explain(r lease.Request) (placement.Explanation, error) {
	var e placement.Explanation
	err := l.suppose(r, func(request *lease.Request) {
		e = l.explain(request)
		e.Position = 0
		if pool := l.poolOf(request); pool != nil {
			l.explainDraw(&e, request, pool)
			return
		}
		if e.Refusal == nil && e.Quota == nil {
			e.Grant = l.wouldGrant(request, l.aheadOf(request))
		}
	})
	return e, err
}

// Fits reports whether a request would be granted now. It decides as Explain
// does, without the cost of collecting reasons.
func (l *Ledger) Fits(r lease.Request) bool {
	fits := false
	err := l.suppose(r, func(request *lease.Request) {
		if pool := l.poolOf(request); pool != nil {
			fits = l.mayDraw(request, pool) == nil
			return
		}
		before := l.aheadOf(request)
		fits = l.overQuota(request, before) == nil && l.wouldGrant(request, before) != nil
	})
	return err == nil && fits
}

// suppose puts a request into the queue, calls look, and takes it out again.
func (l *Ledger) suppose(r lease.Request, look func(*lease.Request)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	if r.ID == "" {
		r.ID = l.unusedID(r.Holder.Owner())
	}
	if _, err := l.admit(&r, now); err != nil {
		return err
	}
	asked, err := l.book.Apply(lease.Ask{Request: &r}, now)
	if err != nil {
		return err
	}
	defer l.book.Revert(asked)
	look(&r)
	return nil
}

// unusedID returns an id that no lease and no request of a user has. The caller
// holds mu.
func (s *state) unusedID(of lease.Owner) string {
	id := unused + ")"
	for n := 2; s.book.InUse(of, id); n++ {
		id = fmt.Sprintf("%s %d)", unused, n)
	}
	return id
}

// unused is how an id begins that stands for none.
const unused = "(asked"

// named returns the id of a request for people, who gave none to one that is only looked
// at.
func named(id string) string {
	if strings.HasPrefix(id, unused) {
		return "a lease"
	}
	return id
}

// wouldGrant returns the lease that place would grant for a request, or nil if it does
// not fit. The caller holds mu.
func (s *state) wouldGrant(r *lease.Request, before *placement.Ahead) *lease.Lease {
	chosen, fits := r.Only, s.splits(r)
	if !fits {
		chosen, fits = placement.Choose(s.snapshot, r, s.behind(r, before), nil)
	}
	if !fits {
		return nil
	}
	granted := r.Lease(chosen...)
	s.book.Fill(granted)
	granted.State = lease.Active
	return granted
}

// ExplainWaiting returns what a waiting request waits for. It returns false if no request
// has this key.
func (l *Ledger) ExplainWaiting(k lease.Key) (placement.Explanation, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	request := l.book.Request(k)
	if request == nil {
		return placement.Explanation{}, false
	}
	return l.explain(request), true
}

// Limited returns why quotas and limits keep the waiting requests that they keep. However
// much room there is, these wait until their users, groups or services have less.
func (l *Ledger) Limited() map[lease.Key]error {
	found, stuck := map[lease.Key]error{}, map[lease.Allowance]*lease.Request{}
	for r, err := range l.overQuotas {
		if err == nil {
			own := []lease.Allowance{lease.UserLimit(r.Holder.Owner())}
			for _, group := range r.Groups {
				own = append(own, lease.GroupLimit(group))
			}
			if i := slices.IndexFunc(own, func(a lease.Allowance) bool { return stuck[a] != nil }); i >= 0 {
				err = quota.WaitAhead(stuck[own[i]], own[i])
			}
		}
		if err == nil || !quota.Later(err) {
			continue
		}
		found[r.Key()] = err
		if lacks := quota.Lacking(r, err); stuck[lacks] == nil {
			stuck[lacks] = r
		}
	}
	return found
}

// mostAtOnce is how many waiting requests overQuotas looks at before it lets others have the
// book.
const mostAtOnce = 256

// overQuotas yields the waiting requests in the order of the queue, each with what overQuota
// says of it alone. It holds no lock while it yields.
func (l *Ledger) overQuotas(yield func(*lease.Request, error) bool) {
	l.mu.Lock() // not RLock: Waiting sorts the queue
	waiting := slices.Clone(l.book.Waiting())
	l.mu.Unlock()
	why := make([]error, mostAtOnce)
	for some := range slices.Chunk(waiting, mostAtOnce) {
		l.mu.Lock() // not RLock: limits are remembered
		for i, r := range some {
			if some[i] = l.book.Request(r.Key()); some[i] != nil { // it has not left meanwhile
				why[i] = l.overQuota(some[i], nil)
			}
		}
		l.mu.Unlock()
		for i, r := range some {
			if r != nil && !yield(r, why[i]) {
				return
			}
		}
	}
}

// explain explains a request that is in the queue.
func (s *state) explain(r *lease.Request) placement.Explanation {
	before := s.adviceBefore(r)
	e := placement.Explanation{
		Refusal: s.refusal(r, before), Quota: s.overQuota(r, before),
		Holdings: map[string][]lease.Holding{}, Foreign: map[string]placement.ForeignUse{},
		LargestEver: s.largestEver(r),
		Policy:      placement.PolicyOf(r), Ranking: placement.Rank(s.snapshot, r, s.advice(r, before)),
	}
	if e.Refusal != nil { // it has the number already
		e.LargestNow = e.Refusal.LargestNow
	} else {
		e.LargestNow = s.largestNow(r, before)
	}
	e.Position = s.book.Position(r)
	e.Ahead = slices.Clone(s.book.Waiting()[:e.Position-1])
	for uuid := range s.devices {
		e.Holdings[uuid] = s.book.Holdings(uuid)
		if used := s.foreign(uuid); len(used.PIDs) > 0 {
			e.Foreign[uuid] = used
		}
	}
	return e
}
