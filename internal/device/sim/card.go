package sim

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// card is one simulated GPU.
type card struct {
	backend *Backend
	about   gpu.Device
	model   *model
	script  script

	mu     sync.Mutex
	plant  *plant  // guarded by mu
	guests *guests // guarded by mu; nil if there can be none
}

var errClosed = errors.New("the simulation is closed")

// Describe answers from memory.
func (c *card) Describe() gpu.Device {
	d := c.about
	d.Links = slices.Clone(d.Links)
	return d
}

// answer waits out a hang, whatever the caller's deadline, as a driver call
// does, and returns the simulated time at which the device answers.
func (c *card) answer() (time.Duration, error) {
	now := c.backend.elapsed()
	for {
		until, hung := c.script.hungUntil(now)
		if !hung {
			break
		}
		if !c.backend.wait(until, nil) {
			return 0, &device.Error{Op: "read " + c.about.UUID, Err: errClosed}
		}
		now = c.backend.elapsed()
	}
	if c.script.lost(now) {
		return 0, &device.Error{Op: "read " + c.about.UUID, Err: device.ErrLost, Hint: "the scenario took it away"}
	}
	return now, nil
}

// reading is what a card is doing at a moment.
type reading struct {
	load      float64
	processes []running
}

// advance brings the plant to now. It needs mu.
func (c *card) advance(now time.Duration) reading {
	visiting := c.guests.visiting()
	for {
		d, until := c.script.drive(c.plant.now, c.model)
		for _, r := range visiting {
			d.load = min(1, d.load+r.load)
		}
		if c.plant.now >= now {
			return reading{d.load, byPID(append(visiting, c.script.processes(now)...))}
		}
		c.plant.advance(min(now, until), d)
	}
}

// Fast fills everything in a sample but Slow, GPU and Time.
func (c *card) Fast(_ context.Context, into *gpu.Sample) error {
	now, err := c.answer()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.advance(now)
	p, m := c.plant, c.model

	into.Utilization = gpu.Some(gpu.Percent(math.Round(100 * r.load)))
	into.MemoryBusy = gpu.Some(gpu.Percent(math.Round(m.MemoryBusy * r.load)))
	into.Temperature = gpu.Some(gpu.Celsius(math.Round(p.celsius())))
	if len(m.MemoryModes) > 0 {
		into.MemoryTemperature = gpu.Some(gpu.Celsius(math.Round(p.memoryCelsius())))
	}
	into.Power = gpu.Some(gpu.Watts(math.Round(p.sensor*10) / 10))
	c.fillClocks(r.load, into)
	c.fillMemory(r.processes, into)
	return nil
}

// fillClocks needs mu.
func (c *card) fillClocks(load float64, into *gpu.Sample) {
	p, m := c.plant, c.model
	into.Throttle = []gpu.ThrottleReason{}
	if p.asleep(load) {
		into.ClockSM, into.ClockMemory = gpu.Some(m.Clocks.SMIdle), gpu.Some(m.Clocks.MemoryIdle)
		into.Throttle = append(into.Throttle, gpu.ThrottleIdle)
		return
	}
	const step = 15 // MHz, the grain of real clocks
	into.ClockSM = gpu.Some(gpu.MHz(math.Round(float64(m.Clocks.SM)*p.clock(load)/step) * step))
	into.ClockMemory = gpu.Some(m.Clocks.Memory)
	if m.Power.capped(load) < min(1, p.governor) {
		into.Throttle = append(into.Throttle, gpu.ThrottlePowerCap)
	}
	if p.governor < 1 {
		into.Throttle = append(into.Throttle, gpu.ThrottleThermal)
	}
}

// fillMemory shares out the memory; a process that wants more than there is
// gets what is left.
func (c *card) fillMemory(processes []running, into *gpu.Sample) {
	free := c.model.Memory - c.model.DriverMemory
	into.Processes = make([]gpu.Process, 0, len(processes))
	for _, r := range processes {
		memory := min(r.memory, free)
		free -= memory
		into.Processes = append(into.Processes, gpu.Process{
			PID: r.pid, Name: r.name, Kind: gpu.Compute, Memory: gpu.Some(memory),
		})
	}
	into.MemoryTotal = gpu.Some(c.model.Memory)
	into.MemoryUsed = gpu.Some(c.model.Memory - free)
	into.MemoryFree = gpu.Some(free)
}

// Slow fills energy, fan, memory errors and load per process. There is no PCIe
// traffic to measure, so it stays absent.
func (c *card) Slow(_ context.Context, into *gpu.Slow) error {
	now, err := c.answer()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.advance(now)

	into.Energy = gpu.Some(c.plant.joules)
	if c.model.Fan != nil {
		into.Fan = gpu.Some(gpu.Percent(math.Round(c.model.Fan.speed(c.plant.celsius()))))
	}
	if c.model.ECC {
		into.ECCCorrected = gpu.Some(c.script.memoryErrors(now, device.FaultECCCorrected))
		into.ECCUncorrected = gpu.Some(c.script.memoryErrors(now, device.FaultECCUncorrected))
	}
	into.ProcessUtilization = shares(r.processes)
	return nil
}

// shares is the load of each process in percent. Where they want more than
// there is, each gets its part.
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
