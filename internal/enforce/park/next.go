package park

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
)

// row is a row of the table: what follows if something happens to a lease in a place.
type row struct {
	at   Place
	on   What // empty means at once, in whatever way the lease came there
	when when
	to   Place
	do   []Act
}

// when says what must be so for a row to count.
type when string

// The conditions.
const (
	always    when = ""
	isActive  when = "active in the book"
	isParked  when = "parked in the book"
	hasEnded  when = "ended"
	isToQueue when = "parked in the book, returns, and nothing waits for its room"
)

// table is the whole table. What no row names changes nothing: while berth moves the
// memory of a lease, nothing else does, and what has happened meanwhile counts when it
// has arrived somewhere.
var table = []row{
	{Here, Ordered, always, Leaving, []Act{Depart}}, // whatever has become of it: Depart answers the order
	{Here, "", hasEnded, Forgotten, []Act{Forget}},
	{Leaving, Departed, always, Parked, []Act{Write, Tell}},
	{Leaving, Refused, always, Here, []Act{Drop, Write, Release, Tell}},
	{Leaving, Failed, always, Coming, []Act{Write, Tell, Bring}},
	{Parked, Intruded, isParked, Checking, []Act{Confine}},
	{Parked, "", isActive, Coming, []Act{Write, Bring}},
	{Parked, "", isToQueue, Parked, []Act{Queue}},
	{Parked, "", hasEnded, Left, []Act{Watch}},
	{Checking, Checked, always, Parked, nil},
	{Coming, Arrived, always, Here, []Act{Drop, Write, Release, Tell}},
	{Coming, GaveUp, always, Lost, []Act{Tell}},
	{Lost, "", hasEnded, Left, []Act{Watch}},
	{Lost, Asked, always, Coming, []Act{Write, Bring}},
	{Lost, Woken, always, Coming, []Act{Write, Bring}},
	{Left, Emptied, always, Forgotten, []Act{Forget, Write}},
	{Noted, Recovered, isParked, Checking, []Act{Check}},
	{Noted, Recovered, isActive, Coming, []Act{Write, Bring}},
	{Noted, Recovered, hasEnded, Left, []Act{Watch}},
	{Halfway, Recovered, isParked, Checking, []Act{Check}},
	{Halfway, Recovered, isActive, Coming, []Act{Write, Bring}},
	{Halfway, Recovered, hasEnded, Coming, []Act{Write, Bring}}, // its locked processes must go on
}

// phases has the phase of each place. A lease that is left, or that an earlier daemon
// wrote down, keeps the phase that it has.
var phases = map[Place]move.Phase{
	Here: "", Forgotten: "", Leaving: move.Parking, Parked: move.Parked, Checking: move.Parked, Coming: move.Resuming, Lost: move.Resuming,
}

// Next returns the state of a lease after something has happened to it, and what to do
// about it, in order. Whoever does it reports what comes of it as further events.
func Next(s State, e Event) (State, []Act) {
	acts := s.note(e)
	for on := e.What; ; on = "" { // then as long as it cannot rest where it is
		i := slices.IndexFunc(table, func(r row) bool { return r.at == s.At && r.on == on && s.meets(r.when, e) })
		switch {
		case i >= 0:
			acts = append(acts, s.follow(table[i], e)...)
		case on == "":
			return s, acts
		}
	}
}

// meets reports whether a condition holds.
func (s *State) meets(w when, e Event) bool {
	switch w {
	case isActive:
		return e.Book == lease.Active
	case isParked:
		return e.Book == lease.Parked
	case hasEnded:
		return e.Book == ""
	case isToQueue:
		return e.Book == lease.Parked && s.Returns && !s.Waits && s.Calls == 0
	}
	return true
}

// note notes who waits for a lease. A lease has one request in the queue at a time: while
// somebody waits for its room, it does not wait for its turn.
func (s *State) note(e Event) []Act {
	stops := false
	switch e.What {
	case Called:
		s.Calls++
		stops = s.Waits
	case CallOver:
		s.Calls--
	case WaitOver:
		s.Waits = false
	case Woken:
		if s.Phase == "" {
			break
		}
		if !s.Returns {
			s.Wanted = e.Now
		}
		s.Returns = true // even after it was parked by hand, and while it is being parked
		if s.Source == move.ByLadder {
			s.Source, stops = move.ByPressure, s.Waits // it waits for its turn without the pause of the ladder
		}
	}
	if stops {
		return []Act{Unqueue}
	}
	return nil
}

// follow takes a lease to another place, and returns what to do about it.
func (s *State) follow(r row, e Event) []Act {
	since := e.Now
	switch {
	case r.on == Ordered:
		s.Source, s.Returns, s.Wanted = e.Source, false, time.Time{}
	case r.on == Departed:
		s.Times++
		s.ParkedAt, s.Returns = e.Now, s.Returns || s.Source != move.ByHand
	case r.on == Arrived:
		s.ParkedAt, s.Returns, s.Wanted = time.Time{}, false, time.Time{}
	case r.on == Recovered && r.when == isParked:
		s.Times = max(s.Times, 1)
		s.ParkedAt, s.Returns = e.ParkedAt, s.Returns || s.Source != move.ByHand
		since = e.ParkedAt
	case r.on == Recovered && s.At == Noted:
		s.ParkedAt = s.Since
	case r.when == isToQueue:
		s.Waits = true
	}
	if phase, own := phases[r.to]; own && phase != s.Phase {
		s.Phase, s.Since = phase, since
	}
	s.At = r.to
	return r.do
}

// WaitsSince returns since when a lease waits for its turn, if the book noted at parkedAt
// that it is parked. A lease that was parked by hand waits only from the moment when
// somebody wants it back: otherwise its owner could keep a place in the queue for later.
func (s *State) WaitsSince(parkedAt, now time.Time) time.Time {
	switch {
	case s.Source == move.ByHand && !s.Wanted.IsZero():
		return s.Wanted
	case s.Source == move.ByHand && !s.Returns:
		return now
	case !parkedAt.IsZero():
		return parkedAt
	}
	return s.Since
}
