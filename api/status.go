package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Status is one device as it stands.
type Status struct {
	Device     gpu.Device  `json:"device"`
	State      gpu.State   `json:"state" enum:"OPTIMAL,NORMAL,THROTTLED,CRITICAL,UNAVAILABLE"`
	Since      time.Time   `json:"since" doc:"When it came into this state."`
	Reason     string      `json:"reason" doc:"Why it is in this state, in one sentence."`
	Multiplier float64     `json:"multiplier" doc:"Share of full speed that work should run at."`
	Health     gpu.Health  `json:"health" enum:"healthy,unhealthy,unknown"`
	Sample     *gpu.Sample `json:"sample,omitempty" doc:"The newest sample; absent until the device has answered once."`
	Stale      bool        `json:"stale,omitempty" doc:"The sample is older than three intervals and than 3 seconds: it says nothing about now."`
	Slots      Slots       `json:"slots"`
	Trust      *Trust      `json:"trust,omitempty" doc:"Present while the device is not fully trusted."`
}

// Well reports whether there is nothing to say about a device: it is OPTIMAL or
// NORMAL, healthy, and fully trusted.
func (s Status) Well() bool {
	return !s.State.Worse(gpu.Normal) && s.Health != gpu.Unhealthy && s.Trust == nil
}

// Trust is how far a device is trusted after something went wrong on it.
type Trust struct {
	Phase    string     `json:"phase,omitempty" enum:"quarantine,probation" doc:"Absent if only slots are withheld."`
	Since    *time.Time `json:"since,omitempty"`
	Until    *time.Time `json:"until,omitempty" doc:"The earliest end of the phase."`
	Why      string     `json:"why,omitempty" doc:"What began it."`
	Withheld int        `json:"slots_withheld" doc:"Slots that the device does not have for a while, because its memory ran out."`
}

// Slots is how many pipelines a device runs and may run.
type Slots struct {
	Active   int `json:"active"`
	Capacity int `json:"capacity" doc:"max_pipelines of the device."`
	Usable   int `json:"usable" doc:"How many of them may be in use now, by the state of the device and by trust."`
}

// StatusAll is every device, and how much of the machine is in use.
type StatusAll struct {
	Host        string      `json:"host"`
	Version     string      `json:"version" doc:"Of the daemon."`
	Monitoring  bool        `json:"monitoring" doc:"Whether the sampling loop runs."`
	Note        string      `json:"note,omitempty" doc:"Said when there is something to say about the whole, such as that there is no GPU."`
	GPUs        []Status    `json:"gpus"`
	Utilization Utilization `json:"utilization"`
}

// Utilization counts slots over all devices.
type Utilization struct {
	TotalGPUs     int                       `json:"total_gpus"`
	TotalCapacity int                       `json:"total_capacity"`
	TotalActive   int                       `json:"total_active"`
	Percent       float64                   `json:"utilization_percent"`
	PerGPU        map[string]GPUUtilization `json:"per_gpu" doc:"By UUID."`
}

// GPUUtilization counts the slots of one device.
type GPUUtilization struct {
	Active   int     `json:"active"`
	Capacity int     `json:"capacity"`
	Percent  float64 `json:"utilization_percent"`
}

// Samples is a list of samples, oldest first.
type Samples struct {
	Samples []gpu.Sample `json:"samples"`
}

// Trend is what the temperature of a device has been doing.
type Trend struct {
	GPU       string                `json:"gpu"`
	Minutes   float64               `json:"minutes" doc:"The window that was asked for."`
	Samples   int                   `json:"samples" doc:"How many samples with a temperature lie in it."`
	Min       gpu.Opt[gpu.Celsius]  `json:"min_celsius,omitzero"`
	Max       gpu.Opt[gpu.Celsius]  `json:"max_celsius,omitzero"`
	Average   gpu.Opt[gpu.Celsius]  `json:"average_celsius,omitzero"`
	Slope     gpu.Opt[float64]      `json:"slope_celsius_per_minute,omitzero"`
	Direction string                `json:"direction" enum:"rising,falling,stable,unknown"`
	Forecast  []TemperatureForecast `json:"forecast,omitempty" doc:"Where it goes if nothing changes."`
}

// TemperatureForecast is one point of a forecast.
type TemperatureForecast struct {
	In          float64     `json:"in_seconds"`
	Temperature gpu.Celsius `json:"celsius"`
}

// Throttle says how hard a device may be worked.
type Throttle struct {
	GPU        string     `json:"gpu"`
	State      gpu.State  `json:"state" enum:"OPTIMAL,NORMAL,THROTTLED,CRITICAL,UNAVAILABLE"`
	Multiplier float64    `json:"multiplier"`
	Throttle   bool       `json:"should_throttle" doc:"Work should run below full speed."`
	Stop       bool       `json:"should_stop" doc:"Above temp_critical, or in quarantine: stop now."`
	Until      *time.Time `json:"until,omitempty" doc:"The earliest time at which a better state is possible, when a cooldown runs."`
	Reason     string     `json:"reason"`
}

// Available is what can be leased now, per device.
type Available struct {
	GPUs []DeviceAvailable `json:"gpus"`
}

// DeviceAvailable is the sum that leads to what can be leased:
// limit − reserve − leased − foreign, and nothing while the device is CRITICAL
// or UNAVAILABLE.
type DeviceAvailable struct {
	GPU       string     `json:"gpu"`
	Available gpu.MiB    `json:"available_mb"`
	Total     gpu.MiB    `json:"total_mb"`
	Limit     gpu.MiB    `json:"limit_mb" doc:"memory_limit_mb, or all of it."`
	Reserve   gpu.MiB    `json:"reserve_mb" doc:"memory_reserve_mb."`
	Leased    gpu.MiB    `json:"leased_mb" doc:"Over all leases, the larger of leased and measured."`
	Foreign   gpu.MiB    `json:"foreign_mb" doc:"Measured for processes under no lease, and for the driver itself."`
	State     gpu.State  `json:"state"`
	Health    gpu.Health `json:"health"`
	Reason    string     `json:"reason,omitempty" doc:"Why nothing is available, if nothing is."`
}

// Monitoring says whether the sampling loop runs.
type Monitoring struct {
	Running  bool    `json:"running"`
	Interval float64 `json:"interval_seconds"`
	Changed  bool    `json:"changed" doc:"Whether the call changed anything."`
}

// Ready says whether the daemon can do its work.
type Ready struct {
	Ready   bool   `json:"ready"`
	Devices int    `json:"devices"`
	Text    string `json:"text"`
}
