package gpu

import "time"

// Sample is one reading of a device. Every metric is optional: a metric that
// the device cannot measure is absent. The monitor adds GPU, Name, Time, State
// and MemoryShare; a backend leaves them empty.
type Sample struct {
	GPU   string    `json:"gpu" doc:"UUID of the device."`
	Name  string    `json:"name,omitempty" doc:"Name of the device."`
	Time  time.Time `json:"time"`
	State State     `json:"state,omitempty" doc:"State of the device at that time; in the newest sample, as it stands now."`

	Utilization       Opt[Percent] `json:"utilization_percent,omitzero"`
	MemoryBusy        Opt[Percent] `json:"memory_busy_percent,omitzero" doc:"Share of time in which memory was read or written."`
	MemoryTotal       Opt[MiB]     `json:"memory_total_mb,omitzero"`
	MemoryUsed        Opt[MiB]     `json:"memory_used_mb,omitzero" doc:"Used by processes and by the driver itself."`
	MemoryFree        Opt[MiB]     `json:"memory_free_mb,omitzero"`
	Blind             bool         `json:"blind,omitempty" doc:"The driver of this device tells neither how hot it is nor how much of its memory is in use."`
	MemoryShare       Opt[Percent] `json:"memory_percent,omitzero" doc:"Share of the memory that is in use."`
	Temperature       Opt[Celsius] `json:"temperature_celsius,omitzero"`
	MemoryTemperature Opt[Celsius] `json:"memory_temperature_celsius,omitzero"`
	Power             Opt[Watts]   `json:"power_watts,omitzero"`
	PowerOf           string       `json:"power_of,omitempty" doc:"For a MIG instance: the UUID of the GPU that it is part of. Power, temperature, clocks and throttle reasons are those of that GPU, so do not add them up."`
	ClockSM           Opt[MHz]     `json:"clock_sm_mhz,omitzero"`
	ClockMemory       Opt[MHz]     `json:"clock_memory_mhz,omitzero"`

	// Throttle and Processes are nil if the device cannot report them, and empty if there
	// are none.
	Throttle  []ThrottleReason `json:"throttle_reasons,omitzero"`
	Processes []Process        `json:"processes,omitzero"`

	Slow
}

// MemoryPercent returns the share of the device's memory that is in use.
func (s *Sample) MemoryPercent() Opt[Percent] {
	used, ok := s.MemoryUsed.Get()
	total, ok2 := s.MemoryTotal.Get()
	if !ok || !ok2 || total <= 0 {
		return Opt[Percent]{}
	}
	return Some(Percent(float64(used) * 100 / float64(total)))
}

// Slow is the part of a sample that takes milliseconds to read. The daemon
// reads it rarely, and repeats it in samples until the next reading.
type Slow struct {
	SlowTime       time.Time    `json:"slow_time,omitzero" doc:"When the metrics below were read: they are costly, so they are older than the rest."`
	Energy         Opt[float64] `json:"energy_joules,omitzero" doc:"Since the driver was loaded."`
	Fan            Opt[Percent] `json:"fan_percent,omitzero"`
	PCIeTx         Opt[float64] `json:"pcie_tx_mb_per_second,omitzero"`
	PCIeRx         Opt[float64] `json:"pcie_rx_mb_per_second,omitzero"`
	ECCCorrected   Opt[int64]   `json:"ecc_corrected_total,omitzero"`
	ECCUncorrected Opt[int64]   `json:"ecc_uncorrected_total,omitzero"`
	// ProcessUtilization is by pid.
	ProcessUtilization map[int]Percent `json:"process_utilization_percent,omitempty"`
}

// ThrottleReason says why a device runs below its full clock.
type ThrottleReason string

// The reasons. Idle is not a complaint: a device without work clocks down.
const (
	ThrottleIdle          ThrottleReason = "idle"
	ThrottlePowerCap      ThrottleReason = "power_cap"
	ThrottleThermal       ThrottleReason = "thermal"
	ThrottleThermalHW     ThrottleReason = "thermal_hardware"
	ThrottlePowerBrake    ThrottleReason = "power_brake"
	ThrottleHardware      ThrottleReason = "hardware_slowdown"
	ThrottleAppClocks     ThrottleReason = "application_clocks"
	ThrottleDisplayClocks ThrottleReason = "display_clocks"
	ThrottleSync          ThrottleReason = "sync_boost"
)

// Process is one operating-system process on a device.
type Process struct {
	PID    int         `json:"pid" doc:"0 for a process of another user, unless an operator asks."`
	Name   string      `json:"name,omitempty"`
	Kind   ProcessKind `json:"kind,omitempty"`
	Memory Opt[MiB]    `json:"memory_mb,omitzero" doc:"Absent where the driver does not tell."`
}

// ProcessKind says how a process uses the device.
type ProcessKind string

// The kinds of process.
const (
	Compute  ProcessKind = "compute"
	Graphics ProcessKind = "graphics"
)
