// Package pipeline turns pipeline files into plans.
//
// Parse reads a file and finds everything that is wrong with it; Compile takes
// a file and the world as the caller sees it (devices, libraries, what earlier
// runs measured) and decides, before anything runs, on which device each
// pipeline runs, what is converted where, and how much memory it needs at every
// step. A plan is data; Table, Mermaid and DOT write it for people.
//
// The package is pure: the same file and the same world give the same plan.
//
// Pure: no clock, no I/O.
package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/words"
)

// DefaultMemory is the memory of a step that declares none and that nobody has
// measured: enough for a stack of microscope images and its copies, and small
// enough to run several side by side on a consumer card.
const DefaultMemory gpu.MiB = 1024

// headroom is added to a measured peak, in percent: data of the same kind is
// not of quite the same size.
const headroom = 10

// maxPlan is the most bytes that the pipelines of a plan may take in JSON, without their
// runs: room for more than ten thousand steps. A plan repeats what a file says once, such
// as the name of an output beside each step that finds it on the GPU, so a small file can
// have a plan of hundreds of MiB.
const maxPlan = 8 << 20

// Compile decides where and how the pipelines of a file run. The error is an
// *Error with every problem that waiting does not solve, including those that
// Parse found. A run whose devices are only busy waits in the plan.
func Compile(file *File, world World) (*api.Plan, error) {
	world.Libraries = settled(world.Libraries)
	c := &compiler{file: file, world: &world, devices: world.byIndex(), problems: slices.Clone(file.problems)}
	if c.problems.full() {
		return nil, c.problems.err("compile", file.Name)
	}
	if world.ProbeError != "" {
		c.problems.add(Problem{
			Code:   ProbeFailed,
			Reason: fmt.Sprintf("%s could not be asked which libraries it has: %s", c.interpreter(), world.ProbeError),
			Remedy: "check that it starts by hand, or name another interpreter",
		})
	}
	drafts := make([]draft, len(file.Pipelines))
	for i := range file.Pipelines {
		drafts[i] = c.draft(&file.Pipelines[i])
		if c.weigh(drafts[i].planned); c.size > maxPlan {
			c.add(file.Pipelines[i].place(), BadValue, fmt.Sprintf("with this one the plan takes more than %d MiB", maxPlan>>20),
				"split the file, or give its steps shorter names")
			break
		}
	}
	if err := c.problems.err("compile", file.Name); err != nil {
		return nil, err
	}
	return c.plan(drafts), nil
}

type compiler struct {
	file     *File
	world    *World
	devices  []Device // in order of index
	problems problems
	size     int // bytes of the drafts in JSON, counted until they are too many
}

// weigh adds the size of a draft, step by step: those of one pipeline can be too large to
// be written together.
func (c *compiler) weigh(p api.PlannedPipeline) {
	add := func(part any) {
		text, _ := json.Marshal(part) // Cannot fail: strings and numbers.
		c.size += len(text)
	}
	for i := range p.Steps {
		if add(&p.Steps[i]); c.size > maxPlan {
			return
		}
	}
	p.Steps = nil
	add(&p)
}

// draft is a pipeline whose needs are known and whose devices are not.
type draft struct {
	source     *Pipeline
	planned    api.PlannedPipeline
	candidates []int // positions of the devices that it can ever run on
}

func (c *compiler) draft(p *Pipeline) draft {
	d := draft{source: p, planned: api.PlannedPipeline{
		Name: p.Name, GPU: p.GPU, Policy: p.Policy, Service: p.Service, Priority: p.Priority,
	}}
	for _, i := range p.sequence() {
		d.planned.Steps = append(d.planned.Steps, c.step(p, &p.Steps[i], &d.planned))
	}
	d.planned.Seconds = sumSeconds(d.planned.Steps)
	c.libraries(p, &d.planned)
	if !p.UsesGPU() {
		return d
	}
	if p.broken {
		atLeast(&d.planned)
	} else {
		timeline(p, &d.planned)
	}
	d.planned.Context, d.planned.Slots = c.world.Context, p.Slots
	d.planned.Memory = d.planned.Peak + d.planned.Context
	noteGuesses(&d.planned)
	d.candidates = c.candidates(p, &d.planned)
	for _, i := range d.candidates {
		d.planned.Candidates = append(d.planned.Candidates, c.devices[i].UUID)
	}
	return d
}

