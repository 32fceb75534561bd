package lease

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Request is what somebody asks for and, while it waits, what stands in the
// queue. Once it is in a book it does not change.
type Request struct {
	ID       string
	Holder   Holder
	Binding  Binding
	TTL      time.Duration
	GPUs     int     // how many devices, all different
	Memory   gpu.MiB // on each device
	Slots    int     // on each device
	Priority int     // higher goes first

	Requested time.Time // since when it waits; its age counts from here
	Deadline  time.Time // when it stops waiting; every request has one

	Raised bool   // see Lease
	Note   string // see Lease

	// Constraints is whatever the keeper of the book needs to place the
	// request. The book carries it and never looks at it.
	Constraints any
}

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
		Raised: r.Raised, Note: r.Note, Parts: make([]Part, len(devices)),
	}
	for i, d := range devices {
		l.Parts[i] = Part{GPU: d, Memory: r.Memory, Slots: r.Slots}
	}
	return l
}
