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

// PeriodReport says how a machine was used over a time of hours, days or months. Its
// numbers cover only the time that was measured; berth estimates nothing for the rest.
type PeriodReport struct {
	From     time.Time       `json:"from"`
	Until    time.Time       `json:"until"`
	Covered  float64         `json:"covered_seconds" doc:"How much of that time the daemon has measurements of."`
	Source   string          `json:"source" enum:"past,samples" doc:"past: the store of the past. samples: the samples of the last minutes, because there is no store."`
	Step     float64         `json:"step_seconds" doc:"From one point of a curve to the next."`
	Remarks  []string        `json:"remarks" doc:"What is missing, and why."`
	GPUs     []DevicePeriod  `json:"gpus"`
	Users    []HolderPeriod  `json:"users" doc:"The largest first."`
	Services []HolderPeriod  `json:"services" doc:"The largest first."`
	Programs []ProgramPeriod `json:"programs" doc:"What leases were called; the largest first. Only leases that the daemon remembers."`
	Waiting  WaitingPeriod   `json:"waiting"`
	Faults   []EventCount    `json:"faults" doc:"Events that tell of trouble; those that did not happen are absent."`
	Curves   []Curve         `json:"curves"`
}

// DevicePeriod says how a device was used over a time.
type DevicePeriod struct {
	GPU         string                `json:"gpu"`
	Index       gpu.Opt[int]          `json:"index,omitzero" doc:"Absent: the device is gone."`
	Name        string                `json:"name,omitempty"`
	Measured    float64               `json:"measured_seconds"`
	Utilization gpu.Opt[gpu.Percent]  `json:"utilization_percent,omitzero" doc:"On average."`
	Power       gpu.Opt[gpu.Watts]    `json:"power_watts,omitzero" doc:"On average."`
	Hottest     gpu.Opt[gpu.Celsius]  `json:"hottest_celsius,omitzero"`
	Total       gpu.MiB               `json:"memory_total_mb"`
	Used        float64               `json:"used_mb_hours" doc:"Memory in use, times hours."`
	Leased      float64               `json:"leased_mb_hours" doc:"Memory under leases, times hours."`
	Foreign     float64               `json:"foreign_mb_hours" doc:"Memory used under no lease, times hours."`
	Idle        float64               `json:"idle_leased_seconds" doc:"How long memory of the device was leased while it did nothing."`
	States      map[gpu.State]float64 `json:"state_seconds" doc:"How long the device was in each state."`
	Reasons     map[string]float64    `json:"throttle_reason_seconds" doc:"How long the device ran below its full clock, by reason. Reasons overlap."`
	Unhealthy   float64               `json:"unhealthy_seconds"`
	Drained     float64               `json:"drained_seconds"`
	Corrected   float64               `json:"ecc_corrected" doc:"Errors of memory that the device mended."`
	Uncorrected float64               `json:"ecc_uncorrected" doc:"Errors of memory that the device could not mend."`
	Energy      gpu.Opt[gpu.Joules]   `json:"energy_joules,omitzero"`
	IdleEnergy  gpu.Opt[gpu.Joules]   `json:"idle_joules,omitzero" doc:"What the device drew by itself."`
}

// HolderPeriod says what a user or a service had over a time.
type HolderPeriod struct {
	Name     string              `json:"name" doc:"Empty for leases without a service."`
	Leased   float64             `json:"leased_mb_hours" doc:"Memory under leases, times hours."`
	Measured float64             `json:"measured_mb_hours" doc:"The part of it whose use was measured."`
	Used     float64             `json:"used_mb_hours" doc:"How much of the measured part was in use."`
	Leases   float64             `json:"lease_hours"`
	Waiting  float64             `json:"waiting_hours" doc:"How long requests waited, all of them together."`
	Energy   gpu.Opt[gpu.Joules] `json:"energy_joules,omitzero"`
}

// ProgramPeriod says what the leases of one name had over a time.
type ProgramPeriod struct {
	Program  string              `json:"program"`
	User     string              `json:"user,omitempty"`
	Service  string              `json:"service,omitempty"`
	Leases   int                 `json:"leases"`
	Hours    float64             `json:"lease_hours"`
	Leased   float64             `json:"leased_mb_hours"`
	Measured float64             `json:"measured_mb_hours" doc:"The part of it whose use was measured."`
	Used     float64             `json:"used_mb_hours" doc:"How much of the measured part was in use."`
	Idle     float64             `json:"idle_hours" doc:"How long leases stood while none of their devices did anything."`
	Peak     gpu.MiB             `json:"peak_mb" doc:"The most memory that a lease that has ended used on a device."`
	Energy   gpu.Opt[gpu.Joules] `json:"energy_joules,omitzero"`
}

