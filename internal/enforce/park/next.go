package park

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
)

// Row is a row of the table: what follows if something happens to a lease in a place.
type Row struct {
	At   Place
	On   What // empty means at once, in whatever way the lease came there
	When When
	To   Place
	Do   []Act
}

// When says what must be so for a row to count.
type When string

// The conditions.
const (
	Always    When = ""
	IsActive  When = "active in the book"
	IsParked  When = "parked in the book"
	HasEnded  When = "ended"
	IsToQueue When = "parked in the book, returns, and nothing waits for its room"
)

// Table returns the whole table. What no row names changes nothing: while berth moves the
// memory of a lease, nothing else does, and what has happened meanwhile counts when it
// has arrived somewhere.
func Table() []Row { return slices.Clone(table) }

var table = []Row{
	{Here, Ordered, IsActive, Leaving, []Act{Depart}},
	{Here, "", HasEnded, Forgotten, []Act{Forget}},
	{Leaving, Departed, Always, Parked, []Act{Write, Tell}},
	{Leaving, Refused, Always, Here, []Act{Drop, Write, Release, Tell}},
	{Leaving, Failed, Always, Coming, []Act{Write, Tell, Bring}},
	{Parked, Intruded, IsParked, Checking, []Act{Confine}},
	{Parked, "", IsActive, Coming, []Act{Write, Bring}},
	{Parked, "", IsToQueue, Parked, []Act{Queue}},
	{Parked, "", HasEnded, Left, []Act{Watch}},
	{Checking, Checked, Always, Parked, nil},
	{Coming, Arrived, Always, Here, []Act{Drop, Write, Release, Tell}},
	{Coming, GaveUp, Always, Lost, []Act{Tell}},
	{Lost, "", HasEnded, Left, []Act{Watch}},
	{Lost, Asked, Always, Coming, []Act{Write, Bring}},
	{Lost, Woken, Always, Coming, []Act{Write, Bring}},
	{Left, Emptied, Always, Forgotten, []Act{Forget}},
	{Noted, Recovered, IsParked, Checking, []Act{Check}},
	{Noted, Recovered, IsActive, Coming, []Act{Write, Bring}},
	{Noted, Recovered, HasEnded, Left, []Act{Watch}},
	{Halfway, Recovered, IsParked, Checking, []Act{Check}},
	{Halfway, Recovered, IsActive, Coming, []Act{Write, Bring}},
	{Halfway, Recovered, HasEnded, Coming, []Act{Write, Bring}}, // its locked processes must go on
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
		i := slices.IndexFunc(table, func(r Row) bool { return r.At == s.At && r.On == on && s.meets(r.When, e) })
		switch {
		case i >= 0:
			acts = append(acts, s.follow(table[i], e)...)
		case on == "":
			return s, acts
		}
	}
}

// meets reports whether a condition holds.
func (s *State) meets(w When, e Event) bool {
	switch w {
	case IsActive:
		return e.Book == lease.Active
	case IsParked:
		return e.Book == lease.Parked
	case HasEnded:
		return e.Book == ""
	case IsToQueue:
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
func (s *State) follow(r Row, e Event) []Act {
	since := e.Now
	switch {
	case r.On == Ordered:
		s.Source, s.Returns, s.Wanted = e.Source, false, time.Time{}
	case r.On == Departed:
		s.Times++
		s.ParkedAt, s.Returns = e.Now, s.Returns || s.Source != move.ByHand
	case r.On == Arrived:
		s.ParkedAt, s.Returns, s.Wanted = time.Time{}, false, time.Time{}
	case r.On == Recovered && r.When == IsParked:
		s.Times = max(s.Times, 1)
		s.ParkedAt, s.Returns = e.ParkedAt, s.Returns || s.Source != move.ByHand
		since = e.ParkedAt
	case r.On == Recovered && s.At == Noted:
		s.ParkedAt = s.Since
	case r.When == IsToQueue:
		s.Waits = true
	}
	if phase, own := phases[r.To]; own && phase != s.Phase {
		s.Phase, s.Since = phase, since
	}
	s.At = r.To
	return r.Do
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
