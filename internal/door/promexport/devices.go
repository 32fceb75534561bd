package promexport

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

// deviceMetric returns a metric that each device has: a line, or a line for each value of
// a label.
func deviceMetric(kind prometheus.ValueType, name, help string, label ...string) *family {
	f := metric(kind, name, help, append([]string{"gpu", "index", "name"}, label...)...)
	f.label = strings.Join(label, "")
	return f
}

// reading is one line of the page per device. Absent values make no line: a
// device without a fan must not show a fan that stands still.
type reading struct {
	*family
	value func(*monitor.Reading) gpu.Opt[float64]
}

// answers reports whether a sample is fresh. A device in quarantine is UNAVAILABLE and
// still measured.
func answers(r *monitor.Reading) bool {
	return r.State != gpu.Unavailable || r.Health == gpu.Unhealthy
}

// measured returns a value of the samples of devices.
func measured[T ~float64 | ~int64](of func(*gpu.Sample) gpu.Opt[T]) func(*monitor.Reading) gpu.Opt[float64] {
	return func(r *monitor.Reading) gpu.Opt[float64] {
		if v, known := of(&r.Sample).Get(); known && r.Sampled && answers(r) {
			return gpu.Some(float64(v))
		}
		return gpu.Opt[float64]{}
	}
}

// deviceMetrics lists the metrics of each device. The page does not repeat the last
// values of an UNAVAILABLE device: a stale temperature would keep an alert quiet.
var deviceMetrics = []reading{
	{deviceMetric(gauge, "gpu_utilization_percent", "Share of time in which the device worked."), measured(func(s *gpu.Sample) gpu.Opt[gpu.Percent] { return s.Utilization })},
	{deviceMetric(gauge, "gpu_memory_usage_mb", "Memory in use, in MiB."), measured(func(s *gpu.Sample) gpu.Opt[gpu.MiB] { return s.MemoryUsed })},
	{deviceMetric(gauge, "gpu_memory_total_mb", "Memory of the device, in MiB."), measured(func(s *gpu.Sample) gpu.Opt[gpu.MiB] { return s.MemoryTotal })},
	{deviceMetric(gauge, "gpu_memory_free_mb", "Memory not in use, in MiB."), measured(func(s *gpu.Sample) gpu.Opt[gpu.MiB] { return s.MemoryFree })},
	{deviceMetric(gauge, "gpu_memory_busy_percent", "Share of time in which memory was read or written."), measured(func(s *gpu.Sample) gpu.Opt[gpu.Percent] { return s.MemoryBusy })},
	{deviceMetric(gauge, "gpu_temperature_celsius", "Temperature of the chip."), measured(func(s *gpu.Sample) gpu.Opt[gpu.Celsius] { return s.Temperature })},
	{deviceMetric(gauge, "gpu_memory_temperature_celsius", "Temperature of the memory."), measured(func(s *gpu.Sample) gpu.Opt[gpu.Celsius] { return s.MemoryTemperature })},
	{deviceMetric(gauge, "gpu_power_usage_watts", "Power drawn."), measured(ownPower)},
	{deviceMetric(gauge, "gpu_clock_sm_mhz", "Clock of the multiprocessors."), measured(func(s *gpu.Sample) gpu.Opt[gpu.MHz] { return s.ClockSM })},
	{deviceMetric(gauge, "gpu_clock_memory_mhz", "Clock of the memory."), measured(func(s *gpu.Sample) gpu.Opt[gpu.MHz] { return s.ClockMemory })},
	{deviceMetric(gauge, "gpu_fan_percent", "Speed of the fan."), measured(func(s *gpu.Sample) gpu.Opt[gpu.Percent] { return s.Fan })},
	{deviceMetric(gauge, "gpu_pcie_transmit_mb_per_second", "Sent over PCIe."), measured(func(s *gpu.Sample) gpu.Opt[float64] { return s.PCIeTx })},
	{deviceMetric(gauge, "gpu_pcie_receive_mb_per_second", "Received over PCIe."), measured(func(s *gpu.Sample) gpu.Opt[float64] { return s.PCIeRx })},
	{deviceMetric(counter, "gpu_ecc_corrected_total", "Memory errors that were corrected."), measured(func(s *gpu.Sample) gpu.Opt[int64] { return s.ECCCorrected })},
	{deviceMetric(counter, "gpu_ecc_uncorrected_total", "Memory errors that were not."), measured(func(s *gpu.Sample) gpu.Opt[int64] { return s.ECCUncorrected })},
	{deviceMetric(gauge, "gpu_power_limit_watts", "Power limit in force."), powerLimit},
	{deviceMetric(gauge, "gpu_speed_multiplier", "Share of full speed that work should run at."),
		func(r *monitor.Reading) gpu.Opt[float64] { return gpu.Some(r.Multiplier) }},
	{deviceMetric(gauge, "gpu_temperature_settles_celsius", "Where the temperature of the chip ends at its present power; no line while it is not known."), settles},
	{deviceMetric(gauge, "gpu_healthy", "1 healthy, 0 unhealthy; no line while it is not known."), healthy},
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
	stateFamily    = deviceMetric(gauge, "gpu_state", "1 for the state the device is in, 0 for the others.", "state")
	drainedFamily  = deviceMetric(gauge, "berth_device_drained", "1 while somebody drains the device: leases there go on, and no new ones are granted.")
	causeFamily    = deviceMetric(gauge, "gpu_speed_cause", "1 for what decides gpu_speed_multiplier, 0 for the others.", "cause")
	secondsFamily  = deviceMetric(gauge, "gpu_seconds_to_threshold", "Time until the chip passes a threshold at its present power; no line: not at this power, or not known.", "threshold")
	throttleFamily = deviceMetric(gauge, "gpu_throttle_reason", "1 for each reason why the device runs below its full clock.", "reason")
)

// deviceFamilies returns every metric of a device.
func deviceFamilies() []*family {
	all := []*family{stateFamily, causeFamily, secondsFamily, throttleFamily, drainedFamily}
	for _, m := range deviceMetrics {
		all = append(all, m.family)
	}
	return all
}

// putDevices adds the lines of all devices.
func putDevices(now *Values, out lines) {
	for i := range now.Readings {
		labels := labelsOf(&now.Readings[i].Device)
		now.each(&now.Readings[i], func(f *family, more string, v float64) {
			if f.label == "" {
				out.put(f, v, labels...)
			} else {
				out.put(f, v, append(labels[:len(labels):len(labels)], more)...)
			}
		})
	}
}

// labelsOf returns the labels that every metric of a device has.
func labelsOf(on *gpu.Device) []string { return []string{on.UUID, strconv.Itoa(on.Index), on.Name} }

// fresh drops samples from before monitoring stopped, so that they are not repeated.
func (d *Devices) fresh() {
	for i := range d.Readings {
		r := &d.Readings[i]
		r.Sampled = r.Sampled && d.Watching && !r.Stale
	}
}

// each calls send with every line of a device: its metric, the value of the
// metric's own label if it has one, and the value.
func (d *Devices) each(r *monitor.Reading, send func(f *family, more string, v float64)) {
	for i := range deviceMetrics {
		if v, known := deviceMetrics[i].value(r).Get(); known {
			send(deviceMetrics[i].family, "", v)
		}
	}
	for _, state := range gpu.States() {
		send(stateFamily, string(state), truth(state == r.State))
	}
	send(drainedFamily, "", truth(d.Drained[r.Device.UUID]))
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
