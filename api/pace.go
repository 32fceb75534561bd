package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Pace holds a lease to a share of what it would get of its devices.
type Pace struct {
	Share float64 `json:"share" minimum:"0.05" maximum:"1" doc:"From 0.05 to 1. 1 lets the lease run freely." example:"0.5"`
	Fence uint64  `json:"fence,omitempty" doc:"Only if the lease still has this fence."`
	Why   string  `json:"reason,omitempty" maxLength:"256" doc:"What people read about it."`
}

// Paced says what share a lease is held to, and what it really gets.
type Paced struct {
	Share      float64          `json:"share" doc:"The least of the shares that somebody holds it to."`
	Measured   gpu.Opt[float64] `json:"measured,omitzero" doc:"What it gets of what it would get without pauses; absent in the first seconds."`
	MeasuredBy string           `json:"measured_by,omitempty" enum:"driver,duty" doc:"driver: the driver measures how much of its time the device works for each process. duty: it does not, and measured is the share of the time that the processes run."`
	HeldBy     []PacedBy        `json:"held_by" doc:"Who holds it to a share, the least share first."`
	Since      time.Time        `json:"since"`
	Refused    string           `json:"refused,omitempty" doc:"Why its processes are not stopped, so that it runs freely; absent: they are."`
}

// PacedBy is one party that holds a lease to a share.
type PacedBy struct {
	Share  float64 `json:"share"`
	Source string  `json:"source" enum:"owner,operator,throttle" doc:"owner: whoever owns the lease. operator: an operator. throttle: berth itself, because of gpu.throttle."`
	By     gpu.By  `json:"by,omitzero" doc:"Who asked for it. Absent: berth itself."`
	Why    string  `json:"reason,omitempty"`
}
