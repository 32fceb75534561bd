package move

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

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
	Source  Source
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
