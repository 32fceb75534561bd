package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/document"
)

// File is a pipeline file as Parse has read it.
type File struct {
	Name      string
	Pipelines []Pipeline

	problems problems // problems that Parse found
}

// Pipeline is a list of steps that run in one process, on one device.
type Pipeline struct {
	Name  string
	Line  int    // line in the file
	Steps []Step // in the order they are written

	GPU      string       // devices that it accepts, as written; empty means any
	Where    gpu.Where    // GPU, parsed
	Count    int          // number of runs, named name[0], name[1], …; 0 means one, under its own name
	Slots    int          // slots on its device
	Policy   string       // policy of the lease; empty means the default
	Service  string       // service of the lease; may be empty
	Priority gpu.Opt[int] // priority of the lease
	Command  []string     // command that runs it; empty if that is said elsewhere

	broken bool    // whether it has problems, so that parts of it are missing
	order  []int   // positions of the steps in the order they run
	inputs [][]int // by position, the steps whose outputs it takes
}

// Step is one piece of work.
type Step struct {
	Name   string // its number, such as "#2", if the file gives it none
	Line   int
	Input  MemoryType
	Output MemoryType

	Memory     gpu.MiB  // most GPU memory while it runs: inputs, outputs and what it works with; 0 if not known
	OutputSize gpu.MiB  // part of Memory that its output takes; 0 if not known
	Libraries  []string // Python packages that it imports, besides those of its memory types
	After      []string // steps whose outputs it takes; the one before it unless the file says otherwise
	Function   string   // function that it calls, for finding earlier measurements; may be empty
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

// Libraries returns the sorted Python packages that the file needs, to be probed before
// it is compiled.
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

// Limits on a command, far below those of the system.
const (
	maxCommand = 8 << 10 // bytes of a text, or of one word
	maxWords   = 500
)

// command reads the command of a pipeline: a list of words, or one text for a
// shell. Compile does not use it.
func (r *reader) command(n *document.Node) []string {
	switch {
	case n.Shape == document.Nothing, n.Shape == document.Single && strings.TrimSpace(n.Text) == "":
		r.add(placeOf(n), BadValue, "command is empty", commandForms)
		return nil
	case n.Shape == document.Single:
		return []string{"sh", "-c", r.word(n)}
	case n.Shape == document.List && len(n.Items) > maxWords:
		r.add(placeOf(n), BadValue, fmt.Sprintf("command has %d words, and more than %d are not taken", len(n.Items), maxWords), "put it into a script")
		return nil
	}
	var words []string
	for item := range n.All("write the words of the command, or one text for a shell", r.report) {
		words = append(words, r.word(item))
	}
	if n.Shape == document.List && (len(words) == 0 || words[0] == "") {
		r.add(placeOf(n), BadValue, "command names no program", commandForms)
		return nil
	}
	return words
}

const commandForms = "write command: [python3, analyse.py], or one text for a shell"

// word reads one word of a command: any text that can be passed to a program.
func (r *reader) word(n *document.Node) string {
	switch {
	case n.Shape != document.Single:
		r.add(placeOf(n), BadValue, fmt.Sprintf("a word of command must be a single value, not %s", n.Shape), "put it in quotes, if it is meant as a text")
	case len(n.Text) > maxCommand:
		r.add(placeOf(n), BadValue, fmt.Sprintf("command has a text of %d bytes, and more than %d are not taken", len(n.Text), maxCommand), "put it into a script")
	case strings.ContainsRune(n.Text, 0):
		r.add(placeOf(n), BadValue, "command has a zero byte", "leave it out: no program can be given one")
	default:
		return n.Text
	}
	return ""
}
