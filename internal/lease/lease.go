package lease

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

// Lease is slots and memory on one or more devices, held by somebody until it
// ends. Once it is in a book it does not change.
type Lease struct {
	ID       string // the allocation id; one lease or waiting request has it at a time
	Fence    uint64 // grows with every grant; set by the book
	Holder   Holder
	Binding  Binding
	TTL      time.Duration // what a renewal adds, for Binding ByTTL; else zero
	Granted  time.Time     // set by the book
	Expires  time.Time     // set by the book for Binding ByTTL; else zero
	Parts    []Part        // on different devices
	Priority int
	State    State

	EnforcedBy string // who holds the holder to the memory: mps, framework, watchdog or none
	Raised     bool   // the service's minimum made it larger than what was asked for
	Note       string // what is different from what was asked for, one sentence; empty: nothing

	By access.Actor // who asked for it; without a door: not known
}

// Part is what a lease has on one device.
type Part struct {
	GPU    string // UUID
	Memory gpu.MiB
	Slots  int
}

// Total is what the lease has over all its devices.
func (l *Lease) Total() Usage {
	var u Usage
	for _, p := range l.Parts {
		u.Memory += p.Memory
		u.Slots += p.Slots
	}
	return u
}

// Holder is who has a lease. Where it comes over a local socket the kernel says
// who it is; nothing in it is believed because the holder says so, except the
// service and the name.
type Holder struct {
	User    string // login name, or the number as text
	UID     int    // NoUID where the kernel did not say
	Service string // empty: none
	Name    string // what the process calls itself, for people

	// The process, for Binding ByProcess and for telling which processes a
	// lease covers. The pid alone does not name a process: it is used again.
	PID   int
	Start uint64 // when the process started, in ticks since boot
	Boot  string // which boot that was
}

// NoUID stands for a holder that is not known by a user id.
const NoUID = access.NoUID

// Same reports whether two holders are the same user.
func (h Holder) Same(other Holder) bool {
	return h.UID == other.UID && (h.UID != NoUID || h.User == other.User)
}

// Object returns the lease as access decides about it.
func (l *Lease) Object() access.Object { return access.Of(access.Held, l.Holder.UID, l.Holder.User) }

// Binding is what ends a lease by itself.
type Binding string

// The bindings.
const (
	ByProcess Binding = "process" // the process dies
	ByTTL     Binding = "ttl"     // it is not renewed in time
	ByName    Binding = "named"   // nothing: it stands until it is released
)

// State is what a lease is doing.
type State string

// The states.
const (
	Active State = "active"
	Parked State = "parked" // its memory was moved off the device; it takes nothing there
)
