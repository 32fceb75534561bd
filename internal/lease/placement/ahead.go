package placement

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/queue"
)

// Ahead has the requests ahead of a place in the queue, as far as they matter to the
// requests behind it. Begin sets the place to the front of the queue; Join adds the
// request at hand and moves on to the next one. An Ahead is valid until the book or the
// snapshot changes.
//
// Ahead leaves out requests that do not matter. At first, the devices with room are open.
// A device closes as soon as every request further back would delay a request ahead
// there, which mostly happens after a few requests. When no open device suits the
// requests of a lane, Ahead leaves that lane. So the cost depends on the number of lanes
// and on how many requests it takes to close the devices, but not on the length of the
// queue.
type Ahead struct {
	snapshot *Snapshot
	book     *lease.Book
	limits   Limits

	walk lease.Walk
	// least is the smallest load on a device that callers ask about: Ahead has no answer
	// about a request for less.
	least lease.Load
	// open lists the devices on which a request further back may still be granted.
	open []*opening
	// most is the largest load that could ever be on an open device.
	most lease.Load
	// ahead is the number of requests that have joined and must not be delayed.
	ahead int
	// stuck has the first request that waits for each quota or limit. That request cannot
	// use free room, so others may; but no request of the same service, user or group may
	// use the quota or the limit that it waits for.
	stuck map[lease.Allowance]*lease.Request

	openings map[string]*opening // by device; kept from one Begin to the next
	begun    int                 // number of calls of Begin; see opening.begun
	looked   int                 // number of requests that have joined so far

	// hold is whether endless requests stay behind those whose start is not known. Unknown
	// lists the latter, as far as they have joined.
	hold    bool
	unknown []*lease.Request

	endless []gpu.Opt[time.Time] // by device, since when it has an endless lease; empty until somebody asks
	kept    []lease.Load         // by device, the most that one of unknown keeps from endless requests
}

// mostUnknown is how many requests whose start is not known join one by one, so that it can be
// counted who passes them. Of further ones, only those join that matter to others.
const mostUnknown = 64

// opening is a device that had room, at the front of the queue, for the least load that
// callers ask about.
type opening struct {
	uuid     string
	position int
	begun    int // the call of Begin that it belongs to
	now      lease.Load
	most     lease.Load
	passing  lease.Passing
	taken    bool // a request that could be on the device has joined

	// ending is passing for requests that have an end, once it differs: those whose start
	// is not known hold them up nowhere.
	ending lease.Passing
	parted bool
}

// gate returns what decides whether a request may pass those ahead, or nil if everybody may.
func (o *opening) gate(endless bool) *lease.Passing {
	switch {
	case o.parted && !endless:
		return &o.ending
	case o.taken:
		return &o.passing
	}
	return nil
}

// allows reports whether a load fits on the device now and delays no request there.
func (o *opening) allows(l lease.Load, endless bool) bool {
	g := o.gate(endless)
	return l.Within(o.now) && (g == nil || g.Allows(l))
}

// add adds a request to those ahead of endless requests, and to those ahead of others if
// known is true. It returns what Passing.Add does. It leaves out what makes no difference to
// requests for at least least, because the device may stay open to others for long.
func (o *opening) add(b *lease.Book, r *lease.Request, known bool, least lease.Load) (counts bool) {
	if !o.taken {
		b.Passing(&o.passing, o.uuid)
		o.taken = true
	}
	if !known && !o.parted {
		b.Passing(&o.ending, o.uuid)
		o.ending.AddAll(&o.passing)
		o.parted = true
	}
	if known && o.parted {
		counts = o.ending.Add(r, r.Claim())
	}
	if o.isOpen(least, true) {
		counts = o.passing.Add(r, r.Claim()) || counts
	}
	return counts
}

// isOpen reports whether a request for at least this load may be granted on the device. The
// answer for an endless one is never yes if that for another one is no.
func (o *opening) isOpen(least lease.Load, endless bool) bool {
	if least != (lease.Load{}) {
		return o.allows(least, endless)
	}
	return o.allows(lease.Load{Memory: 1}, endless) || o.allows(lease.Load{Slots: 1}, endless)
}

// Limits reports what forbids or allows a grant, apart from devices.
type Limits interface {
	// Lacking returns the quota or the limit that forbids granting a request behind those
	// ahead, or false if none does.
	Lacking(*lease.Request) (lease.Allowance, bool)
	// MayLack reports whether Lacking may hold for a request of the same service
	// and user as r that asks for at most this much over all devices.
	MayLack(r *lease.Request, total lease.Usage) bool
	// MaySplit reports whether a request with the same parent as r that asks for at least
	// this much may get its memory from the parent. It then needs no room, and waits for
	// no other request and no quota.
	MaySplit(r *lease.Request, least lease.Load) bool
	// Passes reports whether others may pass a request whose start is not known.
	Passes() bool
}

