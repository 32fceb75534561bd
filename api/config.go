package api

import "github.com/berth-gpu/berth/gpu"

// GPUConfig is the gpu section of the configuration in force.
type GPUConfig struct {
	gpu.Thresholds

	ThrottleCooldown float64          `json:"throttle_cooldown_seconds" doc:"How long the readings of a device must be better before it enters a better state."`
	CriticalPause    float64          `json:"critical_pause_seconds" doc:"How long the readings of a device must be better before it leaves CRITICAL."`
	Quarantine       float64          `json:"quarantine_seconds" doc:"How long berth grants nothing on a device after a fault of its own."`
	Probation        float64          `json:"probation_seconds" doc:"How long a device has half its slots after its quarantine."`
	SlotReturn       float64          `json:"slot_return_seconds" doc:"How long memory must not run out before a device gets back a slot that it lost because its memory ran out."`
	MemoryLimit      gpu.Opt[gpu.MiB] `json:"memory_limit_mb" nullable:"true" doc:"How much of a device's memory berth may lease; null: all of it."`
	MemoryReserve    gpu.MiB          `json:"memory_reserve_mb" doc:"How much of that memory berth never leases."`
	MaxPipelines     gpu.Opt[int]     `json:"max_pipelines" nullable:"true" doc:"Slots of a device; null: CPUs / devices, rounded up."`
	MonitorInterval  float64          `json:"monitor_interval" doc:"Seconds from one sample to the next."`
	HistorySize      int              `json:"history_size" doc:"How many samples of each device berth keeps, and never less than ten minutes."`
	OverLimit        string           `json:"over_limit" enum:"warn,revoke" doc:"What berth does about a lease whose processes use more memory than it holds."`
	Foreign          string           `json:"foreign" enum:"show,kill_orphans,kill" doc:"What berth does about processes that use a GPU under no lease."`
	Overheat         string           `json:"overheat" enum:"tell,revoke" doc:"What berth does about leases on a device above temp_critical."`
	Context          gpu.MiB          `json:"context_mb" doc:"How much memory of a lease a CUDA context takes."`
	MPS              string           `json:"mps" enum:"off,on" doc:"Whether the driver enforces leases of memory, through MPS."`

	Devices map[string]DeviceConfig `json:"devices" doc:"Settings that differ for single devices, by UUID."`
}

// DeviceConfig has the settings that differ for one device. Absent ones follow the
// section around it.
type DeviceConfig struct {
	TempOptimal      gpu.Opt[gpu.Celsius] `json:"temp_optimal,omitzero"`
	TempNormal       gpu.Opt[gpu.Celsius] `json:"temp_normal,omitzero"`
	TempThrottle     gpu.Opt[gpu.Celsius] `json:"temp_throttle,omitzero"`
	TempCritical     gpu.Opt[gpu.Celsius] `json:"temp_critical,omitzero"`
	MemoryOptimal    gpu.Opt[gpu.Percent] `json:"memory_optimal,omitzero"`
	MemoryNormal     gpu.Opt[gpu.Percent] `json:"memory_normal,omitzero"`
	MemoryCritical   gpu.Opt[gpu.Percent] `json:"memory_critical,omitzero"`
	ThrottleCooldown gpu.Opt[float64]     `json:"throttle_cooldown_seconds,omitzero"`
	CriticalPause    gpu.Opt[float64]     `json:"critical_pause_seconds,omitzero"`
	MemoryLimit      gpu.Opt[gpu.MiB]     `json:"memory_limit_mb,omitzero"`
	MemoryReserve    gpu.Opt[gpu.MiB]     `json:"memory_reserve_mb,omitzero"`
	MaxPipelines     gpu.Opt[int]         `json:"max_pipelines,omitzero"`
}

// GPUChange changes the gpu section, wholly or not at all. Absent fields stay as
// they are; in JSON, null resets a field to what the weaker sources say.
type GPUChange struct {
	DeviceConfig

	Quarantine      gpu.Opt[float64]        `json:"quarantine_seconds,omitzero"`
	Probation       gpu.Opt[float64]        `json:"probation_seconds,omitzero"`
	SlotReturn      gpu.Opt[float64]        `json:"slot_return_seconds,omitzero"`
	MonitorInterval gpu.Opt[float64]        `json:"monitor_interval,omitzero"`
	HistorySize     gpu.Opt[int]            `json:"history_size,omitzero"`
	OverLimit       string                  `json:"over_limit,omitempty" enum:"warn,revoke"`
	Foreign         string                  `json:"foreign,omitempty" enum:"show,kill_orphans,kill"`
	Overheat        string                  `json:"overheat,omitempty" enum:"tell,revoke"`
	Context         gpu.Opt[gpu.MiB]        `json:"context_mb,omitzero"`
	MPS             string                  `json:"mps,omitempty" enum:"off,on"`
	Devices         map[string]DeviceConfig `json:"devices,omitempty" doc:"Changes for single devices, by UUID; null for a device removes everything that was set for it at run time."`
}

// ConfigFields lists every setting, in the order of the documentation.
type ConfigFields struct {
	Fields []ConfigField `json:"fields"`
}

// ConfigField is one setting with its value and its source.
type ConfigField struct {
	Field  string `json:"field" example:"gpu.temp_optimal"`
	Value  string `json:"value" doc:"As written in berth.yaml; of a secret, only whether it is set."`
	Unit   string `json:"unit,omitempty"`
	Source string `json:"source" doc:"Where it comes from: default, a line of a file, saved at run time, a variable or a flag."`
	Doc    string `json:"doc"`
}
