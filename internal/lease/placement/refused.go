package placement

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

// TimeoutError reports a request that was not granted before its deadline.
type TimeoutError struct {
	Request *lease.Request
	Waited  time.Duration
	Refusal *NoFitError // why it did not fit at the deadline; nil if it would have fitted
	Quota   error       // how its service was over its quota at the deadline; nil if it was not
}

func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("%s was not granted within %s", e.Request.ID, e.Lasted())
	if why := e.Why(); why != nil {
		text += ": " + why.Error()
	}
	return text
}

// Why returns what prevented the grant at the deadline, or nil if nothing did.
func (e *TimeoutError) Why() error {
	switch {
	case e.Quota != nil:
		return e.Quota
	case e.Refusal != nil:
		return e.Refusal
	}
	return nil
}

// Lasted returns how long the request waited, in words.
func (e *TimeoutError) Lasted() string { return words.Duration(e.Waited) }

// QueuedError refuses a request that does not wait and would fit, but would delay
// a waiting request.
type QueuedError struct {
	Waiting    int
	LargestNow gpu.MiB // the most memory that would delay nobody; zero if none
}

func (e *QueuedError) Error() string {
	text := fmt.Sprintf("the request would delay one of the %d requests that wait already; wait in turn", e.Waiting)
	if e.Waiting == 1 {
		text = "the request would delay one that waits already; wait in turn"
	}
	if e.LargestNow > 0 {
		text += ", or ask for at most " + e.LargestNow.Exact() + ", which would be granted now"
	}
	return text
}

// ResizeError refuses to make a lease larger.
type ResizeError struct {
	Lease *lease.Lease
	GPU   string  // where there is no room
	Asked gpu.MiB // on each device
	Most  gpu.MiB // the most that the lease could have there now
	Ever  bool    // it would fit if nobody else held anything
	Why   error   // what is in the way of the growth
}

// Has returns the memory that the lease has on the device without room.
func (e *ResizeError) Has() gpu.MiB {
	for _, p := range e.Lease.Parts {
		if p.GPU == e.GPU {
			return p.Memory
		}
	}
	return 0
}

func (e *ResizeError) Error() string {
	why := "there is no room for that now"
	if !e.Ever {
		why = "that never fits there"
	}
	text := fmt.Sprintf("resize %s from %s to %s: %s", e.Lease.ID, e.Has().Exact(), e.Asked.Exact(), why)
	if e.Most > e.Has() {
		return text + "; ask for at most " + e.Most.Exact() + ", which it can have now"
	}
	return text + ", nor for more than it has"
}

func (e *ResizeError) Unwrap() error { return e.Why }
