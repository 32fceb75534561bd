package desk

import (
	"context"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
)

// Throttler acts on devices that should run slower.
type Throttler interface {
	// Acts returns what is done to a device.
	Acts(uuid string) slowdown.Acts
	// Rest restores every device, and acts on none until Resume.
	Rest(ctx context.Context)
	Resume()
}

// Throttling returns what berth does by itself about a device, or nil if it does nothing.
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