// WaitingPeriod says how long requests waited over a time.
type WaitingPeriod struct {
	Answered float64          `json:"answered" doc:"Requests that were granted."`
	Refused  float64          `json:"refused" doc:"Requests that failed."`
	Mean     gpu.Opt[float64] `json:"mean_seconds,omitzero" doc:"How long a request waited on average."`
	Queue    float64          `json:"queue_mean" doc:"How many requests waited on average."`
	Longest  float64          `json:"queue_most" doc:"The most requests that waited at once."`
	Times    []WaitCount      `json:"times" doc:"How many requests waited how long."`
	Now      []Waiting        `json:"now" doc:"Requests that wait now."`
}

// WaitCount counts the requests that waited for less than a time, and for at least the
// one before it.
type WaitCount struct {
	Below float64 `json:"below_seconds,omitempty" doc:"Absent: no limit."`
	Count float64 `json:"count"`
}

// EventCount says how often something happened.
type EventCount struct {
	Code  gpu.EventCode `json:"code"`
	Count float64       `json:"count"`
}

// Curve is a series of numbers over time. Each number covers the step that ends at its
// time.
type Curve struct {
	Name   string       `json:"name" enum:"load,heat,power,state,used,unused,foreign,free,user,queue" doc:"load: percent of a device on average. heat: its highest temperature. power: watts on average. state: the share of time in a state. used, unused, foreign, free: MiB of all devices. user: MiB that a user leased. queue: requests that wait."`
	Of     string       `json:"of,omitempty" doc:"The device or the user."`
	State  gpu.State    `json:"state,omitempty"`
	Points []QueryPoint `json:"points"`
}

// Energy says how much energy devices used, and for whom.
type Energy struct {
	Price    gpu.Opt[float64] `json:"price_per_kwh,omitzero" doc:"What a kilowatt-hour costs, as energy.price_per_kwh says. Absent: it is not set."`
	Currency string           `json:"currency,omitempty" doc:"The currency of the price."`
	GPUs     []DeviceEnergy   `json:"gpus" doc:"Every device of which something was measured, by index."`
	Used     []EnergyUse      `json:"used" doc:"For whom leases used energy, those that have ended included; the most first."`
}

// Cost returns the price of an amount of energy. It is absent if no price is set.
func (e *Energy) Cost(j gpu.Joules) gpu.Opt[float64] {
	price, set := e.Price.Get()
	if !set {
		return gpu.Opt[float64]{}
	}
	return gpu.Some(price * j.WattHours() / 1000)
}

// DeviceEnergy says how much energy a device used. Leases, others and idle add up to the
// total.
type DeviceEnergy struct {
	GPU        string     `json:"gpu" doc:"UUID of the device."`
	Index      int        `json:"index"`
	Name       string     `json:"name,omitempty"`
	Since      time.Time  `json:"since" doc:"When the daemon first measured it. Restarts do not count."`
	Total      gpu.Joules `json:"energy_joules"`
	Leases     gpu.Joules `json:"leases_joules" doc:"What processes under leases used, above what the device draws by itself."`
	Others     gpu.Joules `json:"others_joules" doc:"What processes under no lease used, and what cannot be put down to a lease any more."`
	Idle       gpu.Joules `json:"idle_joules" doc:"What the device draws by itself, also while it works."`
	IdlePower  gpu.Watts  `json:"idle_watts" doc:"What the device draws by itself, as far as the daemon has learned; 0: it has not."`
	Source     string     `json:"source" enum:"counter,power" doc:"counter: the driver counts. power: the daemon adds up the power of its samples."`
	Unmeasured float64    `json:"unmeasured_seconds" doc:"How much of the time since then nobody measured. What was used then is missing."`
}

// EnergyUse says how much energy leases used for a user, a service and a program.
type EnergyUse struct {
	User    string     `json:"user,omitempty" doc:"Absent: users for whom there was no account of their own."`
	Service string     `json:"service,omitempty"`
	Name    string     `json:"name,omitempty" doc:"What the leases were called; only for their user and operators."`
	Energy  gpu.Joules `json:"energy_joules"`
}