// step decides everything about a step that does not depend on others.
func (c *compiler) step(p *Pipeline, s *Step, planned *api.PlannedPipeline) api.PlannedStep {
	step := api.PlannedStep{
		Name: s.Name, After: s.After, Signature: p.Signature(s),
		Input: string(s.Input), Output: string(s.Output), OnGPU: s.UsesGPU(),
	}
	for _, name := range s.needs() {
		step.Libraries = append(step.Libraries, api.PlannedLibrary{Name: name, Version: c.world.Libraries[name].Version})
	}
	peak := c.world.Learned[step.Signature]
	if peak.Observations > 0 && peak.Seconds > 0 {
		step.Seconds = gpu.Some(peak.Seconds)
	}
	if step.OnGPU {
		c.memory(&step, s.Memory, peak, planned)
	}
	return step
}

// memory decides how much GPU memory the step needs by itself. The declared amount
// counts, unless more was measured. A measurement of more than any device has is not from
// this machine.
func (c *compiler) memory(s *api.PlannedStep, declared gpu.MiB, peak Peak, planned *api.PlannedPipeline) {
	measured := peak.Observations > 0 && peak.Memory > 0
	total, room := c.largest()
	if measured && total > 0 && peak.Memory > total {
		note(planned, "step %q was measured to take %s, which no GPU here has: the measurement is left out", s.Name, peak.Memory)
		measured = false
	}
	if measured {
		s.Measured = peak.Observations
	}
	learned := max(peak.Memory, min(peak.Memory+(peak.Memory*headroom+99)/100, room-c.world.Context))
	switch {
	case declared > 0 && measured && peak.Memory > declared:
		s.Memory, s.MemoryFrom = learned, api.MemoryLearned
		note(planned, "step %q declares %s, but %s was measured: the measurement counts", s.Name, declared.Beside(peak.Memory), peak.Memory.Beside(declared))
	case declared > 0:
		s.Memory, s.MemoryFrom = declared, api.MemoryDeclared
		if measured && declared > 2*learned {
			note(planned, "step %q declares %s, but in %s it never took more than %s: declare less and more runs fit side by side",
				s.Name, declared.Beside(peak.Memory), words.Count(peak.Observations, "run"), peak.Memory.Beside(declared))
		}
	case measured:
		s.Memory, s.MemoryFrom = learned, api.MemoryLearned
	default:
		s.Memory, s.MemoryFrom = DefaultMemory, api.MemoryDefault
	}
}

// largest returns the most memory that a device has, and the most that berth
// could ever lease on one.
func (c *compiler) largest() (total, room gpu.MiB) {
	for i := range c.devices {
		total, room = max(total, c.devices[i].MemoryTotal), max(room, c.devices[i].ceiling())
	}
	return total, room
}

// atLeast sets the least that a pipeline with problems needs: the memory of the largest
// step that could be read.
func atLeast(p *api.PlannedPipeline) {
	for i := range p.Steps {
		if s := &p.Steps[i]; s.MemoryFrom != api.MemoryDefault && s.Memory > p.Peak {
			p.Peak, p.PeakStep = s.Memory, s.Name
		}
	}
}

// note adds a note for the user to a pipeline.
func note(p *api.PlannedPipeline, format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// noteGuesses notes which amounts are guesses.
func noteGuesses(p *api.PlannedPipeline) {
	var names []string
	for i := range p.Steps {
		if p.Steps[i].MemoryFrom == api.MemoryDefault {
			names = append(names, fmt.Sprintf("%q", p.Steps[i].Name))
		}
	}
	if len(names) == 0 {
		return
	}
	noun := "step"
	if len(names) > 1 {
		noun = "steps"
	}
	note(p, "the memory of %s %s is a guess of %s: declare memory_mb, or let one run be measured", noun, listed(names), DefaultMemory)
}

func sumSeconds(steps []api.PlannedStep) gpu.Opt[float64] {
	sum := 0.0
	for i := range steps {
		seconds, known := steps[i].Seconds.Get()
		if !known {
			return gpu.Opt[float64]{}
		}
		sum += seconds
	}
	return gpu.Some(sum)
}

func (c *compiler) interpreter() string {
	if c.world.Interpreter == "" {
		return "python"
	}
	return c.world.Interpreter
}

func (c *compiler) add(at place, code Code, reason string, remedy ...string) {
	c.problems.add(at.problem(code, reason, strings.Join(remedy, "")))
}
