package device

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/proof"
)

// Meter is a Device that tells how much of its time each process had.
type Meter interface {
	// Busy returns what each process had of the device since a moment. The
	// driver keeps some seconds only, and says how far its answer reaches.
	Busy(ctx context.Context, since time.Time) (Busy, error)
}

// Busy is what processes had of a device during a stretch of time.
type Busy struct {
	From, Until time.Time
	Shares      map[int]gpu.Percent // by pid: share of the time in which the device worked for it
}

// Governor is a Device whose power limit and fan can be set. A Device that has
// one of the two answers ErrUnsupported for the other, and ErrNoPermission if
// berth may not set it.
type Governor interface {
	// PowerLimits returns the power limit in force and the ones that the driver
	// takes.
	PowerLimits(ctx context.Context) (PowerLimits, error)
	// SetPowerLimit sets the power limit.
	SetPowerLimit(ctx context.Context, limit gpu.Watts) error
	// SetFan sets the speed of all fans.
	SetFan(ctx context.Context, speed gpu.Percent) error
	// ReleaseFan gives the fans back to the driver.
	ReleaseFan(ctx context.Context) error
}

// PowerLimits has the power limits of a device.
type PowerLimits struct {
	Now, Default, Least, Most gpu.Watts
}

// Examinee is a Device that knows what a check of it would find, as a simulated one
// does: there is nothing that a helper process could open.
type Examinee interface {
	// Examine returns the steps that the ask comes to, each with how long it
	// takes. It returns at once; whoever asks waits that long. unable says why the
	// device cannot be asked; empty if it can.
	Examine(ctx context.Context, a proof.Ask) (steps []proof.Step, unable string, err error)
}
