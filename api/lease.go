package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Allocate asks for memory under an id that the caller chooses.
type Allocate struct {
	ID       string           `json:"allocation_id" minLength:"1" maxLength:"128" doc:"A name for the lease. No other lease or request of the same user may have it." example:"embedder-1"`
	Memory   gpu.MiB          `json:"memory_mb" minimum:"1" maximum:"1073741824" doc:"How much memory, on one device." example:"4096"`
	GPU      gpu.Ref          `json:"gpu,omitempty" doc:"Index or UUID of the device. Default: the device that suits best."`
	Prefer   gpu.Ref          `json:"prefer,omitempty" doc:"Index or UUID of the device to take if it has room. Default: the preferred device of the service."`
	Policy   string           `json:"policy,omitempty" doc:"How to choose among the devices that fit. Default: the first of these policies."`
	Service  string           `json:"service,omitempty" maxLength:"128" doc:"The service that the lease is for. Its limits and preferences apply."`
	Binding  string           `json:"binding,omitempty" enum:"process,ttl,named" doc:"What ends the lease without a release. Default: ttl if ttl_seconds is given, else the end of the calling process. If the daemon does not know that process, the lease lasts until you deallocate it, and its note says so."`
	PID      int              `json:"pid,omitempty" minimum:"0" doc:"For binding process: the process that holds the lease. Default: the caller."`
	Unit     string           `json:"unit,omitempty" maxLength:"128" doc:"Systemd unit, or id of the container, whose processes belong to the lease if they run as its user. Every process there must be the caller's own. The default of binding is then named." example:"embedder.service"`
	TTL      gpu.Opt[float64] `json:"ttl_seconds,omitzero" doc:"The lease ends this long after the grant unless you renew it."`
	Timeout  gpu.Opt[float64] `json:"timeout_seconds,omitzero" doc:"How long to wait for room. Default: not at all."`
	Wait     bool             `json:"wait,omitempty" doc:"Without timeout_seconds: wait for room as long as allocation_timeout says."`
	Again    string           `json:"again,omitempty" enum:"id,service" doc:"Answer with a lease that you already have, resized if it has another size and renewed if it has a ttl. id: the lease with this id. service: your oldest lease for this service that is named after it, as in embedder or embedder-2. The lease must have the same service and binding, and be on gpu if that is given. Default: refuse an id that is in use."`
	Priority gpu.Opt[int]     `json:"priority,omitzero" doc:"Waiting requests with a higher priority go first. Default: the priority of the service."`

	TimeLimit gpu.Opt[float64] `json:"time_limit_seconds,omitzero" doc:"The lease ends this long after the grant, with its processes, however often it is renewed. Default: longest_time_seconds of the user, or no limit."`
	Parkable  bool             `json:"parkable,omitempty" doc:"Whether berth may park the lease while others wait for its device. Default: as services.NAME.parkable says, else no."`
	Unshared  bool             `json:"unshared,omitempty" doc:"The owner says that the processes of the lease share no GPU memory, with each other or with others. Without that, a lease is parked only if one process uses the GPU alone."`
	Comment   string           `json:"comment,omitempty" maxLength:"256" doc:"A note of yours, for people: at most 256 bytes on one line. Others than operators do not see it." example:"nightly run, ask Ada"`
	Pool      bool             `json:"pool,omitempty" doc:"The lease is a pool: its memory is for leases of yours that name it as from_pool. They get it at once."`
}

// Request returns the same request in the form of [LeaseRequest], which has no Wait and no
// Again.
func (a Allocate) Request() LeaseRequest {
	return LeaseRequest{
		ID: a.ID, Service: a.Service, Memory: a.Memory, Slots: gpu.Some(0), GPU: a.GPU, Prefer: a.Prefer, Policy: a.Policy,
		Binding: a.Binding, PID: a.PID, Unit: a.Unit, TTL: a.TTL, Timeout: a.Timeout, TimeLimit: a.TimeLimit, Priority: a.Priority,
		Parkable: a.Parkable, Unshared: a.Unshared, Comment: a.Comment, Pool: a.Pool,
	}
}

// Deallocate ends a lease, or withdraws a waiting request.
type Deallocate struct {
	ID   string `json:"allocation_id" minLength:"1" maxLength:"128"`
	User string `json:"user,omitempty" maxLength:"256" doc:"Whose it is: login name, uid, token:NAME or cert:NAME. Default: the caller's own, else the only one with this id."`
}

