package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Measurement says how much one run of a piece of work used.
type Measurement struct {
	Name    string  `json:"name" minLength:"1" maxLength:"128" doc:"The name of the work: a pipeline, a function, a job. The daemon keeps measurements by name."`
	Step    string  `json:"step,omitempty" maxLength:"128" doc:"The step of the pipeline. Default: the whole pipeline."`
	Memory  gpu.MiB `json:"memory_mb" minimum:"0" maximum:"1099511627776" doc:"The most memory that the run used on one device."`
	Seconds float64 `json:"seconds" minimum:"0" maximum:"1000000000"`
}

// Measurements lists the measurements of earlier runs.
type Measurements struct {
	Measurements []Measured `json:"measurements" doc:"In the order of user, name and step."`
	More
}

// Measured sums up the measured runs of a piece of work.
type Measured struct {
	User    string    `json:"user"`
	Name    string    `json:"name"`
	Step    string    `json:"step,omitempty"`
	Runs    int       `json:"runs" doc:"How many runs there were. The numbers below are of the last ten."`
	Last    time.Time `json:"last" doc:"When the last run ended."`
	Asked   gpu.MiB   `json:"asked_mb" doc:"How much memory the last run leased on a device; 0: none."`
	Peak    gpu.MiB   `json:"peak_mb" doc:"The most memory that a run used on a device; 0: no run was seen on a device."`
	Next    gpu.MiB   `json:"next_mb" doc:"How much memory a run leases that does not say: the peak plus a margin; 0: nothing is known, or no run was measured often enough."`
	Seconds float64   `json:"seconds" doc:"How long a run takes on average."`

	Drew gpu.Opt[gpu.Watts] `json:"drew_watts,omitzero" doc:"How much power a run drew on a device, on average while it worked, above what the device draws by itself. Absent: no run was measured."`
}
