package report

import (
	"fmt"
	"time"
)

// Period is the time that a report covers.
type Period struct{ From, Until time.Time }

// steps are the lengths of a step that are easy to read.
var steps = []time.Duration{
	leastStep, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
}

const (
	mostPoints = 360              // of a curve
	leastStep  = 30 * time.Second // the store condenses older samples to half-minutes

	leastPause = 5 * time.Minute
	mostPauses = 11_000 // 38 days of the least
	pausesOnce = 2880   // in an answer: 64 devices are within its limits
)

// Step returns the distance between the points of the curves of the period. Whole steps
// make up the period.
func (p Period) Step() time.Duration {
	length := p.Until.Sub(p.From)
	step := (length/mostPoints + time.Hour).Truncate(time.Hour)
	for _, s := range steps {
		if p.parts(s) <= mostPoints {
			step = s
			break
		}
	}
	return (length / p.parts(step)).Truncate(time.Millisecond)
}

// parts returns how many steps of about a length make up the period.
func (p Period) parts(step time.Duration) time.Duration {
	return max((p.Until.Sub(p.From)+step/2)/step, 1)
}

// Question is a question to the store of the past, over the period of a report.
type Question struct {
	Name        string // key of the answer in Answers.Series; the series of all answers with one name count
	Expr        string // in PromQL
	From, Until time.Time
	Step        time.Duration
}

// trouble lists the events that a report counts as faults.
const trouble = "critical|overheat|device_lost|device_fault|device_quarantined|lease_over_limit|lease_stop|lease_stopped|lease_timeout|lease_revoked|lease_expired|foreign_use|journal|alert"

// Questions returns the questions to the store of the past, that for "up" first. Each point
// of an answer covers the step that ends there, whatever the distance between the samples.
//
// An answer is either an amount, such as seconds, MiB times seconds, joules, or how many:
// the amounts of all steps add up to that of the period, whatever the length of a step, as
// each sample counts for the time since the one before it (see the store of the past). Or
// it is an average or an extreme of the step, which counts for the seconds of the step in
// which the device was measured: "seconds" for each device, "up" for all of the machine.
//
// The steps are those of the curves, but for "idle" and "idle_leased", which have points of
// their own.
func (p Period) Questions() []Question {
	step := p.Step()
	each := before(step)
	over, mean, most, amount := string(each), each.mean, each.most, each.amount
	// held adds up what the daemon has added up all the time, also of the time in which it
	// did not run. An earlier version of berth did not: of its time there are only samples,
	// so at some of them there is no sum. How much time the sums cover says less: those of
	// the time without a daemon are spread over it, perhaps into the step before.
	held := func(by, metric, sampled string) string {
		old := "on () (0.95 * sum(count_over_time(up" + over + ")) > (sum(count_over_time(gpu_service_lease_seconds_total{service=\"\"}" + over + ")) or vector(0)))"
		return "(" + amount(by, metric) + " unless " + old + ") or (" + sampled + " and " + old + ")"
	}
	// The memory of a lease counts as measured while its use was.
	measured := func(by string) string {
		return fmt.Sprintf("sum by (%s) (sum_over_time(berth_lease_used_mb:seconds%s) * avg_over_time(berth_lease_memory_mb%[2]s))", by, over)
	}
	list := []Question{
		{Name: "up", Expr: "sum(sum_over_time(up:seconds" + over + "))"},
		{Name: "seconds", Expr: amount("gpu", "gpu_memory_total_mb:seconds")},
		{Name: "watched", Expr: amount("gpu", `gpu_state:seconds{state="OPTIMAL"}`)}, // also while it does not answer
		{Name: "load", Expr: mean("gpu_utilization_percent")},
		{Name: "heat", Expr: most("gpu_temperature_celsius")},
		{Name: "power", Expr: mean("gpu_power_usage_watts")},
		{Name: "memory", Expr: mean("gpu_memory_usage_mb")},
		{Name: "leased", Expr: mean("gpu_memory_leased_mb")},
		{Name: "foreign", Expr: mean("gpu_memory_foreign_mb")},
		{Name: "total", Expr: mean("gpu_memory_total_mb")},
		{Name: "state", Expr: "avg by (gpu, state) (avg_over_time(gpu_state" + over + "))"},
		{Name: "reason", Expr: amount("gpu, reason", "gpu_throttle_reason:area")},
		{Name: "healthy", Expr: mean("gpu_healthy")},
		{Name: "drained", Expr: mean("berth_device_drained")},
		{Name: "energy", Expr: amount("gpu", "gpu_energy_joules_total:risen")},
		{Name: "idle_energy", Expr: amount("gpu", "gpu_idle_energy_joules_total:risen")},
		{Name: "corrected", Expr: amount("gpu", "gpu_ecc_corrected_total:grown")},
		{Name: "uncorrected", Expr: amount("gpu", "gpu_ecc_uncorrected_total:grown")},
		{Name: "lease_measured", Expr: measured("lease, user, service")},
		{Name: "lease_used", Expr: amount("lease, user, service", "berth_lease_used_mb:area")},
		{Name: "queue", Expr: "max(avg_over_time(berth_queue_length" + over + "))"},
		{Name: "queue_most", Expr: "max(max_over_time(berth_queue_length:max" + over + ")) or max(max_over_time(berth_queue_length" + over + "))"},
		{Name: "waits", Expr: amount("le", "gpu_allocation_duration_seconds_bucket:grown")},
		{Name: "waits_sum", Expr: "sum(sum_over_time(gpu_allocation_duration_seconds_sum:grown" + over + "))"},
		{Name: "granted", Expr: `sum(sum_over_time(gpu_allocation_requests_total:grown{status="granted"}` + over + "))"},
		{Name: "refused", Expr: `sum(sum_over_time(gpu_allocation_requests_total:grown{status="failed"}` + over + "))"},
		{Name: "events", Expr: amount("code", `berth_events_total:grown{code=~"`+trouble+`"}`)},
	}
	for _, by := range []string{"user", "service"} {
		list = append(list,
			Question{Name: by + "_leased", Expr: held(by, "gpu_"+by+"_leased_mb_seconds_total:risen", amount(by, "gpu_"+by+"_memory_leased_mb:area"))},
			Question{Name: by + "_leases", Expr: held(by, "gpu_"+by+"_lease_seconds_total:risen", amount(by, "gpu_"+by+"_leases:area"))},
			Question{Name: by + "_waiting", Expr: held(by, "gpu_"+by+"_waiting_seconds_total:risen", amount(by, "gpu_"+by+"_waiting:area"))},
			Question{Name: by + "_measured", Expr: held(by, "gpu_"+by+"_measured_mb_seconds_total:risen", measured(by))},
			Question{Name: by + "_used", Expr: held(by, "gpu_"+by+"_used_mb_seconds_total:risen", amount(by, "berth_lease_used_mb:area"))},
			Question{Name: by + "_energy", Expr: held(by, "berth_"+by+"_energy_joules_total:risen", amount(by, "berth_lease_energy_joules_total:risen"))},
		)
	}
	for i := range list {
		list[i].From, list[i].Until, list[i].Step = p.Until.Add(-step*(p.parts(step)-1)), p.Until, step // the last step ends with the period
	}
	return append(list, p.pauses()...)
}

