package ledger

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// mostLooked is about how many looks at waiting requests serve takes at a time. A grant counts
// as one, and so does what takes as long: comparisons of so many requests with each other.
const (
	mostLooked      = 512
	comparedInALook = 256
)

// serve grants the waiting requests that fit, in the order of the queue. It reports whether
// there may be more: others have their turn with the book in between. The caller holds mu.
func (l *Ledger) serve(now time.Time) (more bool) {
	before := len(l.effects)
	if _, waiting := l.book.Len(); waiting == 0 || !l.dirty && !l.serveNew(now) {
		return false
	}
	looked := func() int { return l.ahead.Looked() + l.book.Work()/comparedInALook + len(l.effects) }
	for until := looked() + mostLooked; l.serveFirst(now); { // every grant changes shares, and with them the order
		if looked() > until {
			return true
		}
	}
	l.dirty = l.stale && len(l.effects) > before // more may fit when the devices of what was granted are charged again
	return l.dirty
}

// serveNew tries to grant the requests that this batch put into the queue, and
// reports whether it granted one. If nothing else has changed, no other request
// can be granted.
func (l *Ledger) serveNew(now time.Time) bool {
	for _, e := range l.effects { // place appends to it only before the loop ends
		if e.Kind == lease.Asked && l.book.Request(e.Request.Key()) == e.Request && !l.unaudited(e.Request) {
			if granted, err := l.place(e.Request, l.aheadOf(e.Request), now); err == nil && granted != nil {
				return true
			}
		}
	}
	return false
}

// serveFirst grants the first request in the queue that fits, or withdraws a child
// whose parent has ended. It reports whether there was one.
func (l *Ledger) serveFirst(now time.Time) bool {
	n := l.front(l.book.Least())
	n.Hold()
	if l.serveBehind(n, now) {
		return true
	}
	return len(n.Unknown()) > 0 && l.serveBehind(l.front(l.book.Least()), now)
}

// serveBehind is serveFirst with the requests ahead as n has them, from the front on.
func (l *Ledger) serveBehind(n *placement.Ahead, now time.Time) bool {
	for r := n.Request(); r != nil; r = n.Request() {
		if !n.Open() && !l.book.ChildrenWait() {
			return false
		}
		if withdrawal := l.parentEnded(r); withdrawal != nil {
			if _, err := l.apply(withdrawal, now); err == nil {
				return true
			}
		}
		if !r.Absent && !l.unaudited(r) && (n.MayFit(r) || r.Into != 0 || l.splits(r)) {
			if granted, err := l.place(r, n, now); err == nil && granted != nil {
				return true
			}
		}
		n.Join()
	}
	return false
}

// place grants a request if it fits without delaying the requests before it; a nil before
// means that there are none. It returns a nil lease if the request does not fit. The
// caller holds mu.
func (l *Ledger) place(r *lease.Request, before *placement.Ahead, now time.Time) (*lease.Lease, error) {
	if l.overQuota(r, before) != nil {
		return nil, nil
	}
	switch {
	case r.Into != 0:
		return l.enlarge(r, before, now)
	case l.splits(r):
		return l.split(r, now)
	}
	var fits bool
	if l.chosen, fits = placement.Choose(l.snapshot, r, l.behind(r, before), l.chosen[:0]); !fits {
		return nil, nil
	}
	granted := r.Lease(l.chosen...)
	l.book.Fill(granted)
	if _, err := l.apply(lease.Grant{Lease: granted}, now); err != nil {
		return nil, err
	}
	for _, passed := range before.Unknown() {
		if slices.ContainsFunc(granted.Parts, func(p lease.Part) bool { return l.snapshot.Could(p.GPU, passed) }) {
			l.book.Pass(passed)
		}
	}
	return granted, nil
}

// gate keeps a request from delaying the requests before it in the queue. It
// implements placement.Gate.
type gate struct {
	state   *state
	request *lease.Request
	before  *placement.Ahead
}

// behind returns the gate for a request behind others, or nil if there are none. The gate
// is valid until the next call of behind or advice. The caller holds mu.
func (s *state) behind(r *lease.Request, before *placement.Ahead) placement.Gate {
	if before == nil || before.Len() == 0 {
		return nil
	}
	return s.advice(r, before)
}

// advice returns the gate that tells how much a request could have. It also applies the
// limits of its service. The caller holds mu.
func (s *state) advice(r *lease.Request, before *placement.Ahead) placement.Gate {
	s.gate = gate{state: s, request: r, before: before}
	return &s.gate
}

