package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Allocate asks for memory under an id of the caller's choice.
type Allocate struct {
	ID       string           `json:"allocation_id" minLength:"1" maxLength:"128" doc:"A name for the lease, not in use by another." example:"embedder-1"`
	Memory   gpu.MiB          `json:"memory_mb" minimum:"1" maximum:"1073741824" doc:"How much, on one device." example:"4096"`
	GPU      string           `json:"gpu,omitempty" maxLength:"128" doc:"Index or UUID of the device. Default: the one that suits best."`
	Service  string           `json:"service,omitempty" maxLength:"128" doc:"The service it is for; its limits and preferences hold."`
	TTL      gpu.Opt[float64] `json:"ttl_seconds,omitzero" doc:"The lease ends this long after the grant unless it is renewed. Default: it stands until it is deallocated."`
	Timeout  gpu.Opt[float64] `json:"timeout_seconds,omitzero" doc:"How long to wait for room. Default: not at all."`
	Priority gpu.Opt[int]     `json:"priority,omitzero" doc:"Higher goes first among those who wait. Default: the priority of the service."`
}

// Deallocate ends a lease, or withdraws a request that waits.
type Deallocate struct {
	ID string `json:"allocation_id" minLength:"1" maxLength:"128"`
}

// LeaseRequest asks for slots and memory on one or more devices.
type LeaseRequest struct {
	ID       string           `json:"id,omitempty" maxLength:"128" doc:"A name for the lease. Default: one is made up."`
	Service  string           `json:"service,omitempty" maxLength:"128"`
	Name     string           `json:"name,omitempty" maxLength:"128" doc:"What it is for, for people."`
	GPUs     int              `json:"gpus,omitempty" minimum:"1" maximum:"1024" default:"1" doc:"How many devices, all different."`
	Memory   gpu.MiB          `json:"memory_mb,omitempty" minimum:"0" maximum:"1073741824" doc:"On each device. 0: a slot only."`
	Slots    gpu.Opt[int]     `json:"slots,omitzero" doc:"On each device. Default: 1."`
	GPU      string           `json:"gpu,omitempty" maxLength:"128" doc:"Index or UUID: this device and no other."`
	Policy   string           `json:"policy,omitempty" doc:"How to choose among the devices that fit. Default: the first of these."`
	Where    string           `json:"where,omitempty" maxLength:"512" doc:"What the device must be like." example:"name~H200,memory>=40GiB"`
	Binding  string           `json:"binding,omitempty" enum:"process,ttl,named" doc:"What ends the lease by itself. Default: ttl if ttl_seconds is given, process if pid is, else named."`
	PID      int              `json:"pid,omitempty" minimum:"0" doc:"For process: the process that holds it. Default: the caller."`
	TTL      gpu.Opt[float64] `json:"ttl_seconds,omitzero"`
	Timeout  gpu.Opt[float64] `json:"timeout_seconds,omitzero" doc:"How long to wait for room. Default: allocation_timeout; 0 is not at all."`
	Priority gpu.Opt[int]     `json:"priority,omitzero"`
	Learned  bool             `json:"learned_memory,omitempty" doc:"If memory_mb is not given: as much as was measured for this name before, and a margin."`
	Enforce  string           `json:"enforce,omitempty" enum:"auto,mps,framework,watchdog,none" doc:"Who shall hold the holder to its memory. auto is for a launcher that sets up the environment of the program: the strongest there is. Default: what berth does by itself, the watchdog."`
}

// Lease is slots and memory that somebody holds.
type Lease struct {
	ID         string      `json:"id"`
	Fence      uint64      `json:"fence" doc:"Grows with every grant; renewals and releases with an old one are refused."`
	State      string      `json:"state" enum:"active,parked,waiting,released" doc:"waiting: nothing is held yet. released: it was, until now."`
	Holder     Holder      `json:"holder"`
	Binding    string      `json:"binding" enum:"process,ttl,named"`
	Granted    time.Time   `json:"granted,omitzero" doc:"Absent while it waits."`
	TTL        float64     `json:"ttl_seconds,omitempty"`
	Expires    *time.Time  `json:"expires,omitempty"`
	Parts      []LeasePart `json:"parts" doc:"What is held on each device."`
	Priority   int         `json:"priority"`
	EnforcedBy string      `json:"enforced_by" enum:"mps,framework,watchdog,none" doc:"Who makes sure that no more memory is used than was leased."`
	Note       string      `json:"note,omitempty" doc:"What the holder should know, such as that the request was raised to the minimum of its service."`
	Waiting    *Waiting    `json:"waiting,omitempty" doc:"Its place in the queue, while it waits."`
	Heir       int         `json:"heir_pid,omitempty" doc:"The process that it was bound to has ended, and this descendant of it keeps the lease, because it uses a device."`
	Launch     *Launch     `json:"launch,omitempty" doc:"What a launcher needs to know beside; only in the answer to a request that says who shall enforce it."`
}

// Launch is what the environment of a program under a lease is made from,
// beside the lease itself.
type Launch struct {
	Context gpu.MiB      `json:"context_mb" doc:"What a CUDA context takes of the memory of the lease."`
	Devices []gpu.Device `json:"devices" doc:"The devices of its parts, in their order."`
	MPS     string       `json:"mps_pipe_directory,omitempty" doc:"Where the MPS daemon for its device listens, if the lease is enforced by it."`
}

