package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/placement"
	"github.com/berth-gpu/berth/internal/words"
)

// Limits on a file. They are far above what is useful, and keep a plan small
// enough to look at.
const (
	maxSteps = 500    // of a pipeline
	maxRuns  = 10_000 // of all pipelines together
	maxSlots = 10_000
	maxName  = 100 // bytes
	maxNeeds = 64  // libraries of a file: each is imported in a process of its own
)

// The words of the format, in the order in which documentation has them.
var (
	fileKeys     = []string{"pipelines"}
	pipelineKeys = []string{"name", "steps", "gpu", "count", "slots", "policy", "service", "priority", "command"}
	stepKeys     = []string{"name", "input", "output", "memory_mb", "output_mb", "libraries", "after", "function"}
	policyNames  = placement.PolicyNames()
)

// Parse reads a pipeline file, YAML or JSON. The name is for messages, and a
// name that ends in .json allows nothing but JSON. The error is an *Error with
// everything that is wrong with the file by itself. Beside an error the file is
// what could be read, or nil: Compile never makes a plan of it, but says what
// is wrong with that too.
func Parse(name string, text []byte) (*File, error) {
	r := &reader{}
	file := &File{Name: name}
	root, problem := document(name, text)
	if problem != nil {
		r.problems.add(*problem)
		return nil, r.problems.err("read", name)
	}
	r.section(root, place{}, "the file", fileKeys, func(_ string, value *yaml.Node) {
		file.Pipelines = r.pipelines(value)
	})
	if len(file.Pipelines) == 0 && len(r.problems) == 0 {
		r.add(place{line: root.Line}, MissingKey, "the file has no pipelines", example)
	}
	r.together(file)
	file.problems = r.problems
	return file, r.problems.err("read", name)
}

func (r *reader) pipelines(n *yaml.Node) []Pipeline {
	items, ok := r.list(n, place{}, "pipelines", "a list with an entry for every pipeline, each beginning with -")
	if !ok {
		return nil
	}
	var all []Pipeline
	for i, item := range items {
		if r.problems.full() {
			break
		}
		all = append(all, r.pipeline(item, i+1))
	}
	return all
}

func (r *reader) pipeline(n *yaml.Node, number int) Pipeline {
	p := Pipeline{Line: n.Line, Slots: 1}
	before := len(r.problems)
	at := place{line: n.Line, pipeline: nameOf(n, number)}
	whole := r.section(n, at, "a pipeline", pipelineKeys, func(key string, value *yaml.Node) {
		here := at.on(value)
		switch key {
		case "name":
			p.Name = r.name(value, here)
		case "steps":
			p.Steps = r.steps(value, at)
		case "gpu":
			p.GPU, p.Where = r.devices(value, here)
		case "count":
			p.Count = r.whole(value, here, key, 1, maxRuns)
		case "slots":
			p.Slots = r.whole(value, here, key, 1, maxSlots)
		case "policy":
			p.Policy = r.policy(value, here)
		case "service":
			p.Service = r.text(value, here, key)
		case "priority":
			p.Priority = gpu.Some(r.whole(value, here, key, -1_000_000, 1_000_000))
		case "command":
			p.Command = r.command(value, here)
		}
	})
	if whole {
		r.required(n, at, "a pipeline", "name", "steps")
	}
	p.Name = cmp.Or(p.Name, at.pipeline)
	p.broken = len(r.problems) > before
	return p
}

func (r *reader) steps(n *yaml.Node, at place) []Step {
	items, ok := r.list(n, at, "steps", "a list with an entry for every step, each beginning with -")
	if !ok {
		return nil
	}
	switch {
	case len(items) == 0:
		r.add(at.on(n), MissingKey, "it has no steps", "add at least one, such as {name: load, input: numpy, output: numpy}")
	case len(items) > maxSteps:
		r.add(at.on(n), BadValue, fmt.Sprintf("it has %d steps, and more than %d are not planned", len(items), maxSteps), "split it into several pipelines")
		return nil
	}
	var all []Step
	for i, item := range items {
		if r.problems.full() {
			break
		}
		all = append(all, r.step(item, at, i+1, all))
	}
	return all
}

