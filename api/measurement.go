package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Measurement is what one run of a piece of work used, told by whoever measured
// it.
type Measurement struct {
	Name    string  `json:"name" minLength:"1" maxLength:"128" doc:"What it is remembered under: a pipeline, a function, a job."`
	Step    string  `json:"step,omitempty" maxLength:"128" doc:"The step of the pipeline. Default: the whole."`
	Memory  gpu.MiB `json:"memory_mb" minimum:"0" maximum:"1099511627776" doc:"The most that it used on one device."`
	Seconds float64 `json:"seconds" minimum:"0" maximum:"1000000000"`
}

// Measurements is what is known about earlier runs.
type Measurements struct {
	Measurements []Measured `json:"measurements" doc:"By user, name and step."`
}

// Measured is what is known about the runs of a piece of work.
type Measured struct {
	User    string    `json:"user"`
	Name    string    `json:"name"`
	Step    string    `json:"step,omitempty"`
	Runs    int       `json:"runs" doc:"How many there were in all; the numbers below are those of the last ten."`
	Last    time.Time `json:"last" doc:"When the last one ended."`
	Asked   gpu.MiB   `json:"asked_mb" doc:"What the last one leased on a device; 0: no memory."`
	Peak    gpu.MiB   `json:"peak_mb" doc:"The most that one used on a device; 0: none was seen there."`
	Next    gpu.MiB   `json:"next_mb" doc:"What a run that does not say gets leased: the peak and a margin; 0: nothing is known, or no run was measured often enough."`
	Seconds float64   `json:"seconds" doc:"How long one takes, on average."`
}