// Begin starts at the front of the queue, for questions about requests for at least this
// load on a device.
func (n *Ahead) Begin(s *Snapshot, b *lease.Book, limits Limits, least lease.Load) {
	n.snapshot, n.book, n.limits = s, b, limits
	if n.openings == nil {
		n.openings, n.stuck = map[string]*opening{}, map[lease.Allowance]*lease.Request{}
	}
	b.Walk(&n.walk)
	n.begun++
	n.ahead, n.hold = 0, false
	clear(n.unknown)
	n.unknown, n.endless, n.kept = n.unknown[:0], n.endless[:0], n.kept[:0]
	for range s.devices {
		n.kept = append(n.kept, lease.Load{})
	}
	clear(n.stuck)
	n.least, n.open = least, n.open[:0]
	for i := range s.devices {
		uuid := s.devices[i].UUID
		o := n.openings[uuid]
		if o == nil {
			o = &opening{uuid: uuid}
			n.openings[uuid] = o
		}
		o.position, o.now, o.most, o.taken = i, lease.Load{Memory: s.room[i], Slots: int(s.free[i])}, s.most(i), false
		o.parted = false
		if o.isOpen(least, false) {
			o.begun = n.begun
			n.open = append(n.open, o)
		}
	}
	n.measure()
}

// Request returns the request at hand, or nil at the end of the queue.
func (n *Ahead) Request() *lease.Request { return n.walk.Request() }

// Before reports whether the request at hand is before r in the queue. Every request is
// before one that does not wait.
func (n *Ahead) Before(r *lease.Request) bool {
	at := n.walk.Request()
	return at != nil && n.book.Compare(at, r) < 0
}

// Open reports whether a request further back may still be granted.
func (n *Ahead) Open() bool { return len(n.open) > 0 }

// Len returns the number of requests that have joined and must not be delayed, as far as
// they matter.
func (n *Ahead) Len() int { return n.ahead }

// WaitsFor returns the first request ahead that waits for a quota or a limit, or nil if
// there is none. A nil Ahead has no requests.
func (n *Ahead) WaitsFor(a lease.Allowance) *lease.Request {
	if n == nil {
		return nil
	}
	return n.stuck[a]
}

// isStuck reports whether all requests in the lane of r are stuck behind one that
// waits for the quota of their service, or for the limits of their user.
func (n *Ahead) isStuck(r *lease.Request) bool {
	return len(n.stuck) > 0 && (n.stuck[lease.ServiceQuota(r.Holder.Service)] != nil || n.stuck[lease.UserLimit(r.Holder.Owner())] != nil)
}

// Looked returns the number of requests that have joined since n was made.
func (n *Ahead) Looked() int { return n.looked }

// measure computes most again after devices have closed.
func (n *Ahead) measure() {
	n.most = lease.Load{Memory: -1, Slots: -1}
	for _, o := range n.open {
		n.most = n.most.Larger(o.most)
	}
}

// MayFit reports whether a request might get its devices behind those ahead.
func (n *Ahead) MayFit(r *lease.Request) bool { return n.mayFit(r, r.Load()) }

// mayFit is MayFit for a request like r for this load.
func (n *Ahead) mayFit(r *lease.Request, l lease.Load) bool {
	claim, left := l, r.Devices()
	if r.Exclusive {
		claim = queue.Whole
	}
	for _, o := range n.open {
		if g := o.gate(r.Endless()); l.Within(o.now) && (g == nil || g.Allows(claim)) {
			if left--; left == 0 {
				return true
			}
		}
	}
	return false
}

// Delayed returns a request ahead that a request would delay if it had a load on a device,
// or nil if there is none.
func (n *Ahead) Delayed(uuid string, r *lease.Request, l lease.Load) *lease.Request {
	if o := n.openings[uuid]; o.begun == n.begun {
		if g := o.gate(r.Endless()); g != nil {
			first, _ := g.Delayed(l)
			return first
		}
	}
	return nil
}

// Hold makes endless requests stay behind those whose start is not known. The caller calls
// it before the first Join. It is for a first look through the queue: what has an end goes
// first.
func (n *Ahead) Hold() { n.hold = true }

// Unknown lists the requests ahead whose start is not known. It is valid until the next
// Begin. A nil Ahead has none.
func (n *Ahead) Unknown() []*lease.Request {
	if n == nil {
		return nil
	}
	return n.unknown
}

// StartIsKnown reports whether a request behind those ahead fits once all leases that have an
// end have ended. An endless one waits for those ahead whose start is not known.
func (n *Ahead) StartIsKnown(r *lease.Request) bool {
	known, _ := n.start(r, r.Load(), r.Load())
	return known
}

