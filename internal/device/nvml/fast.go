package nvml

import (
	"context"
	"encoding/binary"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/gpu"
)

// Fast reads the metrics that cost microseconds.
func (c *card) Fast(ctx context.Context, into *gpu.Sample) error {
	return c.read(ctx, func(s *session, h nvml.Device) error {
		r := round{absent: &c.absent, doubted: &c.doubted}
		got := gpu.Sample{GPU: into.GPU, Time: into.Time, Slow: into.Slow}
		readMemory(&r, h, &got)
		readLoad(&r, h, &got)
		got.Processes = c.readProcesses(&r, s, h)
		if c.slice == nil {
			readHeat(&r, h, &got)
			readClocks(&r, s, h, &got)
		} else if c.whole != nil && r.answers > 0 { // an instance has no sensors of its own
			readHeat(&r, c.whole, &got)
			readClocks(&r, s, c.whole, &got)
			got.PowerOf = c.slice.parent
		}
		if ret := r.verdict(); ret != nvml.SUCCESS {
			return c.failed(s, ret)
		}
		*into = got
		return nil
	})
}

// readMemory counts the driver's own memory as used, so that used and free add up to
// total: no program can get the driver's part. NVML's older call counts it that way too;
// its newer one sets that part aside.
func readMemory(r *round, h nvml.Device, into *gpu.Sample) {
	if m, ok := ask(r, memory, h.GetMemoryInfo); ok {
		total, free := gpu.MiBOf(m.Total), gpu.MiBOf(m.Free)
		into.MemoryTotal = gpu.Some(total)
		into.MemoryFree = gpu.Some(free)
		into.MemoryUsed = gpu.Some(total - free)
	}
}

func readLoad(r *round, h nvml.Device, into *gpu.Sample) {
	if u, ok := ask(r, utilization, h.GetUtilizationRates); ok {
		into.Utilization = gpu.Some(gpu.Percent(u.Gpu))
		into.MemoryBusy = gpu.Some(gpu.Percent(u.Memory))
	}
}

func readHeat(r *round, h nvml.Device, into *gpu.Sample) {
	if t, ok := ask(r, temperature, func() (uint32, nvml.Return) {
		return h.GetTemperature(nvml.TEMPERATURE_GPU)
	}); ok {
		into.Temperature = gpu.Some(gpu.Celsius(t))
	}
	if t, ok := ask(r, memoryTemperature, func() (uint32, nvml.Return) {
		return field(h, nvml.FI_DEV_MEMORY_TEMP)
	}); ok {
		into.MemoryTemperature = gpu.Some(gpu.Celsius(t))
	}
	if mw, ok := ask(r, power, h.GetPowerUsage); ok {
		into.Power = gpu.Some(gpu.Watts(mw) / 1000)
	}
}

// field reads a field value that is an unsigned number. Some cards return zero if they
// have no sensor.
func field(h nvml.Device, id uint32) (uint32, nvml.Return) {
	values := []nvml.FieldValue{{FieldId: id}}
	if ret := h.GetFieldValues(values); ret != nvml.SUCCESS {
		return 0, ret
	}
	v := values[0]
	if ret := nvml.Return(v.NvmlReturn); ret != nvml.SUCCESS {
		return 0, ret
	}
	number := binary.NativeEndian.Uint32(v.Value[:])
	if nvml.ValueType(v.ValueType) != nvml.VALUE_TYPE_UNSIGNED_INT || number == 0 {
		return 0, nvml.ERROR_NOT_SUPPORTED
	}
	return number, nvml.SUCCESS
}

func readClocks(r *round, s *session, h nvml.Device, into *gpu.Sample) {
	clock := func(m metric, t nvml.ClockType) gpu.Opt[gpu.MHz] {
		mhz, ok := ask(r, m, func() (uint32, nvml.Return) { return h.GetClockInfo(t) })
		if !ok {
			return gpu.Opt[gpu.MHz]{}
		}
		return gpu.Some(gpu.MHz(mhz))
	}
	into.ClockSM = clock(clockSM, nvml.CLOCK_SM)
	into.ClockMemory = clock(clockMemory, nvml.CLOCK_MEM)

	reasons := h.GetCurrentClocksThrottleReasons // the older name of the same
	if s.hasEventReasons {
		reasons = h.GetCurrentClocksEventReasons
	}
	if bits, ok := ask(r, throttle, reasons); ok {
		into.Throttle = throttleReasons(bits)
	}
}

// throttleWords maps NVML's bits to berth's words.
var throttleWords = []struct {
	bit    uint64
	reason gpu.ThrottleReason
}{
	{nvml.ClocksEventReasonGpuIdle, gpu.ThrottleIdle},
	{nvml.ClocksEventReasonApplicationsClocksSetting, gpu.ThrottleAppClocks},
	{nvml.ClocksEventReasonSwPowerCap, gpu.ThrottlePowerCap},
	{nvml.ClocksThrottleReasonHwSlowdown, gpu.ThrottleHardware},
	{nvml.ClocksEventReasonSyncBoost, gpu.ThrottleSync},
	{nvml.ClocksEventReasonSwThermalSlowdown, gpu.ThrottleThermal},
	{nvml.ClocksThrottleReasonHwThermalSlowdown, gpu.ThrottleThermalHW},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, gpu.ThrottlePowerBrake},
	{nvml.ClocksEventReasonDisplayClockSetting, gpu.ThrottleDisplayClocks},
}

// throttleReasons returns the reasons of bits. It never returns nil: an empty list says
// that nothing slows the device down.
func throttleReasons(bits uint64) []gpu.ThrottleReason {
	reasons := []gpu.ThrottleReason{}
	for _, w := range throttleWords {
		if bits&w.bit != 0 {
			reasons = append(reasons, w.reason)
		}
	}
	return reasons
}
