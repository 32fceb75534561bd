package report

import (
	"fmt"
	"strings"
	"time"
)

// Period is the time that a report covers.
type Period struct{ From, Until time.Time }

// steps are the lengths of a step that are easy to read.
var steps = []time.Duration{
	leastMark, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
}

const (
	mostPoints = 360              // of a curve
	mostMarks  = 10_000           // of the times at which something was measured
	leastMark  = 30 * time.Second // the store condenses older samples to half-minutes
)

// Step returns the distance between the points of the curves of the period.
func (p Period) Step() time.Duration {
	for _, s := range steps {
		if p.Until.Sub(p.From)/s <= mostPoints {
			return s
		}
	}
	return (p.Until.Sub(p.From)/mostPoints + time.Hour).Truncate(time.Hour)
}

// Question is a question to the store of the past, over the period of a report.
type Question struct {
	Name string // key of the answer in Answers.Series
	Expr string // in PromQL
	From time.Time
	Step time.Duration
}

// trouble lists the events that a report counts as faults.
const trouble = "critical|overheat|device_lost|device_fault|device_quarantined|lease_over_limit|lease_stop|lease_stopped|lease_timeout|lease_revoked|lease_expired|foreign_use|journal|alert"

// Questions returns the questions to the store of the past. Each point of an answer
// covers the step that ends there, whatever the distance between the samples. Answers about
// counters begin with what they were before the first step.
func (p Period) Questions() []Question {
	step := p.Step()
	over := fmt.Sprintf("[%ds]", int(step.Seconds()))
	mean := func(metric string) string { return "avg by (gpu) (avg_over_time(" + metric + over + "))" }
	most := func(metric string) string { // the long store has the highest values besides the averages
		return "max by (gpu) (max_over_time(" + metric + ":max" + over + ")) or max by (gpu) (max_over_time(" + metric + over + "))"
	}
	last := func(by, metric string) string { return "max by (" + by + ") (last_over_time(" + metric + over + "))" }
	// share is for series that come and go. They count as 0 while they are absent.
	share := func(by, metric string) string {
		return "sum by (" + by + ") (sum_over_time(" + metric + over + ")) / scalar(sum(count_over_time(up" + over + ")))"
	}
	list := []Question{
		{Name: "load", Expr: mean("gpu_utilization_percent")},
		{Name: "busiest", Expr: most("gpu_utilization_percent")},
		{Name: "heat", Expr: most("gpu_temperature_celsius")},
		{Name: "power", Expr: mean("gpu_power_usage_watts")},
		{Name: "memory", Expr: mean("gpu_memory_usage_mb")},
		{Name: "leased", Expr: mean("gpu_memory_leased_mb")},
		{Name: "foreign", Expr: mean("gpu_memory_foreign_mb")},
		{Name: "total", Expr: mean("gpu_memory_total_mb")},
		{Name: "state", Expr: "avg by (gpu, state) (avg_over_time(gpu_state" + over + "))"},
		{Name: "reason", Expr: "sum by (gpu, reason) (sum_over_time(gpu_throttle_reason" + over + `)) / on (gpu) group_left () sum by (gpu) (count_over_time(gpu_state{state="OPTIMAL"}` + over + "))"},
		{Name: "healthy", Expr: mean("gpu_healthy")},
		{Name: "drained", Expr: mean("berth_device_drained")},
		{Name: "energy", Expr: last("gpu", "gpu_energy_joules_total")},
		{Name: "idle_energy", Expr: last("gpu", "gpu_idle_energy_joules_total")},
		{Name: "corrected", Expr: last("gpu", "gpu_ecc_corrected_total")},
		{Name: "uncorrected", Expr: last("gpu", "gpu_ecc_uncorrected_total")},
		{Name: "user_leased", Expr: share("user", "gpu_user_memory_leased_mb")},
		{Name: "user_leases", Expr: share("user", "gpu_user_leases")},
		{Name: "user_waiting", Expr: share("user", "gpu_user_waiting")},
		{Name: "service_leased", Expr: share("service", "gpu_service_memory_leased_mb")},
		{Name: "service_leases", Expr: share("service", "gpu_service_leases")},
		{Name: "service_waiting", Expr: share("service", "gpu_service_waiting")},
		{Name: "service_energy", Expr: last("service", "berth_service_energy_joules_total")},
		{Name: "lease_memory", Expr: share("lease, user, service", "berth_lease_memory_mb")},
		{Name: "lease_used", Expr: share("lease, user, service", "berth_lease_used_mb")},
		{Name: "lease_energy", Expr: last("lease, user, service", "berth_lease_energy_joules_total")},
		{Name: "queue", Expr: "max(avg_over_time(berth_queue_length" + over + "))"},
		{Name: "queue_most", Expr: "max(max_over_time(berth_queue_length:max" + over + ")) or max(max_over_time(berth_queue_length" + over + "))"},
		{Name: "waits", Expr: last("le", "gpu_allocation_duration_seconds_bucket")},
		{Name: "waits_sum", Expr: "max(last_over_time(gpu_allocation_duration_seconds_sum" + over + "))"},
		{Name: "granted", Expr: `max(last_over_time(gpu_allocation_requests_total{status="granted"}` + over + "))"},
		{Name: "refused", Expr: `max(last_over_time(gpu_allocation_requests_total{status="failed"}` + over + "))"},
		{Name: "events", Expr: last("code", `berth_events_total{code=~"`+trouble+`"}`)},
	}
	for i, q := range list {
		if list[i].From, list[i].Step = p.From, step; !strings.Contains(q.Expr, "last_over_time") {
			list[i].From = p.From.Add(step)
		}
	}
	mark := max(leastMark, (p.Until.Sub(p.From)/mostMarks + time.Second).Truncate(time.Second))
	return append(list, Question{Name: "up", Expr: fmt.Sprintf("max(present_over_time(up[%ds]))", int(mark.Seconds())), From: p.From.Add(mark), Step: mark})
}
