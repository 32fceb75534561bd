// Package move has the words in which the memory of processes is moved off a device
// and back: the steps, the states that a driver tells, the lines in which a daemon
// and its helper process speak about them, and where the memory of a lease is.
//
// Pure: no clock, no I/O.
package move

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Step is one action of the driver on a process.
type Step string

// The steps, in the order in which they are taken: the first two park a process,
// the last two resume it.
const (
	Lock       Step = "lock"       // its calls to the driver wait from now on
	Checkpoint Step = "checkpoint" // its memory moves to the memory of the machine
	Restore    Step = "restore"    // its memory moves back
	Unlock     Step = "unlock"     // its calls go on
)

// Steps lists the steps in their order.
func Steps() []Step { return []Step{Lock, Checkpoint, Restore, Unlock} }

// State is the state of a process, as the driver tells it.
type State string

// The states.
const (
	Running      State = "running"
	Locked       State = "locked"
	Checkpointed State = "checkpointed"
	Failed       State = "failed"  // the driver gave it up
	Without      State = "without" // it does not use the driver, so there is nothing to move
	Gone         State = "gone"    // it has ended
	Unknown      State = "unknown" // the driver did not say
)

// Process is one process of the machine. The pid alone does not identify it, because the
// kernel reuses it.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // when it started, in ticks since boot
}

// Outcome is the result of a step, or of asking the driver for the state of a process.
type Outcome struct {
	Process
	State State  `json:"state"`           // afterwards
	Error string `json:"error,omitempty"` // the driver's own answer, if it refused the step
	Code  int    `json:"code,omitempty"`  // of that answer
	// Imported is how much memory of other processes it has opened on its devices; 0 if
	// none, or if nobody can tell.
	Imported gpu.MiB `json:"imported_mb,omitempty"`
	Took     float64 `json:"took_seconds,omitempty"`
}

// RefusedError says why a lease was not parked or resumed. berth has changed nothing, or
// has undone the changes.
type RefusedError struct {
	Do   string // "park" or "resume"
	ID   string // of the lease
	Code Refusal
	Why  string // continues "cannot park ID: "
	Next string // what to do about it, in a sentence; may be empty
}

// Refusal is the stable name of a reason.
type Refusal string

// The reasons.
const (
	Unparkable   Refusal = "cannot_park"       // the lease, its programs or the driver do not allow it
	Unmoved      Refusal = "parking_failed"    // the driver refused a step
	NoHost       Refusal = "no_host_memory"    // the memory of the machine has no room
	MemoryShared Refusal = "may_share_memory"  // its processes may share memory of the device, which the driver loses
	Shared       Refusal = "shares_memory"     // one of its processes has opened memory of another one
	Busy         Refusal = "already_moving"    // its memory is on its way already
	NoRights     Refusal = "no_rights_to_park" // the daemon may not touch its processes
	NotResuming  Refusal = "cannot_resume"     // it is parked, and cannot come back now
)

func (e *RefusedError) Error() string {
	return "cannot " + e.Do + " " + e.ID + ": " + e.Why
}

// Phase says what happens to the memory of a lease.
type Phase string

// The phases. The zero value is a lease whose memory is on its device.
const (
	Parking  Phase = "parking"  // its memory is moving off its device
	Parked   Phase = "parked"   // its memory is in the memory of the machine
	Resuming Phase = "resuming" // its memory is moving back
)

// Source says why a lease was parked, which decides when it comes back.
type Source string

// The sources.
const (
	ByHand     Source = "hand"     // somebody asked: it stays until somebody resumes it
	ByPressure Source = "pressure" // others wait for its device: it waits for its next turn at once
	ByLadder   Source = "ladder"   // an optimization found it idle: it waits for its next turn after a time slice
)

// Status says where the memory of a lease is, and why.
type Status struct {
	Phase   Phase
	Since   time.Time // of the phase
	By      gpu.By    // who asked for it; the zero value means berth itself
	Why     string
	Host    gpu.MiB       // memory of the machine that it uses
	Returns bool          // whether it waits, or is going to wait, for its turn to come back
	Times   int           // how often it was parked
	Moving  time.Duration // total time that its memory has been moving
	Ground  Ground        // evidence, when it was last parked, that its processes share no memory
	Failed  string        // the last failure, and what to do about it; may be empty
}

// Ground is the evidence that the processes of a lease share no memory of their device.
type Ground string

// The grounds.
const (
	Alone Ground = "alone" // one process of the lease uses the device at most, and no relative of it does
	Word  Ground = "owner" // the owner of the lease, or the settings of its service, say so
)
