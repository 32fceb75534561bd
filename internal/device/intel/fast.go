package intel

import (
	"context"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm"
)

// Fast reads some small files, and what the driver says about the open files of each
// process. A card on the bus answers without an error, even if it tells nothing.
func (c *card) Fast(ctx context.Context, into *gpu.Sample) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at := c.at.Load()
	if err := c.lost(at); err != nil {
		return err
	}
	now := c.now()
	got := gpu.Sample{GPU: into.GPU, Time: into.Time, Slow: into.Slow}
	got.Temperature = at.sensors.Temperature("input", core...)
	got.MemoryTemperature = at.sensors.Temperature("input", "vram", "3")
	got.Power = c.readPower(at, now)
	got.ClockSM = readClock(at)
	got.Throttle = readThrottle(at)
	used, complete := c.openers.Of(&at.Card)
	c.usage.Add(now, used)
	got.Processes = drm.Processes(used)
	if complete {
		c.sumUp(at, &got)
	}
	got.Blind = !at.sensors.HasTemperature(core...) && !got.MemoryUsed.Known()
	*into = got
	return nil
}

// sumUp adds up the values of the processes if berth sees all of them: the drivers have
// no file for the sum.
func (c *card) sumUp(at *place, into *gpu.Sample) {
	const lately = 2 * time.Second
	if shares := c.usage.Over(lately); shares.From.Before(shares.Until) {
		into.Utilization = gpu.Some(shares.Card)
	}
	if at.memory == 0 {
		return
	}
	var used gpu.MiB
	for _, p := range into.Processes {
		memory, known := p.Memory.Get()
		if !known {
			return
		}
		used += memory
	}
	used = min(used, at.memory)
	into.MemoryTotal, into.MemoryUsed, into.MemoryFree = gpu.Some(at.memory), gpu.Some(used), gpu.Some(at.memory-used)
}

// readPower returns the power since the last reading, because the drivers count energy.
func (c *card) readPower(at *place, now time.Time) gpu.Opt[gpu.Watts] {
	before, since := c.energy, c.read
	c.energy, c.read = at.sensors.Joules(energyFiles...), now
	from, ok := before.Get()
	to, ok2 := c.energy.Get()
	took := now.Sub(since).Seconds()
	if !ok || !ok2 || to < from || took <= 0 {
		return gpu.Opt[gpu.Watts]{}
	}
	const most = 5000
	power := gpu.Watts((to - from) / took)
	if power > most {
		return gpu.Opt[gpu.Watts]{}
	}
	return gpu.Some(power)
}

func readClock(at *place) gpu.Opt[gpu.MHz] {
	if at.clock == "" {
		return gpu.Opt[gpu.MHz]{}
	}
	n, err := drm.Number(at.clock)
	if err != nil || n < 0 || n > 30_000 {
		return gpu.Opt[gpu.MHz]{}
	}
	return gpu.Some(gpu.MHz(n))
}

// throttleWords maps the names of the drivers' files to berth's words.
var throttleWords = []struct {
	file   string
	reason gpu.ThrottleReason
}{
	{"reason_pl1", gpu.ThrottlePowerCap},
	{"reason_pl2", gpu.ThrottlePowerCap},
	{"reason_pl4", gpu.ThrottlePowerBrake},
	{"reason_vr_tdc", gpu.ThrottlePowerBrake},
	{"reason_thermal", gpu.ThrottleThermal},
	{"reason_ratl", gpu.ThrottleThermal},
	{"reason_prochot", gpu.ThrottleThermalHW},
	{"reason_vr_thermalert", gpu.ThrottleThermalHW},
}

// readThrottle returns the reasons. It reads them one by one only if there are any.
func readThrottle(at *place) []gpu.ThrottleReason {
	if at.throttle == "" {
		return nil
	}
	status := "status"
	if at.prefix != "" {
		status = at.prefix + "reason_status"
	}
	slowed, err := drm.Number(at.throttle, status)
	if err != nil {
		return nil
	}
	reasons := []gpu.ThrottleReason{}
	if slowed == 0 {
		return reasons
	}
	for _, w := range throttleWords {
		n, err := drm.Number(at.throttle, at.prefix+w.file)
		if err == nil && n != 0 && !slices.Contains(reasons, w.reason) {
			reasons = append(reasons, w.reason)
		}
	}
	return reasons
}
