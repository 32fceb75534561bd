package api

import "github.com/berth-gpu/berth/gpu"

// Throttling says what berth does by itself about a device that should run
// slower.
type Throttling struct {
	Policy string `json:"policy" enum:"advise,slots,pace,power" doc:"The setting gpu.throttle of the device."`

	Share       gpu.Opt[float64]     `json:"share,omitzero" doc:"Share of their speed that leases on the device are held to; absent: none is held back."`
	PacedLeases int                  `json:"paced_leases,omitempty" doc:"How many leases are held back."`
	PowerLimit  gpu.Opt[gpu.Watts]   `json:"power_limit_watts,omitzero" doc:"Power limit that berth set; absent: it set none."`
	Original    gpu.Opt[gpu.Watts]   `json:"power_original_watts,omitzero" doc:"Power limit that berth gives back."`
	PowerSteps  int                  `json:"power_steps,omitempty" doc:"How many steps down led to the power limit that berth set."`
	Fan         gpu.Opt[gpu.Percent] `json:"fan_percent,omitzero" doc:"Fan speed that berth set; absent: the driver sets it."`
	Denied      string               `json:"denied,omitempty" doc:"Why this daemon does nothing about the device: another one is in charge of it."`
}
