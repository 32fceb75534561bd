package sim

import (
	"context"
	"math"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// Fast fills everything in a sample but Slow, GPU and Time.
func (c *card) Fast(_ context.Context, into *gpu.Sample) error {
	return c.look(func(_ time.Duration, r reading) {
		c.fillMemory(r.processes, into)
		c.fillPhysics(r.load, into)
	})
}

// fillPhysics fills what the plant determines. The caller holds mu.
func (c *card) fillPhysics(load float64, into *gpu.Sample) {
	p, m := c.plant, c.model
	into.Utilization = gpu.Some(gpu.Percent(math.Round(100 * load)))
	into.MemoryBusy = gpu.Some(gpu.Percent(math.Round(m.MemoryBusy * load)))
	into.Temperature = gpu.Some(gpu.Celsius(math.Round(p.celsius())))
	if len(m.MemoryModes) > 0 {
		into.MemoryTemperature = gpu.Some(gpu.Celsius(math.Round(p.memoryCelsius())))
	}
	into.Power = gpu.Some(gpu.Watts(math.Round(p.sensor*10) / 10))
	into.Throttle = []gpu.ThrottleReason{}
	if p.asleep(load) {
		into.ClockSM, into.ClockMemory = gpu.Some(m.Clocks.SMIdle), gpu.Some(m.Clocks.MemoryIdle)
		into.Throttle = append(into.Throttle, gpu.ThrottleIdle)
		return
	}
	const step = 15 // MHz, the grain of real clocks
	into.ClockSM = gpu.Some(gpu.MHz(math.Round(float64(m.Clocks.SM)*p.clock(load)/step) * step))
	into.ClockMemory = gpu.Some(m.Clocks.Memory)
	if m.Power.capped(load, p.cap) < min(1, p.governor) {
		into.Throttle = append(into.Throttle, gpu.ThrottlePowerCap)
	}
	if p.governor < 1 {
		into.Throttle = append(into.Throttle, gpu.ThrottleThermal)
	}
}

// fillMemory divides the memory among processes, less what the driver takes. A
// process that wants more than there is gets the rest. The caller holds mu.
func (c *card) fillMemory(processes []running, into *gpu.Sample) {
	free := max(0, c.model.Memory-c.model.DriverMemory)
	into.Processes = make([]gpu.Process, 0, len(processes))
	for _, r := range processes {
		memory := min(r.memory, free)
		free -= memory
		into.Processes = append(into.Processes, gpu.Process{
			PID: r.pid, Name: gpu.Printable(r.name, 128), Kind: gpu.Compute, Memory: gpu.Some(memory),
		})
	}
	into.MemoryTotal = gpu.Some(c.model.Memory)
	into.MemoryUsed = gpu.Some(c.model.Memory - free)
	into.MemoryFree = gpu.Some(free)
}

// Slow fills energy, fan, memory errors and load per process. There is no PCIe
// traffic to measure, so it stays absent.
func (c *card) Slow(_ context.Context, into *gpu.Slow) error {
	return c.look(func(now time.Duration, r reading) {
		into.ProcessUtilization = shares(r.processes)
		into.Energy = gpu.Some(c.plant.joules)
		if c.model.Fan != nil {
			own := gpu.Percent(math.Round(c.model.Fan.speed(c.plant.celsius())))
			into.Fan = gpu.Some(c.hand.fan.Or(own))
		}
		if c.model.ECC {
			into.ECCCorrected = gpu.Some(c.script.memoryErrors(now, corrected))
			into.ECCUncorrected = gpu.Some(c.script.memoryErrors(now, uncorrected))
		}
	})
}

// shares returns the load of each process in percent. If they want more than there is,
// each gets its share.
func shares(processes []running) map[int]gpu.Percent {
	wanted := 0.0
	for _, r := range processes {
		wanted += r.load
	}
	list := make(map[int]gpu.Percent, len(processes))
	for _, r := range processes {
		list[r.pid] = gpu.Percent(math.Round(100 * r.load / max(1, wanted)))
	}
	return list
}

var _ device.Meter = (*card)(nil)

// metered is how far back the answer of Busy reaches, in real time.
const metered = time.Second

// Busy returns the present share of each process for the whole time since then. A caller
// that asks often gets the real shares.
func (c *card) Busy(_ context.Context, since time.Time) (busy device.Busy, err error) {
	err = c.look(func(now time.Duration, r reading) {
		busy = device.Busy{From: since, Until: c.backend.wall(now), Shares: shares(r.processes)}
		if from := busy.Until.Add(-metered); from.After(since) {
			busy.From = from
		}
		if busy.Until.Before(since) {
			busy.Until = since
		}
	})
	return busy, err
}
