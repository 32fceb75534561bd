package pipeline

import (
	"fmt"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// ContextMemory is kept free for the CUDA context of a process, beside what
// its steps need. Measured contexts take 200 to 500 MiB, depending on the GPU
// and on how many kernels the libraries load; no pool or limit of a library
// counts it, so the lease has to. The libraries of one process share it.
const ContextMemory gpu.MiB = 500

// DefaultMemory is what a step is given that nobody has measured and that does
// not say what it needs: enough for a stack of microscope images and its
// copies, and small enough to run several side by side on a consumer card.
const DefaultMemory gpu.MiB = 1024

// headroom is added to a measured peak, in percent: data of the same kind is
// not of quite the same size.
const headroom = 10

// Compile decides where and how the pipelines of a file run. The error is an
// *Error with everything that stands in the way for good; what is only busy
// now is in the plan as a run that waits.
func Compile(file *File, world World) (*Plan, error) {
	c := &compiler{file: file, world: &world, devices: world.byIndex()}
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
}

// draft is a pipeline whose needs are known and whose devices are not.
type draft struct {
	source     *Pipeline
	planned    Planned
	candidates []int // positions of the devices it can ever run on
}

func (c *compiler) draft(p *Pipeline) draft {
	d := draft{source: p, planned: Planned{
		Name: p.Name, GPU: p.GPU.Text, Policy: p.Policy, Service: p.Service, Priority: p.Priority,
	}}
	for _, i := range p.order {
		d.planned.Steps = append(d.planned.Steps, c.step(p, &p.Steps[i], &d.planned))
	}
	d.planned.Seconds = sumSeconds(d.planned.Steps)
	c.libraries(p, &d.planned)
	if !p.UsesGPU() {
		return d
	}
	timeline(p, &d.planned)
	d.planned.Context, d.planned.Slots = ContextMemory, p.Slots
	d.planned.Memory = d.planned.Peak + ContextMemory
	noteGuesses(&d.planned)
	d.candidates = c.candidates(p, &d.planned)
	for _, i := range d.candidates {
		d.planned.Candidates = append(d.planned.Candidates, c.devices[i].UUID)
	}
	return d
}

// step decides everything about a step that does not depend on others.
func (c *compiler) step(p *Pipeline, s *Step, planned *Planned) PlannedStep {
	step := PlannedStep{
		Name: s.Name, After: s.After, Signature: p.Signature(s),
		Input: s.Input, Output: s.Output, OnGPU: s.UsesGPU(),
	}
	for _, name := range s.needs() {
		step.Libraries = append(step.Libraries, Needed{Name: name, Version: c.world.Libraries[name].Version})
	}
	peak := c.world.Learned[step.Signature]
	if peak.Observations > 0 && peak.Seconds > 0 {
		step.Seconds = gpu.Some(peak.Seconds)
	}
	if step.OnGPU {
		step.memory(s.Memory, peak, planned)
	}
	return step
}

// memory decides how much GPU memory the step needs by itself. What the file
// says counts, unless more than that was measured.
func (s *PlannedStep) memory(declared gpu.MiB, peak Peak, planned *Planned) {
	measured := peak.Observations > 0 && peak.Memory > 0
	if measured {
		s.Measured = peak.Observations
	}
	learned := peak.Memory + (peak.Memory*headroom+99)/100
	switch {
	case declared > 0 && measured && peak.Memory > declared:
		s.Memory, s.MemoryFrom = learned, Learned
		planned.note("step %q declares %s, but %s was measured: the measurement counts", s.Name, declared, peak.Memory)
	case declared > 0:
		s.Memory, s.MemoryFrom = declared, Declared
		if measured && declared > 2*learned {
			planned.note("step %q declares %s, but in %s it never took more than %s: declare less and more runs fit side by side",
				s.Name, declared, plural(peak.Observations, "run"), peak.Memory)
		}
	case measured:
		s.Memory, s.MemoryFrom = learned, Learned
	default:
		s.Memory, s.MemoryFrom = DefaultMemory, Default
	}
}

func (p *Planned) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// noteGuesses says which amounts nobody knows.
func noteGuesses(p *Planned) {
	var names []string
	for i := range p.Steps {
		if p.Steps[i].MemoryFrom == Default {
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
	p.note("the memory of %s %s is a guess of %s: declare memory_mb, or let one run be measured", noun, listed(names), DefaultMemory)
}

func sumSeconds(steps []PlannedStep) gpu.Opt[float64] {
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

// add reports a problem of a pipeline, and of one of its steps if there is one
// to name.
func (c *compiler) add(p *Pipeline, step string, code Code, reason string, remedy ...string) {
	found := Problem{Code: code, Line: p.Line, Pipeline: p.Name, Step: step, Reason: reason, Remedy: strings.Join(remedy, "")}
	for i := range p.Steps {
		if step != "" && p.Steps[i].Name == step {
			found.Line = p.Steps[i].Line
		}
	}
	c.problems.add(found)
}
