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

// CheckRequest asks to check a device.
type CheckRequest struct {
	GPU  gpu.Ref `json:"gpu" doc:"Index or UUID of the device."`
	Kind string  `json:"kind,omitempty" enum:"quick,long,residue" doc:"quick: some seconds. long: some minutes, with more patterns. residue: look for what earlier programs left in free memory, and test nothing. Default: quick."`
}

// Check is the result of checking a device.
type Check struct {
	GPU     string      `json:"gpu" doc:"UUID of the device."`
	Index   int         `json:"index"`
	Kind    string      `json:"kind" enum:"quick,long,residue"`
	Verdict string      `json:"verdict" enum:"passed,failed,could_not_be_asked"`
	Reason  string      `json:"reason" doc:"Why, in one sentence."`
	Steps   []CheckStep `json:"steps" doc:"What was tested, in order."`
	Memory  gpu.MiB     `json:"memory_mb" doc:"How much memory was tested or looked at: what is free and not leased."`
	Total   gpu.MiB     `json:"total_mb" doc:"Memory of the device."`
	Left    int64       `json:"left_bytes,omitempty" doc:"residue: bytes that were not zero."`
	Took    float64     `json:"took_seconds"`
}

// CheckStep is one thing that a check tested.
type CheckStep struct {
	Name    string           `json:"name" doc:"memory, copy_to_device, copy_from_device, compute, clocks, link, errors or residue."`
	Verdict string           `json:"verdict" enum:"passed,failed,could_not_be_asked"`
	Detail  string           `json:"detail,omitempty" doc:"What was found."`
	Value   gpu.Opt[float64] `json:"value,omitzero" doc:"What was measured."`
	Norm    gpu.Opt[float64] `json:"norm,omitzero" doc:"What it should be."`
	Unit    string           `json:"unit,omitempty" doc:"Unit of both."`
	Took    float64          `json:"took_seconds,omitempty"`
}