func (r *reader) step(n *yaml.Node, at place, number int, before []Step) Step {
	s := Step{Line: n.Line}
	if len(before) > 0 {
		s.After = []string{before[len(before)-1].Name}
	}
	at = place{line: n.Line, pipeline: at.pipeline, step: nameOf(n, number)}
	whole := r.section(n, at, "a step", stepKeys, func(key string, value *yaml.Node) {
		here := at.on(value)
		switch key {
		case "name":
			s.Name = r.name(value, here)
		case "input":
			s.Input = r.memoryType(value, here, key)
		case "output":
			s.Output = r.memoryType(value, here, key)
		case "memory_mb":
			s.Memory = r.memory(value, here, key)
		case "output_mb":
			s.OutputSize = r.memory(value, here, key)
		case "libraries":
			s.Libraries = r.libraries(value, here)
		case "after":
			s.After = r.words(value, here, key)
		case "function":
			s.Function = r.text(value, here, key)
		}
	})
	if whole {
		r.required(n, at, "a step", "name", "input", "output")
	}
	s.unnamed = s.Name == ""
	s.Name = cmp.Or(s.Name, at.step)
	if s.OutputSize > 0 && s.Memory > 0 && s.OutputSize > s.Memory {
		r.add(at, BadValue, fmt.Sprintf("its output takes %s and the whole step only %s", s.OutputSize, s.Memory),
			"memory_mb counts the output too: raise it")
	}
	return s
}

func (r *reader) policy(n *yaml.Node, at place) string {
	word := r.text(n, at, "policy")
	if word != "" && !slices.Contains(policyNames, word) {
		r.add(at, BadValue, fmt.Sprintf("%q is not a policy", word), suggest(word, "there are", policyNames))
	}
	return word
}

// devices reads which devices a pipeline accepts, with the text as it stands.
func (r *reader) devices(n *yaml.Node, at place) (string, gpu.Where) {
	text := strings.TrimSpace(r.text(n, at, "gpu"))
	where, err := gpu.ParseDevices(text)
	if err != nil {
		r.add(at, BadValue, fmt.Sprintf("gpu: %v", err), "write an index (0), a UUID (GPU-…), or constraints such as name~H200,memory>=40GiB")
		return "", gpu.Where{}
	}
	return text, where
}

func (r *reader) memoryType(n *yaml.Node, at place, key string) MemoryType {
	word := r.text(n, at, key)
	if word == "" || slices.Contains(MemoryTypes(), MemoryType(word)) {
		return MemoryType(word)
	}
	remedy := suggest(word, "there are", memoryTypeNames())
	if meant, ok := nicknames[strings.ToLower(word)]; ok {
		remedy = fmt.Sprintf("did you mean %s?", meant)
	}
	r.add(at, UnknownMemoryType, fmt.Sprintf("%s: %q is not a memory type", key, word), remedy)
	return ""
}

func (r *reader) memory(n *yaml.Node, at place, key string) gpu.MiB {
	text := r.text(n, at, key)
	if text == "" {
		return 0
	}
	m, err := gpu.ParseMiB(text)
	if err != nil {
		r.add(at, BadValue, fmt.Sprintf("%s: %v", key, err), "write a number of MiB, or an amount such as 4GiB")
	}
	return m
}

func (r *reader) libraries(n *yaml.Node, at place) []string {
	var all []string
	for _, word := range r.words(n, at, "libraries") {
		if !importable(word) {
			r.add(at, BadValue, fmt.Sprintf("libraries: %q is not the name of a Python module", word),
				"write the name that comes after import, without a version: torch, skimage, cucim.skimage")
			continue
		}
		all = append(all, word)
	}
	return all
}

// importable reports whether a word can stand after import: letters, digits
// and underscores, with dots between.
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

// together checks what no pipeline can be blamed for alone, and how the steps
// of each hang together.
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

// nameOf looks ahead for the name of a pipeline or step, for messages. One
// without a name goes by its number.
func nameOf(n *yaml.Node, number int) string {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if v := n.Content[i+1]; n.Content[i].Value == "name" && v.Kind == yaml.ScalarNode && v.Value != "" {
				return words.Cut(v.Value, maxName)
			}
		}
	}
	return "#" + strconv.Itoa(number)
}
