// Package hours adds up what users and services held, used and waited for over time.
//
// Its sums are exact, however short a lease is: it counts from its grant to its end, and
// with what it has meanwhile. They go on after a restart: the daemon keeps them with the
// time that they are of, and counts what the journal says of the time since then, as far as
// the machine ran. Only of memory in use and of waiting nothing is known while no daemon
// runs.
//
// No clock and no I/O.
package hours

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

// Sum is what a party had over time. Memory is in MiB times seconds.
type Sum struct {
	Leases   float64 `json:"leases"`   // seconds of all its leases, one after the other
	Waiting  float64 `json:"waiting"`  // seconds of all its requests that waited
	Leased   float64 `json:"leased"`   // what its leases promised; a pool without what other leases have of it
	Measured float64 `json:"measured"` // the part of that whose use was measured
	Used     float64 `json:"used"`     // how much of the measured part was used
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
	kept       Kept       // what earlier daemons added up
	sums       map[whose]*Sum
	shown      map[whose]Sum    // as of the last look
	leases     map[uint64]*held // by fence
	began      time.Time        // when this daemon started; zero without Recall
	missed     []span           // since the time of kept, up to the first look
	last, prev time.Time        // of the newest look and the one before it; zero before them
}

// whose names a user or a service.
type whose struct {
	service bool
	name    string
}

// Kept are the sums of every user and service at a time, by their labels.
type Kept struct {
	At       time.Time      `json:"at"`
	Users    map[string]Sum `json:"users"`
	Services map[string]Sum `json:"services"`
}

// Check returns an error if something in the sums cannot be.
func (k *Kept) Check() error {
	for _, sums := range []map[string]Sum{k.Users, k.Services} {
		for name, s := range sums {
			if least := min(s.Leases, s.Waiting, s.Leased, s.Measured, s.Used); least < 0 || math.IsNaN(least) {
				return fmt.Errorf("%q had less than nothing", name)
			}
		}
	}
	return nil
}

// mostKept is the most users, and the most services, whose sums are kept while they have
// nothing: those with the longest leases.
const mostKept = 1000

// longestStop is the longest time without a daemon for which leases count. If it was
// longer, a wrong clock is more likely than a lease that stood through it.
const longestStop = 31 * 24 * time.Hour

// held is a lease that a look has found.
type held struct {
	holder *lease.Holder
	from   time.Time // everything before is added up
	has    Sum       // for each second, as of the last look or change
}

// span is what a lease had before the first look.
type span struct {
	users, services whose
	has             Sum
	from, until     time.Time
}

// New returns Hours. Label returns the names under which a party counts: they must be few,
// whatever names users make up.
func New(label func(lease.Party) lease.Party) *Hours {
	return &Hours{label: label, sums: map[whose]*Sum{}, shown: map[whose]Sum{}, leases: map[uint64]*held{}}
}

// Recall makes the sums go on from those of an earlier daemon. Nobody held anything from
// the time of those until the machine has booted. Call Recall before anything else.
func (h *Hours) Recall(kept Kept, now, booted time.Time) {
	h.kept, h.began = kept, now
	if away := now.Sub(kept.At); away < 0 || away > longestStop {
		h.kept.At = now
	}
	h.kept.At = later(h.kept.At, booted)
}

// Users returns the sums of the users who had something since the daemon started, as of
// the last look. No sum gets smaller.
func (h *Hours) Users() map[string]Sum { return h.all(false) }

// Services returns the same of services.
func (h *Hours) Services() map[string]Sum { return h.all(true) }

func (h *Hours) all(services bool) map[string]Sum {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := map[string]Sum{}
	for o, sum := range h.shown {
		if o.service == services {
			found[o.name] = sum
		}
	}
	return found
}

// Before returns the sums of a user or a service that earlier daemons have added up.
func (h *Hours) Before(service bool, name string) Sum {
	return h.kept.of(whose{service, name})
}

func (k *Kept) of(o whose) Sum {
	if o.service {
		return k.Services[o.name]
	}
	return k.Users[o.name]
}

// Keep returns the sums for the next daemon, as of the last look.
func (h *Hours) Keep() Kept {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := Kept{At: h.last, Users: map[string]Sum{}, Services: map[string]Sum{}}
	for o, sum := range h.shown {
		if o.service {
			k.Services[o.name] = sum
		} else {
			k.Users[o.name] = sum
		}
	}
	rest(k.Users, h.kept.Users)
	rest(k.Services, h.kept.Services)
	return k
}

// rest adds the largest of the sums that are not there yet.
func rest(to, from map[string]Sum) {
	names := slices.SortedFunc(maps.Keys(from), func(a, b string) int {
		return cmp.Or(cmp.Compare(from[b].Leases, from[a].Leases), strings.Compare(a, b))
	})
	for _, name := range names[:min(len(names), mostKept)] {
		if _, there := to[name]; !there {
			to[name] = from[name]
		}
	}
}

// Missed calls f with the sums of users and services at times between those that were kept
// and the first look, of those that stood then: so the hours of a long stop belong to its
// days, and not all to the moment at which the daemon is back. The first look must be over.
// A second call finds nothing.
func (h *Hours) Missed(f func(at time.Time, users, services map[string]Sum)) {
	h.mu.Lock()
	missed, until := h.missed, h.last
	h.missed = nil
	h.mu.Unlock()
	if len(missed) == 0 {
		return
	}
	step := time.Duration(missedStep)
	if until.Sub(h.kept.At) > longest {
		step = missedLong
	}
	for at := h.kept.At.Add(time.Millisecond); at.Before(until); at = at.Truncate(step).Add(step) {
		sums := map[bool]map[string]Sum{false: {}, true: {}}
		for _, s := range missed {
			for _, o := range []whose{s.users, s.services} {
				sum, there := sums[o.service][o.name]
				if !there {
					sum = h.kept.of(o)
				}
				end := s.until
				if end.After(at) {
					end = at
				}
				sum.Add(s.has, max(end.Sub(s.from).Seconds(), 0))
				sums[o.service][o.name] = sum
			}
		}
		f(at, sums[false], sums[true])
	}
}