// LeaseRequest asks for slots and memory on one or more devices.
type LeaseRequest struct {
	ID       string           `json:"id,omitempty" maxLength:"128" doc:"A name for the lease. Default: the daemon makes one up."`
	Parent   string           `json:"parent,omitempty" maxLength:"128" doc:"The id of a lease of the same user: this one is a child of it, on the same devices. A child may be for no memory and no slot. If its parent has the memory that it asks for, it takes that from its parent, at once."`
	Service  string           `json:"service,omitempty" maxLength:"128"`
	Name     string           `json:"name,omitempty" maxLength:"128" doc:"What the lease is for, for people."`
	GPUs     int              `json:"gpus,omitempty" minimum:"1" maximum:"1024" default:"1" doc:"How many devices, all different."`
	Memory   gpu.MiB          `json:"memory_mb,omitempty" minimum:"0" maximum:"1073741824" doc:"Memory on each device. 0: slots only."`
	Slots    gpu.Opt[int]     `json:"slots,omitzero" doc:"Slots on each device. Default: 1."`
	GPU      gpu.Ref          `json:"gpu,omitempty" doc:"Index or UUID: this device and no other."`
	Prefer   gpu.Ref          `json:"prefer,omitempty" doc:"Index or UUID of the device to take if it has room. Default: the preferred device of the service."`
	Policy   string           `json:"policy,omitempty" doc:"How to choose among the devices that fit. Default: the first of these policies."`
	Where    string           `json:"where,omitempty" maxLength:"512" doc:"What the device must be like." example:"name~H200,memory>=40GiB"`
	Binding  string           `json:"binding,omitempty" enum:"process,ttl,named" doc:"What ends the lease without a release. Default: ttl if ttl_seconds is given, process if pid is given, else named."`
	PID      int              `json:"pid,omitempty" minimum:"0" doc:"For binding process: the process that holds the lease. Default: the caller."`
	TTL      gpu.Opt[float64] `json:"ttl_seconds,omitzero"`
	Timeout  gpu.Opt[float64] `json:"timeout_seconds,omitzero" doc:"How long to wait for room. Default: allocation_timeout. 0: not at all."`
	Priority gpu.Opt[int]     `json:"priority,omitzero"`
	Learned  bool             `json:"learned_memory,omitempty" doc:"If memory_mb is not given: lease as much as was measured for this name before, plus a margin."`
	Enforce  string           `json:"enforce,omitempty" enum:"auto,mps,framework,watchdog,none" doc:"What enforces the memory limit. auto takes the strongest that is available; it is for a launcher that sets up the environment of the program. Default: watchdog."`
	Unit     string           `json:"unit,omitempty" maxLength:"128" doc:"Systemd unit, or id of the container, whose processes belong to the lease if they run as its user. Every process there must be the caller's own." example:"embedder.service"`
	Scope    []string         `json:"scope,omitempty" maxItems:"256" doc:"Names of control groups: pods (pod and the UID), containers (the id of 64 digits), or systemd units (.service, .scope) whose processes are all of one user, not root. The processes in them belong to the lease, and no others do. For operators."`

	Parts    []LeaseShare `json:"parts,omitempty" maxItems:"256" doc:"Exactly what the lease holds on each device, all or nothing, in place of gpus, memory_mb, slots, gpu, prefer, policy and where. It needs admitted. A request with the id and the parts of a lease that the caller has is answered with that lease, and adds to its scope; with other parts it is refused."`
	Admitted bool         `json:"admitted,omitempty" doc:"Another scheduler has decided that the request is due: neither the queue, nor the multiplier of a device, nor a state that follows from its memory holds it back. Missing memory, quarantine, a drain, a lost device and temp_critical do. The minimum of a service refuses it instead of raising it. It needs parts. For operators."`
	Caps     []string     `json:"caps,omitempty" maxItems:"8" enum:"cupy,jax,torch" doc:"The libraries that launch.environment limits to the memory of the lease, where enforce is auto or framework. Default: all that the daemon knows."`

	Isolation string `json:"isolation,omitempty" enum:"env,cgroup" doc:"What keeps the process of the lease from other GPUs. env: the environment that its launcher makes. cgroup: the daemon moves the process into a control group in which it can open only the leased NVIDIA GPUs, or refuses. A lease with a parent is isolated when it is bound to its process. Default: gpu.isolation if enforce is given, else env."`

	TimeLimit gpu.Opt[float64] `json:"time_limit_seconds,omitzero" doc:"The lease ends this long after the grant, with its processes, however often it is renewed. Default: longest_time_seconds of the user, or no limit."`
	Parkable  bool             `json:"parkable,omitempty" doc:"Whether berth may park the lease while others wait for its device. Default: as services.NAME.parkable says, else no."`
	Unshared  bool             `json:"unshared,omitempty" doc:"The owner says that the processes of the lease share no GPU memory, with each other or with others. Without that, a lease is parked only if one process uses the GPU alone."`
	Optimize  []string         `json:"optimize,omitempty" maxItems:"3" enum:"trim,shrink,park" doc:"For a lease with a scope: what berth may do to it to win memory back. trim: ask its programs for memory that they keep for later; shrink: make it smaller if its programs use less; park: move its memory to the memory of the machine while others wait for its device. Default: nothing."`
	Comment   string           `json:"comment,omitempty" maxLength:"256" doc:"A note of yours, for people: at most 256 bytes on one line. Others than operators do not see it." example:"nightly run, ask Ada"`

	Exclusive bool `json:"exclusive,omitempty" doc:"Each device alone: it is granted where nobody has a lease, and nobody gets one there until it ends, but for its children. Its memory is what can be leased there at the grant; memory_mb is the least that it needs."`
	AllMemory bool `json:"all_memory,omitempty" doc:"In place of memory_mb: all memory of the largest device that suits the request. Others may have leases without memory beside it."`

	Pool     bool   `json:"pool,omitempty" doc:"The lease is a pool on one device: its memory is for leases of the same user that name it as from_pool."`
	FromPool string `json:"from_pool,omitempty" maxLength:"128" doc:"The id of a pool of the same user: the lease takes its memory from there and gives it back when it ends. It is granted at once or refused, whoever waits. It has no slots, and is a child of the pool."`

	ParentFence uint64 `json:"parent_fence,omitempty" doc:"The fence of the parent: a job of the user may run under a lease with the same id as another one of the user, which the id alone means."`
}

