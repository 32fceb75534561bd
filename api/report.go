package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Report sums up a machine: its devices, who uses them, and what could be done
// better.
type Report struct {
	Time         time.Time       `json:"time"`
	GPUs         []DeviceReport  `json:"gpus"`
	Services     []ServiceReport `json:"services" doc:"Every service that has leases, had leases, or waits; the largest first."`
	Measurements []Measured      `json:"measurements"`
	Energy       Energy          `json:"energy"`
	Advice       []Advice        `json:"advice" doc:"The most important first."`
	Period       *PeriodReport   `json:"period,omitempty" doc:"How the machine was used over a longer time, if one was asked for."`
}

// DeviceReport says how a device was used in the time that its samples cover.
type DeviceReport struct {
	GPU         string               `json:"gpu"`
	Index       int                  `json:"index"`
	Name        string               `json:"name"`
	State       gpu.State            `json:"state"`
	Covers      float64              `json:"covers_seconds" doc:"How far the samples reach back."`
	Utilization gpu.Opt[gpu.Percent] `json:"utilization_percent,omitzero" doc:"On average."`
	Power       gpu.Opt[gpu.Watts]   `json:"power_watts,omitzero" doc:"On average."`
	Hottest     gpu.Opt[gpu.Celsius] `json:"hottest_celsius,omitzero"`
	Total       gpu.MiB              `json:"memory_total_mb"`
	Peak        gpu.MiB              `json:"memory_peak_mb" doc:"The most memory in use."`
	Leased      gpu.MiB              `json:"leased_mb"`
	Measured    gpu.MiB              `json:"measured_mb" doc:"How much of the leased memory is in use now."`
	Foreign     gpu.MiB              `json:"foreign_mb"`
	Available   gpu.MiB              `json:"available_mb"`
	Leases      int                  `json:"leases"`
}

// ServiceReport says what a service has, had and waits for.
type ServiceReport struct {
	Service  string   `json:"service" doc:"Empty for leases without a service."`
	Users    []string `json:"users"`
	Leases   int      `json:"leases"`
	Leased   gpu.MiB  `json:"leased_mb"`
	Measured gpu.MiB  `json:"measured_mb"`
	Slots    int      `json:"slots"`
	Waiting  int      `json:"waiting"`
	Past     int      `json:"past_leases" doc:"Leases that have ended, as far as the daemon remembers them."`
	PastPeak gpu.MiB  `json:"past_peak_mb" doc:"The most memory that one of them used on a device."`
}

// Advice is something that could be done better.
type Advice struct {
	Code    string `json:"code" enum:"unwell,foreign,over,waiting,unused,oversized,idle,program" doc:"unwell: a device is not usable. foreign: memory is used under no lease. over: a lease uses more than it leased. waiting: a request waits. unused: nothing under a lease uses a device. oversized: a lease is much larger than what it uses. idle: a device with leases did nothing. program: a program asks for much more, or less, than it uses."`
	Text    string `json:"text"`
	Command string `json:"command,omitempty" doc:"What to run next."`
}
