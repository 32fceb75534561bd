package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/text/document"
)

// Limits on a file. They are far above what is useful, and keep a plan small
// enough to look at.
const (
	maxSteps = 500    // steps of a pipeline
	maxRuns  = 10_000 // runs of all pipelines together
	maxSlots = 10_000
	maxName  = 100 // bytes
	maxNeeds = 64  // libraries of a file; each is imported in a process of its own
)

// The words of the format, in the order of the documentation.
var (
	fileKeys     = []string{"pipelines"}
	pipelineKeys = []string{"name", "steps", "gpu", "count", "slots", "policy", "service", "priority", "command"}
	stepKeys     = []string{"name", "input", "output", "memory_mb", "output_mb", "libraries", "after", "function"}
	policyNames  = placement.PolicyNames()

	// stepAliases maps words of earlier systems to keys of a step.
	stepAliases = map[string]string{"input_memory_type": "input", "output_memory_type": "output"}
)

// Parse reads a pipeline file, YAML or JSON. The name is for messages; a name that ends
// in .json allows only JSON. The error is an *Error with every problem of the file by
// itself. With an error, Parse also returns what it could read, or nil: Compile makes no
// plan of it, but reports its problems too.
func Parse(name string, text []byte) (*File, error) {
	r := &reader{}
	file := &File{Name: name}
	root := r.document(name, text)
	if root == nil {
		return nil, r.problems.err("read", name)
	}
	for e := range root.Entries(keysOf("the file", fileKeys), r.report) {
		file.Pipelines = r.pipelines(e)
	}
	if len(file.Pipelines) == 0 && len(r.problems) == 0 {
		r.add(placeOf(root), MissingKey, "the file has no pipelines", example)
	}
	r.together(file)
	file.problems = r.problems
	return file, r.problems.err("read", name)
}

func (r *reader) pipelines(n *document.Node) []Pipeline {
	var all []Pipeline
	for item := range n.All("write a list with an entry for every pipeline, each beginning with -", r.report) {
		if r.problems.full() {
			break
		}
		all = append(all, r.pipeline(item))
	}
	return all
}

func (r *reader) pipeline(n *document.Node) Pipeline {
	p := Pipeline{Line: n.Line, Slots: 1}
	before := len(r.problems)
	for e := range n.Entries(keysOf("a pipeline", pipelineKeys), r.report) {
		switch e.Key {
		case "name":
			p.Name = r.pipelineName(e)
		case "steps":
			p.Steps = r.steps(e)
		case "gpu":
			p.GPU, p.Where = r.devices(e)
		case "count":
			p.Count = r.whole(e, e.Key, 1, maxRuns)
		case "slots":
			p.Slots = r.whole(e, e.Key, 1, maxSlots)
		case "policy":
			p.Policy = r.policy(e)
		case "service":
			p.Service = r.text(e, e.Key)
		case "priority":
			p.Priority = gpu.Some(r.whole(e, e.Key, -1_000_000, 1_000_000))
		case "command":
			p.Command = r.command(e)
		}
	}
	r.required(n, "a pipeline", "name", "steps")
	p.Name = cmp.Or(p.Name, nameOf(n))
	p.broken = len(r.problems) > before
	return p
}

// pipelineName reads the name of a pipeline. No name may look like name[3], which is how
// the runs of a repeated pipeline are called.
func (r *reader) pipelineName(n *document.Node) string {
	name := r.text(n, n.Key)
	if !strings.HasSuffix(name, "]") {
		return name
	}
	open := strings.LastIndexByte(name, '[')
	if _, err := strconv.Atoi(name[open+1 : len(name)-1]); open >= 0 && err == nil {
		r.add(placeOf(n), BadValue, fmt.Sprintf("the name ends in %s", name[open:]), "leave that out: the runs of a pipeline with count are named so")
	}
	return name
}

func (r *reader) steps(n *document.Node) []Step {
	switch items := len(n.Items); {
	case n.Shape == document.List && items == 0:
		r.add(placeOf(n), MissingKey, "it has no steps", "add at least one, such as {name: load, input: numpy, output: numpy}")
	case n.Shape == document.List && items > maxSteps:
		r.add(placeOf(n), BadValue, fmt.Sprintf("it has %d steps, and more than %d are not planned", items, maxSteps), "split it into several pipelines")
		return nil
	}
	var all []Step
	for item := range n.All("write a list with an entry for every step, each beginning with -", r.report) {
		if r.problems.full() {
			break
		}
		all = append(all, r.step(item, all))
	}
	return all
}

