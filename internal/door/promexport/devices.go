package promexport

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

// family is a metric that each device has: a line, or a line for each value of a
// label.
type family struct {
	desc       *prometheus.Desc
	name, help string
	kind       prometheus.ValueType
	label      string // beside those of the device; empty if none
}

func deviceFamily(name, help string, kind prometheus.ValueType, label ...string) *family {
	return &family{describe(name, help, label...), name, help, kind, strings.Join(label, "")}
}

// metric is one line of the page per device. Absent values make no line: a
// device without a fan must not show a fan that stands still.
type metric struct {
	*family
	value func(*monitor.Reading) gpu.Opt[float64]
}

var deviceLabels = []string{"gpu", "index", "name"}

func describe(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append(deviceLabels[:len(deviceLabels):len(deviceLabels)], more...), nil)
}

// answers reports whether a sample is fresh. A device in quarantine is UNAVAILABLE and
// still measured.
func answers(r *monitor.Reading) bool {
	return r.State != gpu.Unavailable || r.Health == gpu.Unhealthy
}

// fromSample returns a metric from a value of a sample.
func fromSample[T ~float64 | ~int64](name, help string, kind prometheus.ValueType, of func(*gpu.Sample) gpu.Opt[T]) metric {
	return metric{deviceFamily(name, help, kind), func(r *monitor.Reading) gpu.Opt[float64] {
		if v, known := of(&r.Sample).Get(); known && r.Sampled && answers(r) {
			return gpu.Some(float64(v))
		}
		return gpu.Opt[float64]{}
	}}
}

const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue

// deviceMetrics lists the metrics of each device. The page does not repeat the last
// values of an UNAVAILABLE device: a stale temperature would keep an alert quiet.
var deviceMetrics = []metric{
	fromSample("gpu_utilization_percent", "Share of time in which the device worked.", gauge, func(s *gpu.Sample) gpu.Opt[gpu.Percent] { return s.Utilization }),
	fromSample("gpu_memory_usage_mb", "Memory in use, in MiB.", gauge, func(s *gpu.Sample) gpu.Opt[gpu.MiB] { return s.MemoryUsed }),
	fromSample("gpu_memory_total_mb", "Memory of the device, in MiB.", gauge, func(s *gpu.Sample) gpu.Opt[gpu.MiB] { return s.MemoryTotal }),
	fromSample("gpu_memory_free_mb", "Memory not in use, in MiB.", gauge, func(s *gpu.Sample) gpu.Opt[gpu.MiB] { return s.MemoryFree }),
	fromSample("gpu_memory_busy_percent", "Share of time in which memory was read or written.", gauge, func(s *gpu.Sample) gpu.Opt[gpu.Percent] { return s.MemoryBusy }),
	fromSample("gpu_temperature_celsius", "Temperature of the chip.", gauge, func(s *gpu.Sample) gpu.Opt[gpu.Celsius] { return s.Temperature }),
	fromSample("gpu_memory_temperature_celsius", "Temperature of the memory.", gauge, func(s *gpu.Sample) gpu.Opt[gpu.Celsius] { return s.MemoryTemperature }),
	fromSample("gpu_power_usage_watts", "Power drawn.", gauge, ownPower),
	fromSample("gpu_clock_sm_mhz", "Clock of the multiprocessors.", gauge, func(s *gpu.Sample) gpu.Opt[gpu.MHz] { return s.ClockSM }),
	fromSample("gpu_clock_memory_mhz", "Clock of the memory.", gauge, func(s *gpu.Sample) gpu.Opt[gpu.MHz] { return s.ClockMemory }),
	fromSample("gpu_fan_percent", "Speed of the fan.", gauge, func(s *gpu.Sample) gpu.Opt[gpu.Percent] { return s.Fan }),
	fromSample("gpu_pcie_transmit_mb_per_second", "Sent over PCIe.", gauge, func(s *gpu.Sample) gpu.Opt[float64] { return s.PCIeTx }),
	fromSample("gpu_pcie_receive_mb_per_second", "Received over PCIe.", gauge, func(s *gpu.Sample) gpu.Opt[float64] { return s.PCIeRx }),
	fromSample("gpu_ecc_corrected_total", "Memory errors that were corrected.", counter, func(s *gpu.Sample) gpu.Opt[int64] { return s.ECCCorrected }),
	fromSample("gpu_ecc_uncorrected_total", "Memory errors that were not.", counter, func(s *gpu.Sample) gpu.Opt[int64] { return s.ECCUncorrected }),
	{deviceFamily("gpu_power_limit_watts", "Power limit in force.", gauge), powerLimit},
	{deviceFamily("gpu_speed_multiplier", "Share of full speed that work should run at.", gauge),
		func(r *monitor.Reading) gpu.Opt[float64] { return gpu.Some(r.Multiplier) }},
	{deviceFamily("gpu_temperature_settles_celsius", "Where the temperature of the chip ends at its present power; no line while it is not known.", gauge), settles},
	{deviceFamily("gpu_healthy", "1 healthy, 0 unhealthy; no line while it is not known.", gauge), healthy},
}

