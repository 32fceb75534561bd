package nvml

import (
	"context"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/when"
)

// Slow reads the metrics that cost milliseconds. Unlike Fast, it does not fail if the
// device supports none: a MIG instance has none of these.
func (c *card) Slow(ctx context.Context, into *gpu.Slow) error {
	return c.read(ctx, func(s *session, h nvml.Device) error {
		r := round{absent: &c.absent, doubted: &c.doubted}
		got := gpu.Slow{SlowTime: into.SlowTime}
		if mj, ok := ask(&r, energy, h.GetTotalEnergyConsumption); ok {
			got.Energy = gpu.Some(float64(mj) / 1000)
		}
		if percent, ok := ask(&r, fan, h.GetFanSpeed); ok {
			// A fan may run faster than its maker rates as full.
			got.Fan = gpu.Some(gpu.Percent(min(percent, 100)))
		}
		got.PCIeTx = throughput(&r, h, pcieTx, nvml.PCIE_UTIL_TX_BYTES)
		got.PCIeRx = throughput(&r, h, pcieRx, nvml.PCIE_UTIL_RX_BYTES)
		got.ECCCorrected = errorsTotal(&r, h, eccCorrected, nvml.MEMORY_ERROR_TYPE_CORRECTED)
		got.ECCUncorrected = errorsTotal(&r, h, eccUncorrected, nvml.MEMORY_ERROR_TYPE_UNCORRECTED)
		got.ProcessUtilization = c.readProcessUtilization(&r, h)
		if r.gone != nvml.SUCCESS {
			return c.failed(s, r.gone)
		}
		r.settle()
		*into = got
		return nil
	})
}

// throughput returns MiB per second, which NVML measures over 20 ms.
func throughput(r *round, h nvml.Device, m metric, counter nvml.PcieUtilCounter) gpu.Opt[float64] {
	kib, ok := ask(r, m, func() (uint32, nvml.Return) { return h.GetPcieThroughput(counter) })
	if !ok {
		return gpu.Opt[float64]{}
	}
	return gpu.Some(float64(kib) / 1024)
}

// errorsTotal returns the errors over the life of the device: a count since the driver
// was loaded would hide old errors.
func errorsTotal(r *round, h nvml.Device, m metric, kind nvml.MemoryErrorType) gpu.Opt[int64] {
	count, ok := ask(r, m, func() (uint64, nvml.Return) {
		return h.GetTotalEccErrors(kind, nvml.AGGREGATE_ECC)
	})
	if !ok {
		return gpu.Opt[int64]{}
	}
	return gpu.Some(int64(count))
}

// readProcessUtilization returns the newest sample of each process since the last
// reading; a process without one was idle. The driver pads the list with empty samples.
func (c *card) readProcessUtilization(r *round, h nvml.Device) map[int]gpu.Percent {
	now := uint64(when.Now().Add(time.Second).UnixMicro())
	if c.sampled > now { // the clock was set back
		c.sampled = 0
	}
	samples, ok := ask(r, processUtilization, func() ([]nvml.ProcessUtilizationSample, nvml.Return) {
		samples, ret := h.GetProcessUtilization(c.sampled)
		if ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INSUFFICIENT_SIZE {
			return nil, nvml.SUCCESS // nothing since then
		}
		return samples, ret
	})
	if !ok {
		return nil
	}
	shares := map[int]gpu.Percent{}
	newest := map[uint32]uint64{}
	since := c.sampled
	for _, s := range samples {
		if s.Pid == 0 || s.TimeStamp <= since || s.TimeStamp > now || s.TimeStamp < newest[s.Pid] || s.SmUtil > 100 {
			continue
		}
		newest[s.Pid] = s.TimeStamp
		shares[int(s.Pid)] = gpu.Percent(s.SmUtil)
		c.sampled = max(c.sampled, s.TimeStamp)
	}
	return shares
}
