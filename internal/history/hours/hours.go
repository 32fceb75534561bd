// Package hours adds up what users and services held, used and waited for over time.
//
// Its sums are exact, however short a lease is: it counts from its grant to its end, and
// with what it has meanwhile. They are of the time in which the daemon runs, and begin at
// 0 when it starts.
//
// No clock and no I/O.
package hours

import (
	"maps"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

// Sum is what a party had over time. Memory is in MiB times seconds.
type Sum struct {
	Leases   float64 // seconds of all its leases, one after the other
	Waiting  float64 // seconds of all its requests that waited
	Leased   float64 // what its leases promised; a pool without what other leases have of it
	Measured float64 // the part of that whose use was measured
	Used     float64 // how much of the measured part was used
}

// Add adds what somebody had for some seconds.
func (s *Sum) Add(o Sum, seconds float64) {
	s.Leases += o.Leases * seconds
	s.Waiting += o.Waiting * seconds
	s.Leased += o.Leased * seconds
	s.Measured += o.Measured * seconds
	s.Used += o.Used * seconds
}

// Book has the leases and the requests.
type Book interface {
	Standing() []ledger.Held
	Tallies() map[lease.Party]lease.Tally
}

// Hours adds up. New makes one.
type Hours struct {
	label func(lease.Party) lease.Party

	mu         sync.Mutex // guards what follows
	sums       map[lease.Party]*Sum
	shown      map[lease.Party]Sum // as of the last look
	leases     map[uint64]*held    // by fence
	last, prev time.Time           // of the newest look and the one before it; zero before them
}

// held is a lease that a look has found.
type held struct {
	holder *lease.Holder
	from   time.Time // everything before is added up
	has    Sum       // for each second, as of the last look or change
}

// New returns Hours. Label returns the names under which a party counts: they must be few,
// whatever names users make up.
func New(label func(lease.Party) lease.Party) *Hours {
	return &Hours{label: label, sums: map[lease.Party]*Sum{}, shown: map[lease.Party]Sum{}, leases: map[uint64]*held{}}
}

// Sums returns what each party had since the daemon started, as of the last look. No sum
// gets smaller.
func (h *Hours) Sums() map[lease.Party]Sum {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.shown)
}

// Look adds up until now. What it finds counts for the time since the last look, and
// Changed has corrected the sums for what changed in between.
func (h *Hours) Look(now time.Time, book Book) {
	h.mu.Lock() // also while the book is read: no change comes between the two
	defer h.mu.Unlock()
	for _, l := range book.Standing() {
		one := h.leases[l.Fence]
		if one == nil {
			one = &held{holder: &l.Holder, from: later(l.Granted, h.last)}
			if h.last.IsZero() {
				one.from = now
			}
			h.leases[l.Fence] = one
		}
		one.has = rate(&l)
		h.advance(one, now)
	}
	for p, tally := range book.Tallies() {
		if sum := h.of(p); !h.last.IsZero() {
			sum.Waiting += float64(tally.Waiting) * seconds(h.last, now)
		}
	}
	// A lease whose change never comes was not granted after all: the journal refused it.
	maps.DeleteFunc(h.leases, func(_ uint64, l *held) bool { return now.Sub(l.from).Abs() > longest })
	for p, sum := range h.sums { // a request whose end is told after this look waits for that
		was := h.shown[p]
		was.Leases, was.Waiting, was.Leased = max(was.Leases, sum.Leases), max(was.Waiting, sum.Waiting), max(was.Leased, sum.Leased)
		was.Measured, was.Used = max(was.Measured, sum.Measured), max(was.Used, sum.Used)
		h.shown[p] = was
	}
	h.prev, h.last = h.last, now
}

// Changed corrects the sums for a change of a lease or a request, which comes after the
// change was made.
func (h *Hours) Changed(e *lease.Effect) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last.IsZero() {
		return
	}
	look := h.last // the last one that did not find the change
	if e.Time.Before(look) {
		look = h.prev
	}
	if r := e.Request; r != nil {
		party := lease.Party{User: r.Holder.User, Service: r.Holder.Service}
		if e.Kind == lease.Asked { // the next look counts it for all of the time
			h.of(party).Waiting -= seconds(look, e.Time)
		} else {
			h.of(party).Waiting += seconds(look, e.Time)
		}
	}
	l := e.Lease()
	if l == nil {
		return
	}
	if pool := h.leases[l.From]; pool != nil && (e.Before == nil || e.After == nil) {
		h.advance(pool, e.Time)
		if has := promised(l); e.After == nil {
			pool.has.Leased += has.Leased
		} else {
			pool.has.Leased -= has.Leased
		}
	}
	if e.Before == nil {
		return // the next look finds it
	}
	one := h.leases[l.Fence]
	if one == nil {
		one = &held{holder: &l.Holder, from: later(l.Granted, look), has: promised(e.Before)}
		h.leases[l.Fence] = one
	}
	h.advance(one, e.Time)
	if e.After == nil {
		delete(h.leases, l.Fence)
	}
}

// of returns the sum of a party. The caller holds mu.
func (h *Hours) of(p lease.Party) *Sum {
	p = h.label(p)
	if h.sums[p] == nil {
		h.sums[p] = &Sum{}
	}
	return h.sums[p]
}

// advance adds up what a lease had until a time. The caller holds mu.
func (h *Hours) advance(l *held, until time.Time) {
	h.of(lease.Party{User: l.holder.User, Service: l.holder.Service}).Add(l.has, seconds(l.from, until))
	if until.After(l.from) || l.from.Sub(until) > longest {
		l.from = until
	}
}

// longest is the most time between two looks, which may be the longest interval of the
// monitor apart, an hour. If there is more, somebody has set the clock, or the machine was
// asleep.
const longest = 2 * time.Hour

// seconds returns the seconds between two times that the daemon ran.
func seconds(from, until time.Time) float64 {
	if d := until.Sub(from); d > 0 && d <= longest {
		return d.Seconds()
	}
	return 0
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// promised returns what a lease has for each second, as far as the lease itself tells.
func promised(l *lease.Lease) Sum {
	s := Sum{Leases: 1}
	if l.State != lease.Parked {
		for _, p := range l.Parts {
			s.Leased += float64(p.Memory)
		}
	}
	return s
}

// rate returns what a lease has for each second.
func rate(l *ledger.Held) Sum {
	s := promised(l.Lease)
	if l.State == lease.Parked {
		return s
	}
	if l.InPool != nil {
		s.Leased -= float64(l.InPool.Taken)
	}
	for i, p := range l.Parts {
		if used, known := l.Measured[i].Get(); known {
			s.Measured += float64(p.Memory)
			s.Used += float64(used)
		}
	}
	s.Measured = min(s.Measured, s.Leased) // a pool, which is on one device
	return s
}
