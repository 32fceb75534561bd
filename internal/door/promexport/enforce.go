package promexport

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park"
)

var (
	pacedMetric         = deviceMetric(gauge, "berth_paced_leases", "Leases on the device whose processes berth stops and continues in short cycles.")
	pacedShareMetric    = deviceMetric(gauge, "berth_paced_share_ratio", "The least share that a lease on the device is held to; 1: none is.")
	pacedMeasuredMetric = deviceMetric(gauge, "berth_paced_measured_ratio", "What that lease gets of what it would get without pauses.")
)

// Paced is a lease that is held to a share.
type Paced struct {
	GPUs     []string         // UUIDs
	Share    float64          // from 0 to 1
	Measured gpu.Opt[float64] // the share it gets; absent if not known yet
}

// pacing shows the leases that are held to a share.
var pacing = group{[]*family{pacedMetric, pacedShareMetric, pacedMeasuredMetric}, func(now *Values, out lines) {
	for i := range now.Readings {
		count, least := 0, Paced{Share: 1}
		for _, p := range now.Paced {
			if !slices.Contains(p.GPUs, now.Readings[i].Device.UUID) {
				continue
			}
			if count++; p.Share < least.Share {
				least = p
			}
		}
		labels := labelsOf(&now.Readings[i].Device)
		out.put(pacedMetric, float64(count), labels...)
		out.put(pacedShareMetric, least.Share, labels...)
		if measured, known := least.Measured.Get(); known {
			out.put(pacedMeasuredMetric, measured, labels...)
		}
	}
}}

var (
	parkBytesMetric  = metric(counter, "berth_park_bytes_total", "Memory that was moved off devices (away) and back (back).", "direction")
	parkTookMetric   = metric(counter, "berth_park_seconds_total", "How long moving memory off devices (away) and back (back) has taken.", "direction")
	parkFailedMetric = metric(counter, "berth_park_failures_total", "Steps of parking and resuming that a driver refused or did not finish.", "step")
	reclaimedMetric  = metric(counter, "berth_reclaimed_bytes_total", "Memory that optimizations got back, as measured, by rung; for shrink: what became free to lease.", "rung")
)

// reclaiming shows what parking and optimizations did.
var reclaiming = group{[]*family{parkBytesMetric, parkTookMetric, parkFailedMetric, reclaimedMetric}, func(now *Values, out lines) {
	for _, goal := range []park.Goal{park.Away, park.Back} {
		out.put(parkBytesMetric, bytes(now.Parking.Moved[goal]), string(goal))
		out.put(parkTookMetric, now.Parking.Took[goal].Seconds(), string(goal))
	}
	for _, step := range move.Steps() {
		out.put(parkFailedMetric, float64(now.Parking.Failures[step]), string(step))
	}
	for rung, freed := range now.Optimized.Freed {
		out.put(reclaimedMetric, bytes(freed), rung)
	}
}}

var (
	pastWrittenMetric = metric(gauge, "berth_past_last_sample_timestamp_seconds", "When samples were last stored.")
	evaluatedMetric   = metric(gauge, "berth_rule_group_last_evaluation_timestamp_seconds", "When the alert rules of a group were last evaluated.", "group")
)

// remembering shows when the past and the rules were last seen to work.
var remembering = group{[]*family{pastWrittenMetric, evaluatedMetric}, func(now *Values, out lines) {
	for group, last := range now.Evaluated {
		out.put(evaluatedMetric, seconds(last), group)
	}
	if !now.Past.Written.IsZero() {
		out.put(pastWrittenMetric, seconds(now.Past.Written))
	}
}}
