package desk

import (
	"context"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
)

// Throttler acts on devices that should run slower.
type Throttler interface {
	// Acts says what is done to a device.
	Acts(uuid string) slowdown.Acts
	// Rest gives every device back what it had, and acts on none until Resume.
	Rest(ctx context.Context)
	Resume()
}

// Throttling says what berth does by itself about a device; nil: nothing does.
func (d *Desk) Throttling(uuid string) *api.Throttling {
	if d.Throttle == nil {
		return nil
	}
	a := d.Throttle.Acts(uuid)
	t := &api.Throttling{
		Policy: string(a.Policy), PacedLeases: a.Paced, PowerLimit: a.Limit, Original: a.Original, PowerSteps: a.Steps, Fan: a.Fan, Denied: a.Denied,
	}
	if a.Paced > 0 {
		t.Share = gpu.Some(a.Share)
	}
	return t
}
