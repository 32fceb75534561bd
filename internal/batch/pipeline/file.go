package pipeline

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
)

// File is a pipeline file as Parse has read it.
type File struct {
	Name      string
	Pipelines []Pipeline

	problems problems // that reading it found
}

// Pipeline is steps that run in one process, on one device.
type Pipeline struct {
	Name  string
	Line  int    // in the file
	Steps []Step // in the order they are written

	GPU      string       // which devices it accepts, as it is written; empty: any
	Where    gpu.Where    // the same, read
	Count    int          // how often it runs, as name[0], name[1], …; 0: once, under its own name
	Slots    int          // on its device
	Policy   string       // for the lease; empty: the default
	Service  string       // for the lease; empty: none
	Priority gpu.Opt[int] // for the lease
	Command  []string     // what runs it; empty: that is said elsewhere

	broken bool    // it has problems, so some of it is not there
	order  []int   // positions of the steps in the order they run
	inputs [][]int // by position: the steps whose outputs it takes
}

// Step is one piece of work.
type Step struct {
	Name   string
	Line   int
	Input  MemoryType
	Output MemoryType

	Memory     gpu.MiB  // the most GPU memory while it runs: inputs, outputs and what it works with; 0: not known
	OutputSize gpu.MiB  // the part that its output takes; 0: not known
	Libraries  []string // Python packages it imports, besides those of its memory types
	After      []string // steps whose outputs it takes; the one before it unless the file says otherwise
	Function   string   // what it calls, for finding earlier measurements; empty: none given

	unnamed bool // Name is made up, for messages
}

// UsesGPU reports whether the step needs a device: it takes or gives arrays on
// a GPU, or says that it needs GPU memory.
func (s *Step) UsesGPU() bool {
	return s.Input.OnGPU() || s.Output.OnGPU() || s.Memory > 0
}

// needs lists the Python packages of a step, the ones of its memory types
// first.
func (s *Step) needs() []string {
	var all []string
	for _, library := range append([]string{s.Input.Library(), s.Output.Library()}, s.Libraries...) {
		if library != "" && !slices.Contains(all, library) {
			all = append(all, library)
		}
	}
	return all
}

// Signature returns the name under which berth keeps measurements of a step:
// its function, so that two pipelines that call the same one learn from each
// other, or else the names of the pipeline and the step.
func (p *Pipeline) Signature(s *Step) string {
	if s.Function != "" {
		return s.Function
	}
	return p.Name + "/" + s.Name
}

// UsesGPU reports whether any step needs a device.
func (p *Pipeline) UsesGPU() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.UsesGPU() })
}

// place returns where the pipeline is, and at returns where one of its steps is.
func (p *Pipeline) place() place        { return place{line: p.Line, pipeline: p.Name} }
func (p *Pipeline) at(step *Step) place { return place{step.Line, p.Name, step.Name} }

// sequence returns the positions of the steps in the order they run. For a
// broken pipeline without such an order, it returns the order of the file.
func (p *Pipeline) sequence() []int {
	if !p.broken {
		return p.order
	}
	all := make([]int, len(p.Steps))
	for i := range all {
		all[i] = i
	}
	return all
}

// runs returns how often the pipeline runs.
func (p *Pipeline) runs() int { return max(p.Count, 1) }

// Libraries lists the Python packages that the file needs, sorted: what is to
// be probed before it is compiled.
func (f *File) Libraries() []string {
	var all []string
	for i := range f.Pipelines {
		for j := range f.Pipelines[i].Steps {
			all = append(all, f.Pipelines[i].Steps[j].needs()...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
