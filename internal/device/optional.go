package device

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/gpu"
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

// PowerLimits has the power limits of a device.
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
