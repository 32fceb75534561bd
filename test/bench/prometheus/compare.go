package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// tolerance is how much answers may differ.
const tolerance = 0.02

// queries are questions to which both must have the same answer. berth stores
// devices every second and the rest every ten, and drivers
// count energy in steps of seconds, so ranges are long enough for that.
var queries = []string{
	`up`,
	`gpu_memory_total_mb`,
	`100 * gpu_memory_usage_mb / gpu_memory_total_mb`,
	`sum by (gpu) (gpu_memory_leased_mb)`,
	`sum by (service) (gpu_service_memory_leased_mb{service!=""})`,
	`avg_over_time(gpu_temperature_celsius[60s])`,
	`max_over_time(gpu_power_usage_watts[60s])`,
	`min_over_time(gpu_memory_free_mb[60s])`,
	`quantile_over_time(0.5, gpu_utilization_percent[60s])`,
	`last_over_time(gpu_clock_memory_mhz[30s])`,
	`rate(gpu_energy_joules_total[2m])`,
	`deriv(gpu_energy_joules_total[2m])`,
	`predict_linear(gpu_energy_joules_total[2m], 60)`,
	`delta(gpu_energy_joules_total[2m])`,
	`sum by (status) (rate(gpu_allocation_requests_total{status!="withdrawn"}[1m]))`,
	`sum(increase(gpu_throughput_ops_total[1m]))`,
	`histogram_quantile(0.5, sum by (le, service) (rate(gpu_operation_latency_seconds_bucket[1m])))`,
	`histogram_quantile(0.95, sum by (le) (rate(gpu_operation_latency_seconds_bucket[1m])))`,
	`rate(gpu_operation_latency_seconds_sum[1m]) / rate(gpu_operation_latency_seconds_count[1m])`,
	`gpu_slots{kind="capacity"} / ignoring (kind) gpu_slots{kind="capacity"}`,
	`gpu_memory_total_mb * on (instance) group_left (version) berth_build_info`,
	`gpu_memory_usage_mb and on (gpu) gpu_state{state="OPTIMAL"} == 1`,
	`gpu_memory_total_mb unless gpu_memory_total_mb`,
	`absent(gpu_no_such_metric)`,
	`absent(up)`,
	`topk(1, gpu_memory_usage_mb)`,
	`bottomk(1, avg_over_time(gpu_power_usage_watts[60s]))`,
	`label_replace(gpu_memory_total_mb, "short", "$1", "gpu", "SIM-(.*)")`,
	`label_join(gpu_memory_total_mb, "both", "-", "gpu", "index")`,
	`avg_over_time(gpu_power_usage_watts[30s] offset 30s)`,
	`gpu_memory_total_mb offset 1m`,
	`max_over_time(rate(gpu_energy_joules_total[2m])[60s:10s])`,
	`avg_over_time(sum(gpu_power_usage_watts)[60s:5s])`,
	`count by (state) (gpu_state == 1)`,
	`changes(gpu_memory_total_mb[60s])`,
	`resets(gpu_energy_joules_total[60s])`,
	`count_values("mb", gpu_memory_total_mb)`,
	`clamp_max(gpu_memory_usage_mb, 10000)`,
	`sort_desc(gpu_memory_usage_mb)`,
	`gpu_memory_usage_mb > bool 10000`,
	`vector(1) + scalar(sum(up))`,
}

// compareAll asks both every query, about three moments and about a minute.
func compareAll(ctx context.Context, berth, other server, at time.Time) error {
	fmt.Printf("\n%-100s %8s %7s\n", "query", "answers", "ratio")
	var wrong []error
	for _, expr := range queries {
		worst, compared := 1.0, 0
		for _, how := range []func(server) (answer, error){
			func(s server) (answer, error) { return s.instant(ctx, expr, at) },
			func(s server) (answer, error) { return s.instant(ctx, expr, at.Add(-7*time.Second)) },
			func(s server) (answer, error) { return s.instant(ctx, expr, at.Add(-20*time.Second)) },
			func(s server) (answer, error) { return s.over(ctx, expr, at) },
		} {
			got, err := how(berth)
			want, otherErr := how(other)
			if err := errors.Join(err, otherErr); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", expr, err))
				continue
			}
			ratio, n, err := compare(got, want)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", expr, err))
			}
			if compared += n; math.Abs(math.Log(ratio)) > math.Abs(math.Log(worst)) {
				worst = ratio
			}
		}
		fmt.Printf("%-100s %8d %7.4f\n", expr, compared, worst)
	}
	fmt.Printf("%d queries\n", len(queries))
	return errors.Join(wrong...)
}

// compare returns the ratio that is furthest from 1, and how many values there are.
func compare(got, want answer) (worst float64, n int, err error) {
	worst = 1
	for key := range got {
		if _, there := want[key]; !there {
			return worst, n, fmt.Errorf("only berth has %s", key)
		}
	}
	for key, points := range want {
		own := got[key]
		if len(own) != len(points) {
			return worst, n, fmt.Errorf("berth has %d values of %s, and Prometheus %d", len(own), key, len(points))
		}
		for i, p := range points {
			n++
			ratio := 1.0
			switch a, b := own[i].value, p.value; {
			case own[i].at != p.at:
				return worst, n, fmt.Errorf("berth answers %s at %v, and Prometheus at %v", key, own[i].at, p.at)
			case a == b, math.IsNaN(a) && math.IsNaN(b):
			default:
				ratio = a / b
			}
			if !(math.Abs(ratio-1) <= tolerance) { // NaN is not within it
				err = fmt.Errorf("%s is %v, and Prometheus says %v", key, own[i].value, p.value)
			}
			if ratio > 0 && math.Abs(math.Log(ratio)) > math.Abs(math.Log(worst)) {
				worst = ratio
			}
		}
	}
	return worst, n, err
}