// start reports whether it is known when a request like r starts, as StartIsKnown does, and if
// not, whether further endless leases may go before it. That it is not known, or not known and
// they may, is true of all loads from least to most if start says so.
func (n *Ahead) start(r *lease.Request, least, most lease.Load) (known, spared bool) {
	s, left := n.snapshot, r.Devices()
	for i := len(n.endless); i < len(s.devices); i++ {
		n.endless = append(n.endless, n.book.EndlessSince(s.devices[i].UUID))
	}
	for i := range s.devices {
		if !least.Within(s.most(i)) || !s.allows(i, r) {
			continue
		}
		uuid, shut := s.devices[i].UUID, s.use[i].Closed != "" || s.use[i].State == gpu.Unavailable
		since, any := n.endless[i].Get()
		switch {
		case !shut && n.book.FitsBesideEndless(uuid, least, r.Exclusive):
			if !r.Endless() || !n.keeps(i, r, least) {
				if left--; left == 0 {
					return true, false
				}
			} else if n.book.FitsBesideEndless(uuid, most, r.Exclusive) {
				spared = true // one ahead is protected in its place
			}
		case most.Within(s.most(i)) && (shut || any && !since.After(r.Requested) || !n.book.FitsBesideForeign(uuid, least)):
			spared = true
		}
	}
	return false, spared
}

// keeps reports whether a load of an endless request like r does not fit on a device beside
// what is kept for one ahead.
func (n *Ahead) keeps(i int, r *lease.Request, l lease.Load) bool {
	kept := n.kept[i]
	if kept == (lease.Load{}) || r.Exclusive {
		return kept != (lease.Load{})
	}
	return !n.book.FitsBesideEndless(n.snapshot.devices[i].UUID, lease.Load{Memory: l.Memory + kept.Memory, Slots: l.Slots + kept.Slots}, false)
}

// Join adds the request at hand to those ahead, and moves on to the next one that
// matters.
func (n *Ahead) Join() {
	r := n.walk.Request()
	known, counts := n.count(r)
	lane := n.walk.Bounds()
	switch {
	case !n.isStuck(r) && n.limits.MayLack(r, lease.Usage(lane.Total)),
		r.Parent != "" && n.limits.MaySplit(r, lane.Least):
		n.walk.Next(queue.AnyLoad) // a quota may be used up, or a parent be split
	case !n.suits(r):
		n.walk.Leave()
	case counts, n.MayFit(r), !known && len(n.unknown) < mostUnknown:
		n.walk.Next(n.most)
	case !known && n.isIdle(r, lane.Least, lane.Most):
		n.walk.Leave()
	default: // nor do others in its lane that ask for as much matter
		n.walk.NextOther(n.most)
	}
}

// isIdle reports whether nobody in the lane of r, which asks for loads from least to most, can
// be granted, and all of them wait for what has no end and keep nothing from anybody.
func (n *Ahead) isIdle(r *lease.Request, least, most lease.Load) bool {
	known, spared := n.start(r, least, most)
	if known || n.mayFit(r, least) {
		return false
	}
	return spared && !n.hold || !slices.ContainsFunc(n.open, func(o *opening) bool {
		return o.isOpen(n.least, true) && n.snapshot.allows(o.position, r)
	})
}

// count adds a request to those ahead. It reports whether its start is known, and whether to
// have added it makes a difference, or a further request for as much could make one.
func (n *Ahead) count(r *lease.Request) (known, counts bool) {
	n.looked++
	if lacks, lacking := n.limits.Lacking(r); lacking {
		if n.stuck[lacks] == nil {
			n.stuck[lacks] = r
		}
		return true, true
	}
	n.ahead++
	spared := false
	if known = !n.limits.Passes() || r.Priority >= lease.First; !known {
		known, spared = n.start(r, r.Load(), r.Load())
	}
	if !known {
		n.unknown = append(n.unknown, r)
	}
	protected := !spared || n.hold
	left := n.open[:0]
	for _, o := range n.open {
		if protected && n.snapshot.couldAt(o.position, r) {
			counts = o.add(n.book, r, known, n.least) || counts
			if keeps := &n.kept[o.position]; !known && !spared {
				*keeps = keeps.Larger(r.Claim())
			}
		}
		if o.isOpen(n.least, false) {
			left = append(left, o)
		}
	}
	if len(left) < len(n.open) {
		clear(n.open[len(left):])
		n.open = left
		n.measure()
	}
	return known, counts
}

// suits reports whether an open device suits the lane of a request.
func (n *Ahead) suits(r *lease.Request) bool {
	if n.isStuck(r) {
		return false
	}
	for _, o := range n.open {
		if n.snapshot.allows(o.position, r) {
			return true
		}
	}
	return false
}
