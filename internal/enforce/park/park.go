// Package park decides when leases are parked, and what becomes of them then.
//
// To park a lease is to move the memory of its processes to the memory of the machine. A
// table says what follows from what happens to a lease (Next). Other rules say which step
// follows from the states that the driver reports (NextStep), whose turn it is where
// several leases do not fit together (Turn), and who lets others go first (Yields).
// Package mover does what they say.
//
// The book is right, and the processes have to follow it. A lease is active in the book
// until the memory of all its processes has left the device. Only then the book notes
// that it is parked, and others can have the room. It is active in the book again, with
// its room leased, before any memory moves back. A file says which processes may be away.
// So a daemon that is killed between any two lines leaves the next one the book, the file
// and the states that the driver reports, and the next one goes on from there.
//
// Pure: no clock, no I/O.
package park

import (
	"time"

	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
)

// Place says where the memory of a lease is, and what berth does about it.
type Place string

// The places.
const (
	Here      Place = "here"      // on its device
	Leaving   Place = "leaving"   // berth moves it off its device
	Parked    Place = "parked"    // in the memory of the machine
	Checking  Place = "checking"  // parked by the book, and berth makes sure that it is off the device
	Coming    Place = "coming"    // berth moves it back
	Lost      Place = "lost"      // the driver does not bring it back
	Left      Place = "left"      // its lease has ended, and its processes take it with them when they end
	Noted     Place = "noted"     // an earlier daemon wrote down that it is parked
	Halfway   Place = "halfway"   // an earlier daemon wrote down that it was on its way
	Forgotten Place = "forgotten" // nobody needs to know any more
)

// What says what happens to a lease.
type What string

// What happens.
const (
	Ordered   What = "ordered"   // somebody, or berth itself, wants it parked
	Departed  What = "departed"  // its memory is off the device, and the book notes that
	Refused   What = "refused"   // it cannot be parked, and none of its processes was touched
	Failed    What = "failed"    // it cannot be parked, and some of its memory may be away
	Intruded  What = "intruded"  // one of its processes uses the device while it is parked
	Checked   What = "checked"   // berth has made sure of what it could
	Called    What = "called"    // somebody waits for its room to resume it
	CallOver  What = "call over" // that wait has ended
	Woken     What = "woken"     // its program wants it back
	Asked     What = "asked"     // somebody wants berth to try again
	WaitOver  What = "wait over" // it does not wait in the queue of the book any more
	Arrived   What = "arrived"   // its memory is back, and its processes run
	GaveUp    What = "gave up"   // the driver will not bring its memory back
	Emptied   What = "emptied"   // the last of its processes has ended
	Recovered What = "recovered" // a daemon begins
	Changed   What = "changed"   // the book has changed
)

// Event is something that happens to a lease, with what the book says of it then.
type Event struct {
	What     What
	Book     lease.State // empty if the lease has ended
	ParkedAt time.Time   // when the book noted that it is parked
	Source   move.Source // why it is to be parked, if it is
	Now      time.Time
}

// State is the state of a lease that is parked, on its way, or was parked before.
type State struct {
	At       Place       `json:"-"`
	Phase    move.Phase  `json:"phase"` // of At, in the words of the file
	Since    time.Time   `json:"since"` // of the phase
	Source   move.Source `json:"source"`
	Returns  bool        `json:"returns,omitempty"` // it waits for its turn to come back, or is going to wait
	Wanted   time.Time   `json:"wanted,omitzero"`   // when its program asked to be woken, after it was parked by hand
	Times    int         `json:"times"`             // how often it was parked
	ParkedAt time.Time   `json:"-"`                 // when its memory had left the device; zero if it is there
	Waits    bool        `json:"-"`                 // it waits in the queue of the book for its turn
	Calls    int         `json:"-"`                 // of Resume that wait for its room
}

// Act is something to do about a lease.
type Act string

// The acts.
const (
	Depart  Act = "depart"  // check that it can be parked, move its memory off the device, and note that in the book
	Check   Act = "check"   // make sure that its memory is off the device
	Confine Act = "confine" // take the memory of its new processes off the device
	Bring   Act = "bring"   // move its memory back
	Queue   Act = "queue"   // wait in the queue of the book for its turn
	Unqueue Act = "unqueue" // stop that
	Watch   Act = "watch"   // wait until its processes have ended
	Drop    Act = "drop"    // forget which of its processes were moved
	Write   Act = "write"   // write the file
	Release Act = "release" // let the pacer have its processes again
	Tell    Act = "tell"    // publish what has happened
	Forget  Act = "forget"  // forget the lease
)