// Holds returns how much memory of a part counts for the lease itself: nothing while it is
// parked, and for a pool what the leases from it have not taken. What all leases hold of a
// device adds up to what is leased of it, also after a pool has ended that some of them are
// from.
func (l *Lease) Holds(part int) gpu.MiB {
	switch memory := l.Parts[part].Memory; {
	case l.State == "parked":
		return 0
	case l.Pool != nil:
		return max(memory-l.Pool.Taken, 0)
	default:
		return memory
	}
}

// LeaseShare is the part of a request on one device.
type LeaseShare struct {
	GPU    string  `json:"gpu" minLength:"1" maxLength:"128" doc:"UUID of the device. No other share of the request may have it."`
	Memory gpu.MiB `json:"memory_mb" minimum:"0" maximum:"1073741824"`
	Slots  int     `json:"slots" minimum:"0" maximum:"65536"`
}

// Lease is a claim to slots and memory on one or more devices.
type Lease struct {
	// Only its owner and operators see the fields with the tag sight.

	ID         string      `json:"id"`
	Fence      uint64      `json:"fence" doc:"Grows with every grant. The daemon refuses renewals and releases with an old fence."`
	State      string      `json:"state" enum:"active,parking,parked,resuming,waiting,released" doc:"parking, parked, resuming: its memory is on its way to the memory of the machine, is there, or is on its way back. waiting: a request that holds nothing yet. released: a lease that has just ended."`
	Parent     string      `json:"parent,omitempty" doc:"The id of the lease that this one was made a child of."`
	Holder     Holder      `json:"holder"`
	Binding    string      `json:"binding" enum:"process,ttl,named"`
	Granted    time.Time   `json:"granted,omitzero" doc:"Absent while the request waits."`
	TTL        float64     `json:"ttl_seconds,omitempty"`
	Expires    *time.Time  `json:"expires,omitempty"`
	TimeLimit  float64     `json:"time_limit_seconds,omitempty" doc:"How long the lease lasts at most, from its grant on. Absent: for ever."`
	Ends       *time.Time  `json:"ends,omitempty" doc:"When the time limit ends the lease, with its processes. Absent: it has none."`
	Unchosen   bool        `json:"time_limit_unchosen,omitempty" doc:"Nobody chose the time limit for this lease: it is longest_time_seconds of its user. So it says when the lease ends at the latest, and nothing of when it probably does."`
	Parts      []LeasePart `json:"parts" doc:"What the lease holds on each device."`
	Priority   int         `json:"priority"`
	EnforcedBy string      `json:"enforced_by" enum:"mps,framework,watchdog,none" doc:"What enforces the memory limit."`
	Stood      bool        `json:"stood,omitempty" doc:"The lease is older than this request, which found it by again, or by its id and its parts."`
	Was        gpu.MiB     `json:"was_mb,omitempty" doc:"Memory on each device before this request resized the lease."`
	Note       string      `json:"note,omitempty" sight:"owner" doc:"What the holder should know, for example that the daemon raised the request to the minimum of its service."`
	Waiting    *Waiting    `json:"waiting,omitempty" doc:"The place in the queue, while the request waits."`
	Heir       int         `json:"heir_pid,omitempty" sight:"owner" doc:"The process of the lease has ended, and this descendant of it keeps the lease because it uses a device."`
	Unit       string      `json:"unit,omitempty" sight:"owner" doc:"Systemd unit or container whose processes belong to it."`
	Scope      []string    `json:"scope,omitempty" sight:"owner" doc:"Control groups whose processes belong to it, and no others."`
	Processes  []Belonging `json:"processes,omitempty" doc:"The processes that were last seen on its devices, and why they belong to it; only in the answers that list leases or look one up."`
	Launch     *Launch     `json:"launch,omitempty" doc:"What else a launcher needs to know; only in the answer to a request with enforce."`

	Paced  *Paced              `json:"paced,omitempty" doc:"The share that the lease is held to; absent: it runs freely. Only in the answers that list leases or look one up, and in that of pace."`
	Energy gpu.Opt[gpu.Joules] `json:"energy_joules,omitzero" doc:"How much energy its processes have used, above what the devices draw by themselves. Absent until the daemon has measured it; only in the answers that list leases, look one up or end one."`

	Cancelled   *time.Time   `json:"cancelled,omitempty" doc:"Since when its programs are being ended, and the lease with them, because somebody cancelled it."`
	CancelledBy *CancelledBy `json:"cancelled_by,omitempty" sight:"owner" doc:"Who cancelled it, and why."`

	Parkable bool     `json:"parkable,omitempty" doc:"berth may park the lease while others wait for its device."`
	Unshared bool     `json:"unshared,omitempty" doc:"Its owner says that its processes share no GPU memory."`
	Optimize []string `json:"optimize,omitempty" enum:"trim,shrink,park" doc:"What berth may do to a lease with a scope, to win memory back."`
	Parking  *Parking `json:"parking,omitempty" doc:"What became of its memory on the device, if the lease was ever parked; only in the answers that list leases or look one up, and in those of park and resume."`
	Idle     *Idle    `json:"idle,omitempty" doc:"Since when its processes have not used their devices, and how that is known. Absent: they do, or nobody looks. Only in the answers that list leases or look one up."`
	Asked    gpu.MiB  `json:"asked_mb,omitempty" doc:"Memory on each device that it had before an optimization shrank it. Absent: it was not shrunk."`

	Comment string `json:"comment,omitempty" sight:"owner" doc:"The note that its holder gave with the request. Only the holder and operators see it."`

	Exclusive bool `json:"exclusive,omitempty" doc:"It has its devices alone: nobody else gets a lease there until it ends."`

	Pool     *Pool  `json:"pool,omitempty" doc:"The lease is a pool, and this is what became of its memory."`
	FromPool string `json:"from_pool,omitempty" doc:"The pool that its memory is from."`

	Libraries *LibraryReport `json:"libraries,omitempty" sight:"owner" doc:"What its programs say that their libraries hold. Absent: none has said anything. Only in the answers that list leases or look one up."`

	IsolatedBy string `json:"isolated_by,omitempty" enum:"cgroup" doc:"cgroup: its process can open only the leased GPUs. Absent: nothing but its environment keeps it from the others."`
}

