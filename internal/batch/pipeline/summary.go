package pipeline

import (
	"fmt"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// summary puts the plan together.
func (c *compiler) summary(drafts []draft, seats []seat) *api.Plan {
	plan := &api.Plan{File: c.file.Name, Devices: []api.PlannedLoad{}}
	for i := range drafts {
		plan.Pipelines = append(plan.Pipelines, drafts[i].planned)
	}
	for i := range seats {
		load := seats[i].summary()
		plan.Devices = append(plan.Devices, load)
		plan.SideBySide += load.SideBySide
		plan.Waves = max(plan.Waves, load.Waves)
	}
	if c.world.Libraries == nil {
		plan.Notes = append(plan.Notes, "nobody checked whether the interpreter has the libraries")
	}
	plan.Seconds = expected(drafts, seats)
	if c.world.CPUs > 0 && plan.SideBySide > c.world.CPUs {
		plan.Notes = append(plan.Notes, fmt.Sprintf("%d runs side by side share %s", plan.SideBySide, words.Count(c.world.CPUs, "CPU")))
	}
	return plan
}

func (s *seat) summary() api.PlannedLoad {
	load := api.PlannedLoad{
		GPU: s.device.UUID, Index: s.device.Index, Name: s.device.Name,
		Runs: s.runs, Waves: len(s.waves), Waiting: s.waiting,
	}
	if len(s.waves) > 0 {
		load.SideBySide, load.Memory = s.waves[0].runs, s.waves[0].memory
	}
	return load
}

// expected returns the time until the last device is done, if each wave begins when the
// one before it ends. It is absent if that is not known.
func expected(drafts []draft, seats []seat) gpu.Opt[float64] {
	onGPU := false
	for i := range drafts {
		if len(drafts[i].candidates) == 0 {
			continue
		}
		onGPU = true
		if !drafts[i].planned.Seconds.Known() {
			return gpu.Opt[float64]{}
		}
	}
	longest := 0.0
	for i := range seats {
		if seats[i].waiting > 0 {
			return gpu.Opt[float64]{}
		}
		sum := 0.0
		for _, w := range seats[i].waves {
			sum += w.seconds
		}
		longest = max(longest, sum)
	}
	if !onGPU {
		return gpu.Opt[float64]{}
	}
	return gpu.Some(longest)
}
