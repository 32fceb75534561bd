package batch

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// Leaser grants places for workers. The wiring provides one that asks the daemon.
type Leaser interface {
	// Acquire waits for a place for one more worker. A run keeps one request
	// open while records wait and no worker takes them, so it uses a GPU as
	// soon as that GPU comes free or is plugged in.
	//
	// Acquire does not grant a GPU that the request avoids. If there is no
	// other GPU, it returns ErrRefused. The run retries other errors after a
	// while.
	Acquire(ctx context.Context, req WorkerRequest) (Grant, error)
}

// ErrRefused in an error of Acquire means that asking again is of no use. The run
// continues with the workers it has, and ends if it has none.
var ErrRefused = errors.New("no place for a worker")

// WorkerRequest asks a Leaser for a place.
type WorkerRequest struct {
	Avoid    []string       // IDs of GPUs on which workers kept failing
	Failures map[string]int // by ID, workers that failed in a row; among equal GPUs, the one with the fewest is best
}

// Grant is a place for one worker process. It ends with the process: the next
// one needs a place of its own.
type Grant struct {
	GPU GPU
	Env []string // KEY=VALUE sets a variable, KEY removes it; makes the GPU device 0 of the process and caps its memory

	// Start starts the process of the worker, as Start of the Options does, which counts
	// if this one is nil.
	Start func(prefix string, env []string) (Process, error)

	// Latency returns how long a message takes to the worker and back. The worker gets
	// more batches ahead the longer it takes. Nil means that the worker is on this machine.
	Latency func() time.Duration

	// Started tells the Leaser which process uses the place, before that
	// process gets any work. If it returns an error, the run ends the process.
	// It may be nil.
	Started func(pid int) error

	// Why says what the lease had to do with the end of the process, as in "it
	// was revoked", or returns "" if it knows of nothing. If a signal ended the
	// process, Why may take a moment to find out. It may be nil.
	Why func(signalled bool) string

	// Lost is closed when this run no longer has the lease: the worker is
	// killed at once. Recall is closed when somebody else wants the place: the
	// worker finishes its batch and leaves. Either may be nil.
	Lost   <-chan struct{}
	Recall <-chan struct{}

	// Trouble returns what is wrong with the GPU, to follow its name, as in "is in
	// quarantine: XID 79", if Lost or Recall was closed for that, and otherwise "". It may
	// be nil.
	Trouble func() string

	// Speed returns the multiplier of the GPU now, from 0 to 1. The worker
	// works for that share of the time, with that share of the batch size. Nil
	// means always 1.
	Speed func() float64

	// Again says, before Release, that the run is about to ask for this place again: what
	// its workers share stays. It may be nil.
	Again func()

	// Release gives the place back. The run calls it once, when no process uses
	// the place.
	Release func()
}

func (g *Grant) isLost() bool {
	select {
	case <-g.Lost:
		return true
	default:
		return false
	}
}

// GPU is the device of a grant.
type GPU struct {
	UUID  string `json:"gpu"`
	Index int    `json:"index"`
	Name  string `json:"name"`
	Host  string `json:"host,omitempty"` // machine that it is in; empty for this one
}

// ID identifies the GPU among those of all machines.
func (g GPU) ID() string {
	if g.Host == "" {
		return g.UUID
	}
	return g.Host + "/" + g.UUID
}

// String names the GPU to people.
func (g GPU) String() string {
	if g.Host == "" {
		return "GPU " + strconv.Itoa(g.Index)
	}
	return "GPU " + strconv.Itoa(g.Index) + " of " + g.Host
}

// GiveBack calls Release, if there is one.
func (g *Grant) GiveBack() {
	if g.Release != nil {
		g.Release()
	}
}

// TroubleNow returns what Trouble does, or "" without it.
func (g *Grant) TroubleNow() string {
	if g.Trouble == nil {
		return ""
	}
	return g.Trouble()
}

// SpeedNow returns what Speed does, from 0 to 1, or 1 without it.
func (g *Grant) SpeedNow() float64 {
	if g.Speed == nil {
		return 1
	}
	return min(max(g.Speed(), 0), 1)
}