// Pool says what became of the memory of a pool.
type Pool struct {
	Taken  gpu.MiB `json:"taken_mb" doc:"Memory of the leases that took theirs from the pool."`
	Left   gpu.MiB `json:"left_mb" doc:"Memory that another one can have."`
	Leases int     `json:"leases" doc:"How many there are."`
}

// Launch has everything besides the lease that a launcher needs to make the environment
// of a program.
type Launch struct {
	Context gpu.MiB      `json:"context_mb" doc:"How much memory of the lease a CUDA context takes."`
	Devices []gpu.Device `json:"devices" doc:"The devices of the parts of the lease, in the same order."`
	Compute int          `json:"compute_percent,omitempty" doc:"Share of the multiprocessors that the service of the lease has, if MPS enforces the lease; 0: all."`
	MPS     string       `json:"mps_pipe_directory,omitempty" doc:"The directory in which the MPS daemon of the device listens, if MPS enforces the lease."`

	Isolation   string   `json:"isolation,omitempty" enum:"env,cgroup" doc:"What keeps the program from other GPUs. For cgroup and a lease with a parent, the launcher has to say so when it binds the lease."`
	Environment []string `json:"environment,omitempty" doc:"The environment of a program under the lease, each variable as NAME=VALUE: which devices it sees, which lease it has, and what holds the libraries of caps to its memory. In the answer to a request with caps, and to launch=true." example:"XLA_PYTHON_CLIENT_PREALLOCATE=false"`
	Receipt     string   `json:"receipt,omitempty" doc:"What holds the program to its memory, in one sentence. Present with environment."`

	ClearedBy string `json:"cleared_by,omitempty" doc:"Who clears the memory of the devices between two programs, and when that was checked; not checked: nobody looked." example:"driver, checked 2026-11-15"`
}

