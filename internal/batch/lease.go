package batch

import (
	"context"
	"errors"
)

// Leaser grants places for workers. The wiring provides one that asks the
// daemon.
type Leaser interface {
	// Acquire waits for a place for one more worker. A run always has one
	// request open while there is work that nobody takes, so a GPU that comes
	// free, or is plugged in, is used as soon as it is granted.
	//
	// A GPU that is to be avoided is not granted; if there is no other, the
	// answer is ErrRefused. Other errors are tried again after a while.
	Acquire(ctx context.Context, req WorkerRequest) (Grant, error)
}

// ErrRefused in an error of Acquire means that asking again is of no use. The
// run goes on with the workers it has, and ends if it has none.
var ErrRefused = errors.New("no place for a worker")

// WorkerRequest is what is asked of a Leaser.
type WorkerRequest struct {
	Avoid    []string       // UUIDs of GPUs on which workers kept failing
	Failures map[string]int // by UUID, workers that failed in a row: of GPUs that are alike otherwise, take the one with the fewest
}

// Grant is a place for one worker process. It ends with the process: the next
// one needs a place of its own.
type Grant struct {
	GPU GPU
	Env []string // KEY=VALUE, or KEY to take it out: makes the GPU device 0 of the process, and caps its memory

	// Started is told the process, before it gets any work; an error ends the
	// process. Nil: nobody wants to know.
	Started func(pid int) error

	// Why says what the lease had to do with the end of the process, as in "it
	// was revoked"; empty: nothing, as far as is known. If a signal ended the
	// process, it takes a moment to find out. Nil: nobody knows.
	Why func(signalled bool) string

	// Lost is closed when the lease is not ours any more: the worker is killed
	// at once. Recall is closed when the place is wanted back: the worker
	// finishes the batch it has. Either may be nil.
	Lost   <-chan struct{}
	Recall <-chan struct{}

	// Speed is the multiplier of the GPU now, from 0 to 1: the share of time
	// in which it may be worked, and of the batch size. Nil: always 1.
	Speed func() float64

	// Release gives the place back; called once, when no process uses it.
	Release func()
}

// GPU is the device of a grant.
type GPU struct {
	UUID  string `json:"gpu"`
	Index int    `json:"index"`
	Name  string `json:"name"`
}

func (g *Grant) speed() float64 {
	if g.Speed == nil {
		return 1
	}
	return min(max(g.Speed(), 0), 1)
}