func (r *reader) step(n *document.Node, before []Step) Step {
	s := Step{Line: n.Line}
	if len(before) > 0 {
		s.After = []string{before[len(before)-1].Name}
	}
	for _, e := range n.Items {
		e.Key = cmp.Or(stepAliases[e.Key], e.Key)
	}
	for e := range n.Entries(keysOf("a step", stepKeys), r.report) {
		switch e.Key {
		case "name":
			s.Name = r.text(e, e.Key)
		case "input":
			s.Input = r.memoryType(e)
		case "output":
			s.Output = r.memoryType(e)
		case "memory_mb":
			s.Memory = r.memory(e)
		case "output_mb":
			s.OutputSize = r.memory(e)
		case "libraries":
			s.Libraries = r.libraries(e)
		case "after":
			s.After = r.words(e, e.Key)
		case "function":
			s.Function = r.text(e, e.Key)
		}
	}
	r.required(n, "a step", "input", "output")
	s.Name = cmp.Or(s.Name, nameOf(n))
	if s.OutputSize > 0 && s.Memory > 0 && s.OutputSize > s.Memory {
		r.add(placeOf(n), BadValue, fmt.Sprintf("its output takes %s and the whole step only %s", s.OutputSize.Beside(s.Memory), s.Memory.Beside(s.OutputSize)),
			"memory_mb counts the output too: raise it")
	}
	return s
}

func (r *reader) policy(n *document.Node) string {
	word := r.text(n, n.Key)
	if word != "" && !slices.Contains(policyNames, word) {
		r.add(placeOf(n), BadValue, fmt.Sprintf("%q is not a policy", word), suggest(word, "there are", policyNames))
	}
	return word
}

// devices reads which devices a pipeline accepts, and returns the text as written too.
func (r *reader) devices(n *document.Node) (string, gpu.Where) {
	text := strings.TrimSpace(r.text(n, n.Key))
	where, err := gpu.ParseDevices(text)
	if err != nil {
		r.add(placeOf(n), BadValue, fmt.Sprintf("gpu: %v", err), "write an index (0), a UUID (GPU-…), or constraints such as name~H200,memory>=40GiB")
		return "", gpu.Where{}
	}
	return text, where
}

func (r *reader) memoryType(n *document.Node) MemoryType {
	word := r.text(n, n.Key)
	if word == "" || slices.Contains(MemoryTypes(), MemoryType(word)) {
		return MemoryType(word)
	}
	remedy := suggest(word, "there are", memoryTypeNames())
	if meant, ok := nicknames[strings.ToLower(word)]; ok {
		remedy = fmt.Sprintf("did you mean %s?", meant)
	}
	r.add(placeOf(n), UnknownMemoryType, fmt.Sprintf("%s: %q is not a memory type", n.Key, word), remedy)
	return ""
}

func (r *reader) memory(n *document.Node) gpu.MiB {
	text := r.text(n, n.Key)
	if text == "" {
		return 0
	}
	m, err := gpu.ParseMiB(text)
	if err != nil {
		r.add(placeOf(n), BadValue, fmt.Sprintf("%s: %v", n.Key, err), "write a number of MiB, or an amount such as 4GiB")
	}
	return m
}

func (r *reader) libraries(n *document.Node) []string {
	var all []string
	for _, word := range r.words(n, n.Key) {
		if !importable(word) {
			r.add(placeOf(n), BadValue, fmt.Sprintf("libraries: %q is not the name of a Python module", word),
				"write the name that comes after import, without a version: torch, skimage, cucim.skimage")
			continue
		}
		all = append(all, word)
	}
	return all
}

// importable reports whether a word can follow import: letters, digits and underscores,
// with dots between.
func importable(word string) bool {
	if len(word) > maxName {
		return false
	}
	for part := range strings.SplitSeq(word, ".") {
		if part == "" || part[0] >= '0' && part[0] <= '9' {
			return false
		}
		for _, c := range part {
			if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
				return false
			}
		}
	}
	return true
}

// together checks what concerns several pipelines, and how the steps of each depend on
// each other.
func (r *reader) together(file *File) {
	runs, first := 0, map[string]int{}
	for i := range file.Pipelines {
		p := &file.Pipelines[i]
		at := p.place()
		if line, again := first[p.Name]; again {
			r.add(at, DuplicateName, fmt.Sprintf("the pipeline in line %d has the same name", line), "give it another one, or use count to repeat a pipeline")
		} else {
			first[p.Name] = p.Line
		}
		if runs += p.runs(); runs > maxRuns && runs-p.runs() <= maxRuns {
			r.add(at, BadValue, fmt.Sprintf("with this one the file has more than %d runs", maxRuns), "lower count, or split the file")
		}
		before := len(r.problems)
		r.graph(p)
		p.broken = p.broken || len(r.problems) > before
	}
	if needs := len(file.Libraries()); needs > maxNeeds {
		r.add(place{}, BadValue, fmt.Sprintf("the file needs %d libraries, and more than %d are not checked", needs, maxNeeds),
			"leave out those that others import by themselves, or split the file")
	}
}