// LeasePart is the part of a lease on one device.
type LeasePart struct {
	GPU      string           `json:"gpu"`
	Index    gpu.Opt[int]     `json:"index,omitzero" doc:"Index of the device, for people; only in the answer of /api/gpu/memory/allocate."`
	Memory   gpu.MiB          `json:"memory_mb"`
	Slots    int              `json:"slots"`
	Measured gpu.Opt[gpu.MiB] `json:"measured_mb,omitzero" doc:"How much memory its processes really use there; absent until the daemon has seen them."`
}

// Belonging is a process on a device that belongs to a lease.
type Belonging struct {
	GPU      string  `json:"gpu" doc:"UUID of the device."`
	PID      int     `json:"pid" doc:"0 for a process of another user, unless an operator asks."`
	Name     string  `json:"name,omitempty"`
	Memory   gpu.MiB `json:"memory_mb" doc:"What it uses there. If it is charged to several leases, each of them lists it."`
	Evidence string  `json:"evidence" enum:"scope,descent,environment,unit,service,program" doc:"Why it belongs to the lease: it is in the scope; it holds the lease or descends from the holder; it has the id and the fence in its environment; it runs in the unit; it is as services.NAME.match says; it runs as the user of the lease and is called like it."`

	Ancestors []Ancestor `json:"ancestors,omitempty" doc:"Its ancestors up to the process that holds the lease, the nearest first. Only in the answer that looks one lease up, and absent if it does not descend from the holder."`
}

// Ancestor is a process between the holder of a lease and a process on a device.
type Ancestor struct {
	PID  int    `json:"pid"`
	Name string `json:"name,omitempty"`
}

// Holder is the user, the service and the process that have a lease. User and UID
// come from the credentials of the connection, never from what a caller says.
type Holder struct {
	Service string       `json:"service,omitempty"`
	Name    string       `json:"name,omitempty"`
	User    string       `json:"user,omitempty"`
	UID     gpu.Opt[int] `json:"uid,omitzero"`
	PID     int          `json:"pid,omitempty"`
}

// Leases lists all leases and all waiting requests.
type Leases struct {
	Leases  []Lease   `json:"leases" doc:"The oldest grant first."`
	Waiting []Waiting `json:"waiting" doc:"In the order of the queue. An answer with a limit has leases first, and then the requests that have waited longest."`
	More
}

// Waiting is a request in the queue.
type Waiting struct {
	ID        string     `json:"id"`
	Position  int        `json:"position" doc:"1 is next."`
	Since     time.Time  `json:"since"`
	Deadline  *time.Time `json:"deadline,omitempty"`
	Holder    Holder     `json:"holder"`
	GPUs      int        `json:"gpus"`
	Memory    gpu.MiB    `json:"memory_mb"`
	Slots     int        `json:"slots"`
	Priority  int        `json:"priority"`
	Exclusive bool       `json:"exclusive,omitempty" doc:"It waits for devices that it has alone; memory_mb is then the most that it gets."`
	For       string     `json:"for,omitempty" enum:"resume,resize" doc:"The request is for a lease that there is: to resume it, or to make it larger. Absent: for a new one."`

	Limit string `json:"limit,omitempty" enum:"user,group,service" doc:"It waits for this limit, however much room there is: that of its user, of a group together, or the quota of its service. Absent: it waits for a GPU, or for its turn."`

	Estimate *Estimate `json:"estimate,omitempty" doc:"When it will probably be granted. Absent: the queue is too long to look ahead."`
}

