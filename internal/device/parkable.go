package device

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/internal/device/move"
)

// Parkable is a Device that moves the memory of processes off itself and back, as a
// simulated one does: there is no driver that a helper process could call.
//
// Move does not wait for the step that it begins, so that it can be called under a Guard
// while the device is read. An outcome has the state of the process after Took seconds.
// The caller waits that long, and then asks for the states: the process may have ended in
// between. A step goes on even if the caller ends.
type Parkable interface {
	// Move begins a step with several processes at once, and returns its outcomes in the
	// order of ids. A step that the process refuses changes nothing, and its outcome has
	// the driver's answer. After move.Ask, Took is the rest of a step that was begun
	// before. An error means that the device as a whole did not answer.
	Move(ctx context.Context, step move.Step, ids []move.Process) ([]move.Outcome, error)
}

// Forever is the duration of a call for a stopped process: the driver waits for the
// process, whatever the deadline. The state of the process does not change.
const Forever = 100 * 365 * 24 * time.Hour

// The answers of drivers to a step, by NVIDIA's numbers.
const (
	CodeOutOfMemory    = 2   // no room for the memory where it has to go
	CodeNotInitialized = 3   // the process does not use the driver
	CodeSystem         = 304 // the process is gone, not allowed, or lost
	CodeIllegalState   = 401 // it is not the turn of this step
	CodeNotSupported   = 801 // the process uses something that cannot be moved
)
