package lease

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

// Request is what somebody asks for: one plain value from the door to the book.
// It can be logged, stored, replayed and sent to another machine. Once it is in
// a book it does not change.
type Request struct {
	ID      string
	Holder  Holder // who is going to have it; the door has found it out, it was not told
	Binding Binding
	TTL     time.Duration

	GPUs   int     // how many devices, all different; zero: one
	Memory gpu.MiB // on each device
	Slots  int     // on each device

	Where     gpu.Where // what the devices must be
	Only      []string  // UUIDs of the devices that will do; empty: all will
	Preferred string    // UUID of the device to take if it fits; empty: none
	Policy    string    // the name of the policy that chooses; empty: the default

	AskedPriority gpu.Opt[int]           // absent: that of the service
	Wait          gpu.Opt[time.Duration] // how long to wait for room; absent: as configured

	By access.Actor // who asks; an administrator may ask for a process of somebody else

	EnforcedBy string // see Lease
	Note       string // see Lease

	// Admission settles these.
	Priority  int       // higher goes first
	Requested time.Time // since when it waits; its age counts from here
	Deadline  time.Time // when it stops waiting; every request has one
	Raised    bool      // see Lease
}

// Object returns the request as access decides about it.
func (r *Request) Object() access.Object {
	return access.Of(access.Asked, r.Holder.UID, r.Holder.User)
}

// Devices returns how many devices the request is for.
func (r *Request) Devices() int { return max(r.GPUs, 1) }

// Load is what the request takes on each of its devices.
func (r *Request) Load() Load { return Load{r.Memory, r.Slots} }

// Total is what the request takes over all its devices.
func (r *Request) Total() Usage {
	return Usage{r.Memory * gpu.MiB(r.GPUs), r.Slots * r.GPUs}
}

// Lease makes the lease that grants the request on these devices, ready for
// Grant.
func (r *Request) Lease(devices ...string) *Lease {
	l := &Lease{
		ID: r.ID, Holder: r.Holder, Binding: r.Binding, TTL: r.TTL, Priority: r.Priority,
		EnforcedBy: r.EnforcedBy, Raised: r.Raised, Note: r.Note, By: r.By, Parts: make([]Part, len(devices)),
	}
	for i, d := range devices {
		l.Parts[i] = Part{GPU: d, Memory: r.Memory, Slots: r.Slots}
	}
	return l
}