// NewID asks for an id that no lease has had.
type NewID struct {
	Name string `json:"name" minLength:"1" maxLength:"100" doc:"What the id begins with." example:"train"`
}

// MadeID is an id that the daemon made.
type MadeID struct {
	ID string `json:"id" doc:"The name, a dash, and a number that the daemon gives out once." example:"train-17"`
}

// LibraryMemory is the memory that a library has on the devices of a lease, as the program
// says.
type LibraryMemory struct {
	Name      string  `json:"name" minLength:"1" maxLength:"32" pattern:"^[a-z][a-z0-9_.-]*$" example:"torch"`
	Allocated gpu.MiB `json:"allocated_mb" minimum:"0" doc:"Memory that arrays of the program take."`
	Cached    gpu.MiB `json:"cached_mb" minimum:"0" doc:"Memory that the library keeps for later, and that a trim gives back."`
}

// Libraries says what the libraries of a program hold.
type Libraries struct {
	Fence     uint64          `json:"fence,omitempty" doc:"The fence of the lease. Absent: that of the lease with this id now."`
	Libraries []LibraryMemory `json:"libraries" maxItems:"16"`
}

// LibraryReport is what the programs of a lease say that their libraries hold, summed up.
type LibraryReport struct {
	Time      time.Time       `json:"time" doc:"When the newest of them said it."`
	Libraries []LibraryMemory `json:"libraries"`
}

// Renew extends a lease that has a time to live.
type Renew struct {
	Fence uint64           `json:"fence" doc:"The fence of the lease."`
	TTL   gpu.Opt[float64] `json:"ttl_seconds,omitzero" doc:"How long the lease lasts from now on. Default: as long as before."`
}

// Bind binds a lease of one process to another process.
type Bind struct {
	PID   int    `json:"pid" minimum:"1" maximum:"2147483647" doc:"The process that holds the lease from now on. It must be the caller's own."`
	Fence uint64 `json:"fence,omitempty" doc:"Only if the lease still has this fence. Default: any fence."`

	Isolation string `json:"isolation,omitempty" enum:"env,cgroup" doc:"cgroup: move the process into a control group in which it can open only the leased NVIDIA GPUs. Default: env, which does nothing."`
}

// Rescope changes the control groups by which the daemon recognizes the processes of a
// lease.
type Rescope struct {
	Fence  uint64   `json:"fence,omitempty" doc:"Only if the lease still has this fence. Default: whichever it has."`
	Add    []string `json:"add,omitempty" maxItems:"256" doc:"Names of control groups, as in scope of a request for a lease."`
	Remove []string `json:"remove,omitempty" maxItems:"256" doc:"Names to take out. Without any left, the lease takes processes by other evidence again."`
}

// Resize gives a lease another amount of memory.
type Resize struct {
	Memory gpu.MiB `json:"memory_mb" minimum:"1" maximum:"1073741824" doc:"Memory on each device."`
	Fence  uint64  `json:"fence,omitempty" doc:"Only if the lease still has this fence. Default: any fence."`

	Timeout gpu.Opt[float64] `json:"timeout_seconds,omitzero" doc:"How long to wait for room, if the lease gets larger. Default: not at all."`
}

// Release ends a lease, or withdraws a waiting request, over the lease stream.
type Release struct {
	ID    string `json:"id" minLength:"1" maxLength:"512"`
	User  string `json:"user,omitempty" maxLength:"256" doc:"Whose it is. Default: the caller's own, else the only one with this id."`
	Fence uint64 `json:"fence,omitempty" doc:"Only if the lease still has this fence. Default: any fence."`

	KeepRunning bool `json:"keep_running,omitempty" doc:"The program of the lease may go on without it. Otherwise, without a fence, the release of a lease that is bound to a process is refused while that process lives, unless it, one of its ancestors or one of its descendants asks."`
}

// Cancel ends the programs of a lease, and the lease with them.
type Cancel struct {
	Fence uint64 `json:"fence,omitempty" doc:"Only if the lease still has this fence. Default: any fence."`
	Why   string `json:"reason,omitempty" maxLength:"256" doc:"What its user and operators read about it."`
}

// CancelledBy says who cancelled a lease.
type CancelledBy struct {
	By  gpu.By `json:"by,omitzero" doc:"Absent: berth itself."`
	Why string `json:"reason,omitempty"`
}

