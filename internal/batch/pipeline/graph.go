package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/internal/text/words"
)

// graph finds the order in which the steps of a pipeline run: the order they
// are written in, except where a step has to wait for a later one.
func (r *reader) graph(p *Pipeline) {
	position := map[string]int{}
	for i := range p.Steps {
		s := &p.Steps[i]
		if first, again := position[s.Name]; again {
			r.add(p.at(s), DuplicateName,
				fmt.Sprintf("the step in line %d has the same name", p.Steps[first].Line), "give it another one")
			continue
		}
		position[s.Name] = i
	}
	p.inputs = make([][]int, len(p.Steps))
	for i := range p.Steps {
		for _, name := range p.Steps[i].After {
			if r.problems.full() {
				return
			}
			before, known := position[name]
			if !known {
				r.add(p.at(&p.Steps[i]), UnknownStep,
					fmt.Sprintf("after: there is no step %q in this pipeline", name), othersThan(p, i, name))
				continue
			}
			p.inputs[i] = append(p.inputs[i], before)
		}
	}
	p.order = runOrder(p.inputs)
	if len(p.order) < len(p.Steps) {
		r.cycles(p)
	}
}

// othersThan lists the steps that one could wait for instead of a missing one.
func othersThan(p *Pipeline, position int, missing string) string {
	var names []string
	for i := range p.Steps {
		if name := p.Steps[i].Name; name != p.Steps[position].Name && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "the pipeline has no other step; after: [] waits for none"
	}
	return suggest(missing, "there are", names)
}

// runOrder puts every step after its inputs, and otherwise keeps the order of the file.
// It leaves out steps on a circle, and those behind one.
func runOrder(inputs [][]int) []int {
	var order []int
	done := make([]bool, len(inputs))
	ready := func(i int) bool {
		return !done[i] && !slices.ContainsFunc(inputs[i], func(before int) bool { return !done[before] })
	}
	for i := 0; i < len(inputs); {
		if !ready(i) {
			i++
			continue
		}
		done[i] = true
		order = append(order, i)
		i = 0 // an earlier step may have waited for it
	}
	return order
}

// cycles names every circle once.
func (r *reader) cycles(p *Pipeline) {
	const unseen, open, closed = 0, 1, 2
	state := make([]int, len(p.Steps))
	var path []int
	var visit func(i int)
	visit = func(i int) {
		state[i] = open
		path = append(path, i)
		for _, before := range p.inputs[i] {
			switch state[before] {
			case unseen:
				visit(before)
			case open:
				r.circle(p, path[slices.Index(path, before):])
			}
		}
		path = path[:len(path)-1]
		state[i] = closed
	}
	for i := range p.Steps {
		if state[i] == unseen && !r.problems.full() {
			visit(i)
		}
	}
}

// circle reports steps of which each waits for the next, and the last for the first.
func (r *reader) circle(p *Pipeline, steps []int) {
	if r.problems.full() {
		return
	}
	var names []string
	for _, i := range steps {
		names = append(names, fmt.Sprintf("%q", p.Steps[i].Name))
	}
	first := &p.Steps[steps[0]]
	text := names[0] + " waits for itself"
	if len(names) > 1 {
		text = strings.Join(append(names, names[0]), " waits for ")
	}
	r.add(p.at(first), Cycle, "steps run in a circle: "+words.Cut(text, 300),
		"change after of one of them; after: [] starts a step without waiting for any")
}
