package sim

import (
	"context"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/proof"
)

var _ device.Examinee = (*card)(nil)

// checkup determines the result of a check. The zero value is a device on which
// everything is right.
type checkup struct {
	fails   []proof.Name  // steps that fail
	residue gpu.MiB       // left by earlier programs, until it is overwritten
	takes   time.Duration // for all steps together
	unable  string        // why the device cannot be asked; empty if it can
}

func setsCheck(e *entry) bool { return e.check != nil }

// Examine returns the result of a check according to the script.
func (c *card) Examine(ctx context.Context, a proof.Ask) ([]proof.Step, string, error) {
	var now gpu.Sample
	if err := c.Fast(ctx, &now); err != nil {
		return nil, "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found, began := checkup{}, time.Duration(-1)
	if e, since := c.script.latest(c.plant.now, setsCheck); e != nil {
		found, began = *e.check, since
	}
	if found.unable != "" {
		return nil, found.unable, nil
	}
	room := gpu.MiBOf(a.Room(uint64(now.MemoryFree.Or(0)) << 20))
	if at, was := c.scrubbed.Get(); was && began <= at {
		found.residue = 0
	}
	if a.Plant {
		found.fails, found.residue = append(found.fails, proof.StepMemory), max(found.residue, 1)
	}
	if a.Verb == proof.Scrub && room > 0 {
		c.scrubbed = gpu.Some(c.plant.now)
	}
	var steps []proof.Step
	for _, name := range proof.Steps(a.Verb) {
		steps = append(steps, c.step(name, room, found))
	}
	for i := range steps {
		steps[i].Took = found.takes.Seconds() / c.backend.speed / float64(len(steps))
	}
	return steps, "", nil
}

// The figures of a device on which everything is right.
const (
	simPatterns = 6
	simResults  = 1 << 20
	simRate     = 0.87 // share of the best rate of the link
)

var simLink = proof.Link{Generation: 4, Width: 16, MostGeneration: 4, MostWidth: 16}

// step returns one step: passed, unless the script says otherwise.
func (c *card) step(name proof.Name, room gpu.MiB, found checkup) proof.Step {
	fails, wrong := slices.Contains(found.fails, name), proof.Wrong{}
	if fails {
		wrong = proof.Wrong{Count: 1, At: uint64(room) << 19, Expected: 0x55555555, Found: 0x55555557}
	}
	switch name {
	case proof.StepMemory:
		return proof.Memory(room, simPatterns, wrong)
	case proof.StepCopyIn, proof.StepCopyOut:
		rate := simRate
		if fails {
			rate = 0.1
		}
		return proof.Copy(name, rate*simLink.Norm().Or(0), simLink, proof.Wrong{})
	case proof.StepCompute:
		return proof.Compute(simResults, wrong)
	case proof.StepClocks:
		clocks := proof.Clocks{SM: gpu.Some(c.model.Clocks.SM), Most: gpu.Some(c.model.Clocks.SM), Reasons: []gpu.ThrottleReason{}}
		if fails {
			clocks.SM = gpu.Some(c.model.Clocks.SMIdle)
		}
		return clocks.Step()
	case proof.StepLink:
		link := simLink
		if fails {
			link.Width = 1
		}
		return link.Step()
	case proof.StepErrors:
		var before, after proof.Errors
		if c.model.ECC || fails {
			before.Uncorrected, after.Uncorrected = gpu.Some(int64(0)), gpu.Some(int64(0))
		}
		if fails {
			after.Uncorrected = gpu.Some(int64(1))
		}
		return proof.Grown(before, after)
	case proof.StepResidue:
		return proof.Look(room, int64(min(found.residue, room))<<20)
	default: // scrub
		left := int64(0)
		if fails {
			left = 4
		}
		return proof.Scrubbed(room, left)
	}
}