// pause returns how long the blocks of time are in which a device has to do nothing at all
// to be idle. They begin at the same times in every period, so that an hour has the same
// ones in a day and in a month.
func (p Period) pause() time.Duration {
	for _, s := range steps {
		if s >= leastPause && p.parts(s) <= mostPauses {
			return s
		}
	}
	return steps[len(steps)-1]
}

// pauses asks for how many seconds of each block in which a device had nothing to do that
// was measured, whether it had leases or not, and while it had.
func (p Period) pauses() (list []Question) {
	pause := p.pause()
	over := before(pause)
	still := fmt.Sprintf("%s and (%s) < %d", over.amount("gpu", "gpu_utilization_percent:seconds"), over.most("gpu_utilization_percent"), idle)
	end := p.Until.Add(pause - 1).Truncate(pause)
	for from := p.From.Truncate(pause); from.Before(end); from = from.Add(pausesOnce * pause) {
		q := Question{Name: "idle", Expr: still, From: from.Add(pause), Until: from.Add(pausesOnce * pause), Step: pause}
		if q.Until.After(end) {
			q.Until = end
		}
		list = append(list, q)
		q.Name, q.Expr = "idle_leased", still+" and "+over.mean("gpu_memory_leased_mb")+" > 0"
		list = append(list, q)
	}
	return list
}

// window is the time before each point of an answer, in PromQL.
type window string

func before(step time.Duration) window { return window(fmt.Sprintf("[%dms]", step.Milliseconds())) }

func (w window) mean(metric string) string {
	return fmt.Sprintf("avg by (gpu) (avg_over_time(%s%s))", metric, w)
}

func (w window) most(metric string) string { // the long store has the highest values besides the averages
	return fmt.Sprintf("max by (gpu) (max_over_time(%s:max%s)) or max by (gpu) (max_over_time(%[1]s%[2]s))", metric, w)
}

func (w window) amount(by, metric string) string {
	return fmt.Sprintf("sum by (%s) (sum_over_time(%s%s))", by, metric, w)
}