// Renewal extends a lease that has a time to live, over the lease stream.
type Renewal struct {
	ID    string           `json:"id" minLength:"1" maxLength:"512"`
	User  string           `json:"user,omitempty" maxLength:"256" doc:"Whose it is. Default: the caller's own, else the only one with this id."`
	Fence uint64           `json:"fence" doc:"The fence of the lease."`
	TTL   gpu.Opt[float64] `json:"ttl_seconds,omitzero" doc:"How long the lease lasts from now on. Default: as long as before."`
}

// Adopt puts a process that already runs under a lease.
type Adopt struct {
	PID     int     `json:"pid" minimum:"1"`
	ID      string  `json:"id,omitempty" maxLength:"128"`
	Service string  `json:"service,omitempty" maxLength:"128"`
	GPU     gpu.Ref `json:"gpu,omitempty" doc:"Index or UUID of the device. Default: the devices that the process uses."`
	Memory  gpu.MiB `json:"memory_mb,omitempty" minimum:"0" maximum:"1073741824" doc:"Memory on each device. Default: what the process uses now, plus a margin if there is room for one."`
}

// Explanation says whether a request would be granted, and what is in its way.
type Explanation struct {
	Fits        bool       `json:"fits" doc:"Whether the request would be granted now."`
	Possible    bool       `json:"possible" doc:"Whether the request would be granted if nobody else used this machine."`
	Text        string     `json:"text" doc:"The explanation in a sentence or two."`
	Position    int        `json:"position,omitempty" doc:"The position of the request in the queue, if it waits."`
	Devices     []Obstacle `json:"devices" doc:"What is in the way, each device once."`
	LargestNow  gpu.MiB    `json:"largest_now_mb" doc:"The most memory that would be granted now."`
	LargestEver gpu.MiB    `json:"largest_ever_mb" doc:"The most memory that would be granted if nobody else used this machine."`
	Behind      []string   `json:"behind,omitempty" doc:"The requests ahead of it in the queue."`
	Hint        string     `json:"hint,omitempty" doc:"What to do."`
	Limit       string     `json:"limit,omitempty" enum:"user,group,service" doc:"It waits, or would wait, for this limit, however much room there is: that of its user, of a group together, or the quota of its service."`
	Estimate    *Estimate  `json:"estimate,omitempty" doc:"When the request will probably be granted, if it waits or would wait."`
	Policy      string     `json:"policy,omitempty" doc:"The policy that chooses among the devices that fit."`
	Ranking     []Ranked   `json:"ranking" doc:"Every device: those that fit in the order in which they would be taken, then the others. A request for several devices gets those with the best links, among equals the first."`
	Grant       *Lease     `json:"grant,omitempty" doc:"If the request fits: the lease that it would get. Nobody holds this lease."`
}

// Obstacle says what is in the way of a request on one device.
type Obstacle struct {
	GPU     string        `json:"gpu"`
	Code    string        `json:"code"`
	Also    []string      `json:"also,omitempty" doc:"The codes of further reasons, if there are several."`
	Text    string        `json:"text"`
	Holders []HolderUntil `json:"holders,omitempty" doc:"The leases on the device."`

	Foreign     gpu.MiB `json:"foreign_mb,omitempty" doc:"How much memory of the device processes under no lease use, if that is in the way."`
	ForeignPIDs []int   `json:"foreign_pids,omitempty" doc:"Those processes."`
}

// Ranked says how a device ranks for a request, with the numbers that decide.
type Ranked struct {
	GPU       string    `json:"gpu"`
	Index     int       `json:"index"`
	Rank      int       `json:"rank,omitempty" doc:"1 is taken first; absent: the device does not fit."`
	Why       string    `json:"why,omitempty" doc:"Why it does not fit, or why cooler devices come before it."`
	Code      string    `json:"code,omitempty" doc:"The kind of that reason, as in devices."`
	Preferred bool      `json:"preferred,omitempty" doc:"The request or its service prefers the device."`
	Replicas  int       `json:"replicas" doc:"Leases of the same service that are on the device."`
	Active    int       `json:"active" doc:"Slots in use."`
	Usable    int       `json:"usable" doc:"Slots that may be in use in its present state."`
	Available gpu.MiB   `json:"available_mb" doc:"What can be leased now; negative if more is used than there should be."`
	State     gpu.State `json:"state"`

	Utilization gpu.Opt[gpu.Percent] `json:"recent_utilization_percent,omitzero" doc:"Average of the last minute, in which newer samples weigh more; policies compare it in steps of 10. Absent: not measured."`
	Temperature gpu.Opt[gpu.Celsius] `json:"recent_temperature_celsius,omitzero" doc:"Average likewise; policies compare it in steps of 5 from 50 on. Absent: not measured."`
	Settles     gpu.Opt[gpu.Celsius] `json:"settles_celsius,omitzero" doc:"Where the temperature ends with the request on the device, by the power that its program drew before, or at the present power if that is not known. Absent: not known."`
}

