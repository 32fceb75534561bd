package device

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/device/proof"
)

// Meter is a Device that measures how much of its time each process had.
type Meter interface {
	// Busy returns the share of each process since a moment. The driver keeps only some
	// seconds, and says how far its answer reaches.
	Busy(ctx context.Context, since time.Time) (Busy, error)
}

// Busy has the shares of processes in a device during a stretch of time.
type Busy struct {
	From, Until time.Time
	Shares      map[int]gpu.Percent // share of the time in which the device worked for a process, by pid
}

// Governor is a Device whose power limit and fan can be set. A Device that has only one
// of the two returns ErrUnsupported for the other, and ErrNoPermission if berth may not
// set it.
type Governor interface {
	// PowerLimits returns the power limit in force and the ones that the driver accepts.
	PowerLimits(ctx context.Context) (PowerLimits, error)
	// SetPowerLimit sets the power limit.
	SetPowerLimit(ctx context.Context, limit gpu.Watts) error
	// SetFan sets the speed of all fans.
	SetFan(ctx context.Context, speed gpu.Percent) error
	// ReleaseFan gives the fans back to the driver.
	ReleaseFan(ctx context.Context) error
}

// PowerLimits has the power limits of a device. Most is 0 if the driver does not name one.
type PowerLimits struct {
	Now, Default, Least, Most gpu.Watts
}

// Examinee is a Device that knows the result of its own check, as a simulated one does:
// there is nothing that a helper process could open.
type Examinee interface {
	// Examine returns the steps of the ask, each with how long it takes. It returns at
	// once; the caller waits that long. unable says why the device cannot be asked, and
	// is empty if it can.
	Examine(ctx context.Context, a proof.Ask) (steps []proof.Step, unable string, err error)
}

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
