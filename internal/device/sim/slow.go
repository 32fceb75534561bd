package sim

import (
	"context"
	"math"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Slow fills energy, fan, memory errors and load per process. There is no PCIe
// traffic to measure, so it stays absent.
func (c *card) Slow(_ context.Context, into *gpu.Slow) error {
	return c.look(func(now time.Duration, r reading) {
		into.ProcessUtilization = shares(r.processes)
		if c.model.recording != nil {
			c.model.recording.slow(now, into)
			return
		}
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
