package pipeline

import (
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// timeline follows the steps in the order they run, inserts the conversions between them,
// and adds up what is on the GPU at each.
//
// The memory of a step counts its inputs and its output. It does not count outputs of
// earlier steps that wait for later ones, nor copies: a host copy from one GPU type to
// another has both arrays on the GPU at once. An output lives until the last step that
// takes it is done; one that no step takes is a result, and lives to the end. An output
// of undeclared size counts as large as the step that makes it.
func timeline(p *Pipeline, planned *api.PlannedPipeline) {
	outputs := outputsOf(p, planned.Steps)
	for at := range planned.Steps {
		step := &planned.Steps[at]
		m := moment{step: step, input: p.Steps[p.order[at]].Input, inputs: p.inputs[p.order[at]]}
		for k := range at {
			m.see(&outputs[k], at)
		}
		step.Held = m.held
		step.Peak = max(m.converting(), m.held+step.Memory)
		if step.Peak > planned.Peak {
			planned.Peak, planned.PeakStep = step.Peak, step.Name
		}
	}
}

// output is the output of a step.
type output struct {
	position int // position of its step in the file
	name     string
	kind     MemoryType
	size     gpu.MiB // on the GPU
	lastUse  int     // place in the order of the last step that takes it; past the end for a result
}

func outputsOf(p *Pipeline, steps []api.PlannedStep) []output {
	outputs := make([]output, len(p.order))
	for at, position := range p.order {
		source := &p.Steps[position]
		o := output{position: position, name: source.Name, kind: source.Output, lastUse: len(p.order)}
		if source.Output.OnGPU() {
			o.size = source.OutputSize
			if o.size == 0 {
				o.size = steps[at].Memory
			}
		}
		for later := len(p.order) - 1; later > at; later-- {
			if slices.Contains(p.inputs[p.order[later]], position) {
				o.lastUse = later
				break
			}
		}
		outputs[at] = o
	}
	return outputs
}

// moment describes what is on the GPU around one step.
type moment struct {
	step   *api.PlannedStep
	input  MemoryType // type that the step takes
	inputs []int      // positions of the steps whose outputs it takes

	held    gpu.MiB // kept for later steps while it runs
	sources gpu.MiB // copied from, and freed when the copies are made
	own     gpu.MiB // inputs, as they are and as copies: part of the memory of the step
	copied  bool
}

// see adds an earlier output.
func (m *moment) see(o *output, at int) {
	taken := slices.Contains(m.inputs, o.position)
	cost := NoCost
	if taken {
		if cost = ConversionCost(o.kind, m.input); cost != NoCost {
			m.step.Conversions = append(m.step.Conversions, api.Conversion{Step: o.name, From: string(o.kind), To: m.step.Input, Cost: string(cost)})
		}
	}
	if o.size == 0 || o.lastUse < at {
		return
	}
	if !taken || cost != HostCopy || o.lastUse > at {
		m.step.Alive = append(m.step.Alive, o.name)
	}
	switch {
	case !taken:
		m.held += o.size
	case cost != HostCopy:
		m.own += o.size
	default:
		m.copied = true
		if o.lastUse > at {
			m.held += o.size
		} else {
			m.sources += o.size
		}
		if m.input.OnGPU() {
			m.own += o.size
		}
	}
}

// converting returns the memory on the GPU when all inputs are converted and
// none is freed yet. The inputs never count more than the step needs.
func (m *moment) converting() gpu.MiB {
	if !m.copied {
		return 0
	}
	return m.held + m.sources + min(m.own, m.step.Memory)
}
