package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Drain says that somebody takes a device out of use: leases there go on, and the
// daemon grants no new ones.
type Drain struct {
	By     string     `json:"by,omitempty" doc:"Who drains it."`
	Reason string     `json:"reason,omitempty" doc:"Why, in the words of whoever drains it."`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until,omitempty" doc:"When the drain ends by itself; absent: only undrain ends it."`
}

// DrainRequest asks to drain a device.
type DrainRequest struct {
	GPU    gpu.Ref    `json:"gpu" doc:"Index or UUID of the device."`
	Until  *time.Time `json:"until,omitempty" doc:"When the drain ends by itself. Default: only undrain ends it."`
	Reason string     `json:"reason,omitempty" maxLength:"200" doc:"Why, for others to read."`
}

// UndrainRequest asks to end the drain of a device.
type UndrainRequest struct {
	GPU gpu.Ref `json:"gpu" doc:"Index or UUID of the device."`
}

// Drained is a device after a drain began or ended.
type Drained struct {
	GPU     string        `json:"gpu" doc:"UUID of the device."`
	Index   int           `json:"index"`
	Changed bool          `json:"changed" doc:"Whether the call changed anything."`
	Drain   *Drain        `json:"drain,omitempty" doc:"The drain; absent if the device is not drained."`
	Leases  []DeviceLease `json:"leases" doc:"The leases on the device, which go on, largest first."`
}