// LeasePart is what a lease holds on one device.
type LeasePart struct {
	GPU      string           `json:"gpu"`
	Index    gpu.Opt[int]     `json:"index,omitzero" doc:"Index of the device, which is what people call it; only in the answer to /api/gpu/memory/allocate."`
	Memory   gpu.MiB          `json:"memory_mb"`
	Slots    int              `json:"slots"`
	Measured gpu.Opt[gpu.MiB] `json:"measured_mb,omitzero" doc:"What its processes really use there; absent before they were seen."`
}

// Holder is who has a lease. User and UID come from the credentials of the
// connection, never from what a caller says of itself.
type Holder struct {
	Service string       `json:"service,omitempty"`
	Name    string       `json:"name,omitempty"`
	User    string       `json:"user,omitempty"`
	UID     gpu.Opt[int] `json:"uid,omitzero"`
	PID     int          `json:"pid,omitempty"`
}

// Leases is who holds what, and who waits.
type Leases struct {
	Leases  []Lease   `json:"leases"`
	Waiting []Waiting `json:"waiting" doc:"In the order in which they will be served."`
}

// Waiting is a request in the queue.
type Waiting struct {
	ID       string     `json:"id"`
	Position int        `json:"position" doc:"1 is next."`
	Since    time.Time  `json:"since"`
	Deadline *time.Time `json:"deadline,omitempty"`
	Holder   Holder     `json:"holder"`
	GPUs     int        `json:"gpus"`
	Memory   gpu.MiB    `json:"memory_mb"`
	Slots    int        `json:"slots"`
	Priority int        `json:"priority"`
}

// Renew makes a lease last for another while.
type Renew struct {
	Fence uint64           `json:"fence" doc:"As it came with the lease."`
	TTL   gpu.Opt[float64] `json:"ttl_seconds,omitzero" doc:"Default: as before."`
}

// Bind hands a lease that is bound to a process to another process.
type Bind struct {
	PID   int    `json:"pid" minimum:"1" maximum:"2147483647" doc:"The process that holds it from now on: one of the caller's own."`
	Fence uint64 `json:"fence,omitempty" doc:"Only if the lease still has this fence. Default: whichever it has."`
}

// Release ends a lease over the lease stream, or withdraws a request that waits.
type Release struct {
	ID    string `json:"id" minLength:"1" maxLength:"512"`
	Fence uint64 `json:"fence,omitempty" doc:"Only if the lease still has this fence. Default: whichever it has."`
}

// Renewal makes a lease last for another while, over the lease stream.
type Renewal struct {
	ID    string           `json:"id" minLength:"1" maxLength:"512"`
	Fence uint64           `json:"fence" doc:"As it came with the lease."`
	TTL   gpu.Opt[float64] `json:"ttl_seconds,omitzero" doc:"Default: as before."`
}

// Adopt puts a process that already runs under a lease.
type Adopt struct {
	PID     int     `json:"pid" minimum:"1"`
	ID      string  `json:"id,omitempty" maxLength:"128"`
	Service string  `json:"service,omitempty" maxLength:"128"`
	GPU     string  `json:"gpu,omitempty" maxLength:"128" doc:"Default: the devices it is seen on."`
	Memory  gpu.MiB `json:"memory_mb,omitempty" minimum:"0" maximum:"1073741824" doc:"Default: what it uses now, and a margin where there is room for it."`
}

// Explanation says what stands in the way of a request.
type Explanation struct {
	Fits        bool       `json:"fits" doc:"It would be granted now."`
	Possible    bool       `json:"possible" doc:"It could be granted on this machine if nobody else were there."`
	Text        string     `json:"text" doc:"The whole in a sentence or two."`
	Position    int        `json:"position,omitempty" doc:"Its place in the queue, if it waits."`
	Devices     []Obstacle `json:"devices" doc:"What stands in the way on each device."`
	LargestNow  gpu.MiB    `json:"largest_now_mb" doc:"The most memory that would be granted now."`
	LargestEver gpu.MiB    `json:"largest_ever_mb" doc:"The most that could ever be."`
	Behind      []string   `json:"behind,omitempty" doc:"Requests that are served first."`
	Hint        string     `json:"hint,omitempty" doc:"What to do."`
	Grant       *Lease     `json:"grant,omitempty" doc:"If it fits, what it would get. Nobody holds it."`
}

// Obstacle is what stands in the way on one device.
type Obstacle struct {
	GPU     string        `json:"gpu"`
	Code    string        `json:"code"`
	Text    string        `json:"text"`
	Holders []HolderUntil `json:"holders,omitempty" doc:"Who holds it."`

	Foreign     gpu.MiB `json:"foreign_mb,omitempty" doc:"What processes under no lease use of it, where that is in the way."`
	ForeignPIDs []int   `json:"foreign_pids,omitempty" doc:"Those processes."`
}

// HolderUntil is a lease in the way, and when it ends if that is known.
type HolderUntil struct {
	Lease  string     `json:"lease"`
	Holder Holder     `json:"holder"`
	Memory gpu.MiB    `json:"memory_mb"`
	Slots  int        `json:"slots"`
	Until  *time.Time `json:"until,omitempty"`
}

// Ended is what was released or withdrawn.
type Ended struct {
	ID    string `json:"id"`
	Lease *Lease `json:"lease,omitempty" doc:"As it was at the end; absent for a request that waited."`
}