func powerLimit(r *monitor.Reading) gpu.Opt[float64] {
	if limit, known := r.Device.PowerLimit.Get(); known && answers(r) {
		return gpu.Some(float64(limit))
	}
	return gpu.Opt[float64]{}
}

// ownPower omits the power of another device, which a sum would count twice.
func ownPower(s *gpu.Sample) gpu.Opt[gpu.Watts] {
	if s.PowerOf != "" {
		return gpu.Opt[gpu.Watts]{}
	}
	return s.Power
}

// outlook returns the forecast of a device's temperature. It returns nil if there is
// none, or if the device does not answer.
func outlook(r *monitor.Reading) *monitor.Outlook {
	if !r.Sampled || !answers(r) {
		return nil
	}
	return r.Outlook
}

func settles(r *monitor.Reading) gpu.Opt[float64] {
	o := outlook(r)
	if o == nil {
		return gpu.Opt[float64]{}
	}
	return gpu.Some(float64(o.Settles.Mean))
}

func healthy(r *monitor.Reading) gpu.Opt[float64] {
	switch r.Health {
	case gpu.Healthy:
		return gpu.Some(1.0)
	case gpu.Unhealthy:
		return gpu.Some(0.0)
	}
	return gpu.Opt[float64]{}
}

var (
	stateFamily    = deviceFamily("gpu_state", "1 for the state the device is in, 0 for the others.", gauge, "state")
	drainedFamily  = deviceFamily("berth_device_drained", "1 while somebody drains the device: leases there go on, and no new ones are granted.", gauge)
	causeFamily    = deviceFamily("gpu_speed_cause", "1 for what decides gpu_speed_multiplier, 0 for the others.", gauge, "cause")
	secondsFamily  = deviceFamily("gpu_seconds_to_threshold", "Time until the chip passes a threshold at its present power; no line: not at this power, or not known.", gauge, "threshold")
	throttleFamily = deviceFamily("gpu_throttle_reason", "1 for each reason why the device runs below its full clock.", gauge, "reason")
)

// deviceFamilies returns every metric of a device.
func deviceFamilies() []*family {
	all := []*family{stateFamily, causeFamily, secondsFamily, throttleFamily, drainedFamily}
	for _, m := range deviceMetrics {
		all = append(all, m.family)
	}
	return all
}

// devices is a collector over the monitor's readings.
type devices struct{ from Sources }

func (d *devices) Describe(out chan<- *prometheus.Desc) {
	for _, f := range deviceFamilies() {
		out <- f.desc
	}
}

func (d *devices) Collect(out chan<- prometheus.Metric) {
	watching := d.from.Watching()
	for _, r := range d.from.Readings() {
		labels := []string{r.Device.UUID, strconv.Itoa(r.Device.Index), r.Device.Name}
		d.lines(&r, watching, func(f *family, more string, v float64) {
			values := labels[:len(labels):len(labels)]
			if f.label != "" {
				values = append(values, more)
			}
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, v, values...)
		})
	}
}

// lines calls send with every line of a device: its metric, the value of the
// metric's own label if it has one, and the value.
func (d *devices) lines(r *monitor.Reading, watching bool, send func(f *family, more string, v float64)) {
	r.Sampled = r.Sampled && watching && !r.Stale // values from before monitoring stopped are not repeated either
	for i := range deviceMetrics {
		if v, known := deviceMetrics[i].value(r).Get(); known {
			send(deviceMetrics[i].family, "", v)
		}
	}
	for _, state := range gpu.States() {
		send(stateFamily, string(state), truth(state == r.State))
	}
	send(drainedFamily, "", truth(d.from.Drained != nil && d.from.Drained(r.Device)))
	for _, cause := range causes {
		send(causeFamily, cause, truth(cause == r.Cause))
	}
	if o := outlook(r); o != nil {
		for _, c := range o.Crossings {
			if c.Ever {
				send(secondsFamily, c.Threshold, c.In.Seconds())
			}
		}
	}
	if r.Sampled && answers(r) {
		for _, reason := range r.Sample.Throttle {
			send(throttleFamily, string(reason), 1)
		}
	}
}

var causes = []string{monitor.CauseState, monitor.CauseForecast}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