// HolderUntil is a lease that is in the way, with its end if that is known.
type HolderUntil struct {
	Lease    string     `json:"lease"`
	Holder   Holder     `json:"holder"`
	Memory   gpu.MiB    `json:"memory_mb"`
	Slots    int        `json:"slots"`
	Until    *time.Time `json:"until,omitempty"`
	Unused   string     `json:"unused,omitempty" doc:"How it does not use what it holds, in words." example:"has not used its GPU for 40 min"`
	Parkable bool       `json:"parkable,omitempty" doc:"berth may park the lease to make room."`
	Kept     string     `json:"kept,omitempty" doc:"Why berth does not park it now, although it is parkable."`
}

// Ended says what was released, withdrawn or cancelled.
type Ended struct {
	ID    string `json:"id"`
	Lease *Lease `json:"lease,omitempty" doc:"The lease as it was at its end; for a cancel, the lease that ends now, which is that of the runner for a lease of a batch. Absent for a request that waited."`
}

// PastLeases lists leases that have ended.
type PastLeases struct {
	Leases []PastLease `json:"leases" doc:"The newest end first. The daemon keeps the last 2,000 leases, and at most 500 of one user."`
	More
}

// PastLease is a lease that has ended.
type PastLease struct {
	ID      string      `json:"id"`
	Fence   uint64      `json:"fence"`
	Holder  Holder      `json:"holder"`
	Binding string      `json:"binding" enum:"process,ttl,named"`
	Granted time.Time   `json:"granted"`
	Ended   time.Time   `json:"ended"`
	How     string      `json:"how" enum:"released,expired,revoked"`
	Why     string      `json:"why,omitempty" doc:"Why the lease ended; only for its user and operators."`
	By      string      `json:"by,omitempty" doc:"The user who ended the lease; only for its user and operators. Absent if the daemon did."`
	Parts   []LeasePart `json:"parts" doc:"What the lease held on each device."`
	Peak    gpu.MiB     `json:"peak_mb" doc:"The most memory that its processes were measured to use on one device; 0: nothing was measured."`

	Energy gpu.Opt[gpu.Joules] `json:"energy_joules,omitzero" doc:"How much energy its processes used, above what the devices draw by themselves. Absent: nothing was measured."`

	FromPool string `json:"from_pool,omitempty" doc:"The pool that its memory was from."`
}

// Pace holds a lease to a share of what it would get of its devices.
type Pace struct {
	Share float64 `json:"share" minimum:"0.05" maximum:"1" doc:"From 0.05 to 1. 1 lets the lease run freely." example:"0.5"`
	Fence uint64  `json:"fence,omitempty" doc:"Only if the lease still has this fence."`
	Why   string  `json:"reason,omitempty" maxLength:"256" doc:"What people read about it."`
}

// Paced says what share a lease is held to, and what it really gets.
type Paced struct {
	Share      float64          `json:"share" doc:"The least of the shares that somebody holds it to."`
	Measured   gpu.Opt[float64] `json:"measured,omitzero" doc:"What it gets of what it would get without pauses; absent in the first seconds."`
	MeasuredBy string           `json:"measured_by,omitempty" enum:"driver,duty" doc:"driver: the driver measures how much of its time the device works for each process. duty: it does not, and measured is the share of the time that the processes run."`
	HeldBy     []PacedBy        `json:"held_by" doc:"Who holds it to a share, the least share first."`
	Since      time.Time        `json:"since"`
	Refused    string           `json:"refused,omitempty" doc:"Why its processes are not stopped, so that it runs freely; absent: they are."`
}

// PacedBy is one party that holds a lease to a share.
type PacedBy struct {
	Share  float64 `json:"share"`
	Source string  `json:"source" enum:"owner,operator,throttle,service" doc:"owner: whoever owns the lease. operator: an operator. throttle: berth itself, because of gpu.throttle. service: berth itself, because of the compute of its service."`
	By     gpu.By  `json:"by,omitzero" doc:"Who asked for it. Absent: berth itself."`
	Why    string  `json:"reason,omitempty"`
}