// Refuse says which request this one would delay on a device, or returns "" if none.
func (g *gate) Refuse(uuid string, claim lease.Load) string {
	if g.before == nil || g.before.Len() == 0 {
		return ""
	}
	first := g.before.Delayed(uuid, g.request, claim)
	if first == nil {
		return ""
	}
	return "is kept for " + first.ID + ", which is ahead in the queue"
}

// Allow returns how much of an amount on each device the service and the user of
// the request may have now; zero if nothing.
func (g *gate) Allow(memory gpu.MiB) gpu.MiB {
	s, name := g.state, g.request.Holder.Service
	service, known := s.settings.Services[name]
	limits := s.limitsOf(g.request)
	if !known && limits == nil {
		return memory
	}
	less := *g.request
	less.Memory = quota.Room(s.book, limits, less.Holder, less.Devices(), memory)
	if known {
		less.Memory = service.Within(less.Devices(), less.Memory, s.book.ServiceUsage(name))
	}
	if less.Memory == 0 || s.overQuota(&less, g.before) != nil {
		return 0
	}
	return less.Memory
}

// overQuota returns why the quota of its service, or a limit of its user, forbids
// granting a request, or nil if none does. The caller holds mu.
func (s *state) overQuota(r *lease.Request, before *placement.Ahead) error {
	err := s.overAny(r, before)
	if err != nil && r.For() == "resume" && !quota.Later(err) {
		return nil // the lease had this from an actor who may exceed the limits, or before they were set
	}
	return err
}

func (s *state) overAny(r *lease.Request, before *placement.Ahead) error {
	if err := s.overLimit(r, before); err != nil {
		return err
	}
	name := r.Holder.Service
	service, known := s.settings.Services[name]
	if !known || s.countedAlready(r) {
		return nil
	}
	if first := before.WaitsFor(lease.ServiceQuota(name)); first != nil {
		return &quota.AdmitError{
			Service: name, Err: quota.ErrQuota, Later: true, Asked: r.Total(), Limit: service.Quota, InUse: s.book.ServiceUsage(name),
			Text: "it is behind " + first.ID + ", which waits for the quota of the service",
		}
	}
	return quota.WithinQuota(service.Service, r, s.book.ServiceUsage(name))
}

// countedAlready reports whether what a child gets of its parent counts for its service
// already. The caller holds mu.
func (s *state) countedAlready(r *lease.Request) bool {
	if !s.splits(r) {
		return false
	}
	parent, err := s.book.Parent(r)
	return r.Memory == 0 || err == nil && parent.Holder.Service == r.Holder.Service
}

// whyNot returns the error that refuses a request that does not wait. The caller
// holds mu.
func (s *state) whyNot(r *lease.Request) error {
	before := s.adviceBefore(r)
	if err := s.overQuota(r, before); err != nil {
		return err
	}
	if _, fits := placement.Choose(s.snapshot, r, nil, nil); !fits {
		if refusal := s.refusal(r, before); refusal != nil { // with before, so that its advice delays nobody
			return refusal
		}
	}
	_, waiting := s.book.Len()
	if s.book.Request(r.Key()) == r {
		waiting-- // do not count r itself
	}
	return &placement.QueuedError{Waiting: waiting, LargestNow: s.largestNow(r, before)}
}

// refusal returns what prevents a grant now, including the requests ahead, or nil if
// nothing does. The caller holds mu.
func (s *state) refusal(r *lease.Request, before *placement.Ahead) *placement.NoFitError {
	if s.splits(r) {
		return nil
	}
	return placement.Explain(s.snapshot, r, s.advice(r, before))
}

// largestNow returns the most memory on each device that a request could have
// now, given the requests ahead of it and the settings of its service; zero if
// none. The caller holds mu.
func (s *state) largestNow(r *lease.Request, before *placement.Ahead) gpu.MiB {
	return placement.LargestNow(s.snapshot, r, s.advice(r, before))
}

// largestEver returns the most memory on each device that a request could have if nobody
// held anything, given the settings of its service; zero if none.
func (s *state) largestEver(r *lease.Request) gpu.MiB {
	most := quota.RoomEver(s.limitsOf(r), r.Devices(), placement.LargestEver(s.snapshot, r))
	service, known := s.settings.Services[r.Holder.Service]
	if !known {
		return most
	}
	return service.Within(r.GPUs, most, lease.Usage{})
}
