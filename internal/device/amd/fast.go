package amd

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// core lists the sensors of the chip, best first. The edge is what other vendors call the
// temperature of a GPU; server boards have only the hottest spot.
var core = []string{"edge", "junction", "1"}

// Fast reads a dozen small files.
func (c *card) Fast(ctx context.Context, into *gpu.Sample) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at := c.at.Load()
	got := gpu.Sample{GPU: into.GPU, Time: into.Time, Slow: into.Slow}
	failed := c.readMemory(at, &got)
	got.Utilization, failed = percent(at, "gpu_busy_percent", failed)
	got.MemoryBusy, failed = percent(at, "mem_busy_percent", failed)
	got.Temperature = at.sensors.Temperature("input", core...)
	got.MemoryTemperature = at.sensors.Temperature("input", "mem")
	got.Power = at.sensors.Watts("power1_average", "power1_input")
	got.ClockSM = at.sensors.Megahertz("freq1_input")
	got.ClockMemory = at.sensors.Megahertz("freq2_input")
	got.Throttle = readThrottle(at)
	if failed != nil && !got.MemoryUsed.Known() && !got.Utilization.Known() && !got.Temperature.Known() && !got.Power.Known() {
		return c.silent(at, failed)
	}
	got.Processes = c.readProcesses(at)
	*into = got
	return nil
}

// readMemory reads how much of the GPU's own memory is in use.
func (c *card) readMemory(at *place, into *gpu.Sample) error {
	bytes, err := drm.Number(at.Device, "mem_info_vram_used")
	total := c.desc.Load().MemoryTotal
	if err != nil || bytes < 0 || total <= 0 {
		return err
	}
	used := min(gpu.MiBOf(uint64(bytes)), total)
	into.MemoryTotal, into.MemoryUsed, into.MemoryFree = gpu.Some(total), gpu.Some(used), gpu.Some(total-used)
	return nil
}

func percent(at *place, name string, before error) (gpu.Opt[gpu.Percent], error) {
	n, err := drm.Number(at.Device, name)
	if err != nil || n < 0 || n > 100 {
		return gpu.Opt[gpu.Percent]{}, cmp.Or(before, err)
	}
	return gpu.Some(gpu.Percent(n)), before
}

func readThrottle(at *place) []gpu.ThrottleReason {
	var space [1024]byte
	table, err := drm.Read(filepath.Join(at.Device, "gpu_metrics"), space[:])
	if err != nil {
		return nil
	}
	return throttleReasons(table)
}

// readProcesses returns the processes that have the GPU open or compute on it. For a
// process that does both, the larger amount of memory counts.
func (c *card) readProcesses(at *place) []gpu.Process {
	used, _ := c.openers.Of(&at.Card)
	c.usage.Add(c.now(), used)
	list := drm.Processes(used)
	for pid, memory := range at.computing(c.root) {
		i := slices.IndexFunc(list, func(p gpu.Process) bool { return p.PID == pid })
		if i < 0 {
			i = len(list)
			list = append(list, gpu.Process{PID: pid, Name: c.openers.Name(pid)})
		}
		list[i].Kind = gpu.Compute
		list[i].Memory = gpu.Some(max(memory, list[i].Memory.Or(0)))
	}
	slices.SortFunc(list, func(a, b gpu.Process) int { return cmp.Compare(a.PID, b.PID) })
	return list
}