// The steps of Missed: half a minute, as the store of the past condenses samples, and less
// often in a long stop, but often enough for the store to find the sample before each.
const (
	missedStep = 30 * time.Second
	missedLong = 10 * time.Minute
)

// Look adds up until now. What it finds counts for the time since the last look, and
// Changed has corrected the sums for what changed in between. The first look counts from
// the time of the sums that were kept, or from now without them.
func (h *Hours) Look(now time.Time, book Book) {
	h.mu.Lock() // also while the book is read: no change comes between the two
	defer h.mu.Unlock()
	first := h.last.IsZero()
	if first && h.kept.At.IsZero() {
		h.kept.At = now
	}
	if first {
		for _, one := range h.leases { // also of those whose end is told after this look
			one.from = later(one.from, h.kept.At)
		}
	}
	for _, l := range book.Standing() {
		one := h.leases[l.Fence]
		if one == nil {
			one = &held{holder: &l.Holder, from: later(l.Granted, h.last)}
			h.leases[l.Fence] = one
			if first {
				one.has = rate(&l)
			}
		}
		if first {
			h.record(one, now)
		}
		one.has = rate(&l)
		h.advance(one, now)
	}
	for p, tally := range book.Tallies() {
		sums := h.of(p)
		if !first {
			sums.add(Sum{Waiting: float64(tally.Waiting)}, seconds(h.last, now))
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

// Replay takes in what the journal says of the time before the daemon started.
func (h *Hours) Replay(e *lease.Effect) {
	h.mu.Lock()
	defer h.mu.Unlock()
	past := *e
	if past.Time.After(h.began) { // the clock was ahead when it was written
		past.Time = h.began
	}
	h.replay(&past)
}

// replay takes in a change before the first look. The caller holds mu.
func (h *Hours) replay(e *lease.Effect) {
	l := e.Lease()
	if l == nil || e.Fleeting() {
		return
	}
	if pool := h.leases[l.From]; pool != nil && (e.Before == nil || e.After == nil) {
		h.record(pool, e.Time)
		if has := promised(l); e.After == nil {
			pool.has.Leased += has.Leased
		} else {
			pool.has.Leased -= has.Leased
		}
	}
	one := h.leases[l.Fence]
	if one == nil {
		one = &held{holder: &l.Holder, from: l.Granted, has: promised(l)}
		h.leases[l.Fence] = one
	}
	if e.Before != nil {
		h.record(one, e.Time)
	}
	if e.After == nil {
		delete(h.leases, l.Fence)
	} else if e.Before != nil {
		one.has.Leased += promised(e.After).Leased - promised(e.Before).Leased
	}
}

// record adds up what a lease had before the first look, since the time of the sums that
// were kept. The caller holds mu.
func (h *Hours) record(l *held, until time.Time) {
	from := later(l.from, h.kept.At)
	l.from = later(l.from, until)
	if h.kept.At.IsZero() || !until.After(from) {
		return
	}
	party := h.label(partyOf(l.holder))
	h.of(party).add(l.has, until.Sub(from).Seconds())
	h.missed = append(h.missed, span{whose{false, party.User}, whose{true, party.Service}, l.has, from, until})
}

// Changed corrects the sums for a change of a lease or a request, which comes after the
// change was made.
func (h *Hours) Changed(e *lease.Effect) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last.IsZero() {
		h.replay(e)
		return
	}
	look := h.last // the last one that did not find the change
	if e.Time.Before(look) {
		look = h.prev
	}
	if r := e.Request; r != nil {
		party := partyOf(&r.Holder)
		if e.Kind == lease.Asked { // the next look counts it for all of the time
			h.of(party).add(Sum{Waiting: -1}, seconds(look, e.Time))
		} else {
			h.of(party).add(Sum{Waiting: 1}, seconds(look, e.Time))
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
		return
	}
	if e.After.Pool {
		return // the next look finds what other leases have of it
	}
	one.has.Leased = promised(e.After).Leased // perhaps a look has found it already
	if one.has.Leased < one.has.Measured {    // the next look knows better
		one.has.Measured, one.has.Used = one.has.Leased, min(one.has.Used, one.has.Leased)
	}
}

// both are the sums of a user and of a service.
type both [2]*Sum

func (b both) add(o Sum, seconds float64) {
	for _, sum := range b {
		sum.Add(o, seconds)
	}
}

// of returns the sums of a party. The caller holds mu.
func (h *Hours) of(p lease.Party) both {
	p = h.label(p)
	var sums both
	for i, o := range []whose{{false, p.User}, {true, p.Service}} {
		if h.sums[o] == nil {
			before := h.kept.of(o)
			h.sums[o] = &before
		}
		sums[i] = h.sums[o]
	}
	return sums
}

func partyOf(h *lease.Holder) lease.Party { return lease.Party{User: h.User, Service: h.Service} }

// advance adds up what a lease had until a time. The caller holds mu.
func (h *Hours) advance(l *held, until time.Time) {
	h.of(partyOf(l.holder)).add(l.has, seconds(l.from, until))
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
