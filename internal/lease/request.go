package lease

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease/queue"
)

// Request asks for a lease. It is one plain value from the door to the book: it
// can be logged, stored, replayed and sent to another machine. It does not change
// once it is in a book.
type Request struct {
	ID     string
	Parent string // see Lease
	Run    Run    // see Lease
	// ParentFence is the fence of the parent, once that is known: the request is for a
	// child of this lease, and of no later one with the same id.
	ParentFence uint64
	// FromPool means that Parent has to be a pool, from which the lease takes its memory.
	FromPool bool
	Holder   Holder // the future holder; the door determines it and does not believe the client
	Binding  Binding
	TTL      time.Duration

	// TimeLimit is how long the lease lasts at most, from the grant on, however often
	// it is renewed; zero means no limit.
	TimeLimit time.Duration
	Imposed   bool // see Lease; admission sets it
	Unchosen  bool // see Lease; admission sets it

	// Exact lists what the lease has on each device, all of it or nothing: another
	// scheduler has chosen the devices and decided that the request is due. The
	// request never waits, and GPUs, Memory and Slots mean nothing.
	Exact []Part

	GPUs   int     // how many devices, all different; zero means one
	Memory gpu.MiB // on each device; for an exclusive request the most that it gets, which admission sets
	Least  gpu.MiB // on each device, what an exclusive request needs at least; admission sets it
	Slots  int     // on each device

	Where     gpu.Where // what the devices must be
	Only      []string  // UUIDs of the devices that may be used; empty means all
	Preferred string    // UUID of the device to use if the request fits there; may be empty
	Policy    string    // the name of the policy that chooses; empty means the default

	Draw gpu.Opt[gpu.Watts] // what its program added to the power of a device before; absent if not known

	AskedPriority gpu.Opt[int]           // absent means the priority of the service
	Wait          gpu.Opt[time.Duration] // how long to wait for room; absent means as configured

	// Since is when the request began to wait, if that was before it came to the ledger:
	// a job that became eligible, a request that waited at an earlier daemon. Only the
	// daemon sets it, from what it wrote down itself. Zero means now.
	Since time.Time

	By access.Actor // who asks; an administrator may ask for a process of somebody else

	// Limits are those of the holder, as far as the caller knows them; if nil, the
	// ledger finds them.
	Limits *Limits

	Again Again // which lease answers the request if it was made before

	// Precedes means that an operator has set AskedPriority, whoever asks now.
	Precedes bool

	// Repeated means that the client has asked before and got no answer. If the request
	// was granted then, it finds that lease as it is.
	Repeated bool

	// Into is the fence of the existing lease with the same key that the request is
	// for; zero if it is for a new one. A parked lease wants to return; an active one
	// wants Size on each of its devices, and Memory is what that adds. See into.go.
	Into uint64
	Size gpu.MiB
	Why  string // for people; may be empty

	Implied bool // see Lease
	Terms        // of the lease

	// Admission sets these.
	Together  bool      // prefers devices on which its service has leases already
	Priority  int       // higher goes first
	Requested time.Time // when it began to wait, see Since; its age counts from here
	Arrival   uint64    // orders requests of the same time; the book sets it if it is zero
	Deadline  time.Time // when it stops waiting; every request has one
	Groups    []string  // see Lease

	// Absent means that the client has not asked again since the daemon started. The
	// request holds its place in the queue and is not granted. Its Deadline is when it
	// gives up the place; Until is when its client would stop waiting.
	Absent bool
	Until  time.Time
}

// Again selects the lease that a request finds if it was made before. A request with
// exact parts always finds the lease of the same user with its id.
type Again int

// The leases that a request may find.
const (
	Once        Again = iota // none; an id that the user has in use is refused
	SameID                   // the lease of the same user with its id
	SameService              // the lease with the same id, else the oldest one of the same user for the same service, if it is named after that
)

// Object returns the request as the object of access decisions.
func (r *Request) Object() access.Object {
	return access.Of(access.Asked, r.Holder.UID, r.Holder.User)
}

// Devices returns how many devices the request is for.
func (r *Request) Devices() int { return max(r.GPUs, 1) }

// Load returns what the request needs on each of its devices.
func (r *Request) Load() Load {
	if r.Exclusive {
		return Load{Memory: r.Least, Slots: r.Slots}
	}
	return Load{Memory: r.Memory, Slots: r.Slots}
}

// Claim returns what the request leaves to nobody else on each of its devices: its load,
// or more than any device has if it wants them alone.
func (r *Request) Claim() Load {
	if r.Exclusive {
		return queue.Whole
	}
	return r.Load()
}

// Total returns what the request takes over all its devices.
func (r *Request) Total() Usage {
	if r.Exact != nil {
		return totalOf(r.Exact)
	}
	return Usage{r.Memory * gpu.MiB(r.GPUs), r.Slots * r.GPUs}
}

// Lease returns the lease for the request on these devices, ready for Grant.
func (r *Request) Lease(devices ...string) *Lease {
	l := &Lease{
		ID: r.ID, Run: r.Run, Parent: r.Parent, ParentFence: r.ParentFence, Holder: r.Holder, Binding: r.Binding, Implied: r.Implied, TTL: r.TTL, TimeLimit: r.TimeLimit, Imposed: r.Imposed, Unchosen: r.Unchosen, Priority: r.Priority, Groups: r.Groups,
		Terms: r.Terms, By: r.By, Parts: make([]Part, len(devices)),
	}
	for i, d := range devices {
		l.Parts[i] = Part{GPU: d, Memory: r.Memory, Slots: r.Slots}
	}
	return l
}

// ExactLease returns the lease for a request that says exactly what it wants, ready
// for Grant.
func (r *Request) ExactLease() *Lease {
	l := r.Lease()
	l.Parts = slices.Clone(r.Exact)
	return l
}
