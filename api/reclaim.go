package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Park moves the memory of a lease to the memory of the machine.
type Park struct {
	Fence uint64 `json:"fence,omitempty" doc:"Only if the lease still has this fence. Default: any fence."`
	Why   string `json:"reason,omitempty" maxLength:"256" doc:"What people read about it."`

	Unshared bool `json:"unshared,omitempty" doc:"The processes of the lease share no GPU memory, with each other or with others. Only its owner can say that."`
}

// Resume moves the memory of a parked lease back to its device.
type Resume struct {
	Fence   uint64           `json:"fence,omitempty" doc:"Only if the lease still has this fence. Default: any fence."`
	Why     string           `json:"reason,omitempty" maxLength:"256" doc:"What people read about it."`
	Timeout gpu.Opt[float64] `json:"timeout_seconds,omitzero" doc:"How long to wait for room. Default: allocation_timeout. 0: not at all."`
}

// Parking says how and why the memory of a lease was parked or resumed.
type Parking struct {
	Since   time.Time `json:"since" doc:"When its present state began: parking, parked, resuming, or active again."`
	By      gpu.By    `json:"by,omitzero" doc:"Who asked for that. Absent: berth itself."`
	Why     string    `json:"reason,omitempty"`
	Host    gpu.MiB   `json:"host_mb,omitempty" doc:"Memory of the machine that it takes while it is parked."`
	Returns bool      `json:"returns,omitempty" doc:"It waits in the queue to be resumed. Absent for a parked lease: it stays parked until somebody resumes it."`
	Times   int       `json:"times" doc:"How often it was parked."`
	Moving  float64   `json:"moving_seconds" doc:"How long moving its memory has taken in all."`
	Ground  string    `json:"unshared_by,omitempty" enum:"alone,owner" doc:"How it was known, when it was last parked, that its processes share no GPU memory. alone: one process used the device; owner: its owner or its service says so."`
	Failed  string    `json:"failed,omitempty" doc:"What went wrong last, and what to do."`
}

// Idle is the evidence that the processes of a lease do not use their devices.
type Idle struct {
	Since       time.Time            `json:"since"`
	Utilization gpu.Opt[gpu.Percent] `json:"utilization_percent,omitzero" doc:"What its processes had of their devices since then; absent: the driver does not measure it, and the lease never counts as idle."`
	Memory      gpu.MiB              `json:"memory_mb" doc:"What they hold, unchanged since then."`
}

// Optimize asks for memory back.
type Optimize struct {
	Service string `json:"service,omitempty" maxLength:"128" doc:"Only leases of this service. Default: all that the caller may change."`
	DryRun  bool   `json:"dry_run,omitempty" doc:"Only say what would be done."`
}

// Optimization says what an optimization did, rung by rung.
type Optimization struct {
	DryRun  bool        `json:"dry_run,omitempty"`
	Service string      `json:"service,omitempty"`
	Began   time.Time   `json:"began"`
	Took    float64     `json:"took_seconds"`
	Rungs   []Rung      `json:"rungs" doc:"In the order in which they were tried: dead, orphans, trim, shrink, park, move."`
	Devices []Reclaimed `json:"devices" doc:"Every device, before and after."`
}

// Rung is one way to get memory back.
type Rung struct {
	Name  string     `json:"name" enum:"dead,orphans,trim,shrink,park,move"`
	Freed gpu.MiB    `json:"freed_mb" doc:"How much less memory its devices had in use afterwards than before, as measured; for shrink: how much more could be leased. Never an estimate. 0 in a dry run."`
	Took  float64    `json:"took_seconds"`
	Done  []RungStep `json:"done" doc:"What was done, or would be in a dry run."`
	Left  []RungStep `json:"left" doc:"What was left alone, and why."`
}

// RungStep says what a rung did to one lease or process, or why it left it alone.
type RungStep struct {
	Lease  string  `json:"lease,omitempty"`
	User   string  `json:"user,omitempty"`
	PID    int     `json:"pid,omitempty" doc:"0 for a process of another user, unless an operator asks."`
	GPU    string  `json:"gpu,omitempty" doc:"UUID."`
	Text   string  `json:"text" doc:"One sentence for people."`
	Before gpu.MiB `json:"before_mb" doc:"What was measured for it before; for shrink: what it had leased."`
	After  gpu.MiB `json:"after_mb" doc:"The same, afterwards."`
	Move   *Move   `json:"move,omitempty" doc:"For move: the proposal."`
}

// Move proposes to move a lease to another device, which makes room for a request
// that waits.
type Move struct {
	From     string  `json:"from" doc:"UUID of the device that it is on."`
	To       string  `json:"to" doc:"UUID of the device that has room for it."`
	Memory   gpu.MiB `json:"memory_mb" doc:"What would be moved."`
	For      string  `json:"for" doc:"The waiting request that would fit then."`
	Restarts bool    `json:"restarts" doc:"Its program has to be started again: a process cannot take its memory to another device."`
	Service  string  `json:"service,omitempty" doc:"The service whose program berth runs under the lease: berth move moves it (POST /api/services/{name}/move). Absent: whoever started the program starts it again."`
	Takes    float64 `json:"takes_seconds,omitempty" doc:"How long it takes the service to stop and to start, as measured. Absent: it has not done both yet."`
}

// Reclaimed says what an optimization changed on one device.
type Reclaimed struct {
	GPU             string  `json:"gpu"`
	UsedBefore      gpu.MiB `json:"used_before_mb"`
	UsedAfter       gpu.MiB `json:"used_after_mb"`
	AvailableBefore gpu.MiB `json:"available_before_mb" doc:"What could be leased."`
	AvailableAfter  gpu.MiB `json:"available_after_mb"`
}
