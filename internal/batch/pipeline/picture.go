package pipeline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Mermaid draws the plan as a Mermaid flowchart, which many sites render.
func Mermaid(p *api.Plan) string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	draw(p, func(i int, planned *api.PlannedPipeline) {
		fmt.Fprintf(&b, "  subgraph p%d[\"%s\"]\n", i, mermaidText(caption(planned)))
	}, func(id string, s *api.PlannedStep) {
		class := "cpu"
		if s.OnGPU {
			class = "gpu"
		}
		fmt.Fprintf(&b, "    %s[\"%s<br/>%s\"]:::%s\n", id, mermaidText(s.Name), mermaidText(memoryOf(s)), class)
	}, func(from, to, label string, copied bool) {
		arrow := "-->"
		if copied {
			arrow = "==>"
		}
		fmt.Fprintf(&b, "    %s %s|\"%s\"| %s\n", from, arrow, mermaidText(label), to)
	}, func() { b.WriteString("  end\n") })
	b.WriteString("  classDef gpu fill:#d9f2d9,stroke:#2d7d2d,color:#000\n")
	b.WriteString("  classDef cpu fill:#eeeeee,stroke:#777777,color:#000\n")
	return b.String()
}

// DOT draws the plan for Graphviz.
func DOT(p *api.Plan) string {
	var b strings.Builder
	b.WriteString("digraph plan {\n  rankdir=LR;\n  node [shape=box, style=filled];\n")
	draw(p, func(i int, planned *api.PlannedPipeline) {
		fmt.Fprintf(&b, "  subgraph cluster_p%d {\n    label=%s;\n", i, dotText(caption(planned)))
	}, func(id string, s *api.PlannedStep) {
		colour := "#eeeeee"
		if s.OnGPU {
			colour = "#d9f2d9"
		}
		fmt.Fprintf(&b, "    %s [label=%s, fillcolor=%q];\n", id, dotText(s.Name, memoryOf(s)), colour)
	}, func(from, to, label string, copied bool) {
		style := "solid"
		if copied {
			style = "bold"
		}
		fmt.Fprintf(&b, "    %s -> %s [label=%s, style=%s];\n", from, to, dotText(label), style)
	}, func() { b.WriteString("  }\n") })
	b.WriteString("}\n")
	return b.String()
}

// draw walks through the plan for both pictures. Nodes get ids of their own, because the
// names of steps may hold anything.
func draw(p *api.Plan, begin func(int, *api.PlannedPipeline), node func(id string, s *api.PlannedStep), edge func(from, to, label string, copied bool), end func()) {
	for i := range p.Pipelines {
		planned := &p.Pipelines[i]
		begin(i, planned)
		ids, outputs := map[string]string{}, map[string]string{}
		for j := range planned.Steps {
			s := &planned.Steps[j]
			ids[s.Name], outputs[s.Name] = fmt.Sprintf("p%ds%d", i, j), s.Output
			node(ids[s.Name], s)
		}
		for j := range planned.Steps {
			s := &planned.Steps[j]
			for _, before := range s.After {
				label, copied := outputs[before], false
				if at := slices.IndexFunc(s.Conversions, func(c api.Conversion) bool { return c.Step == before }); at >= 0 {
					c := s.Conversions[at]
					label, copied = fmt.Sprintf("%s → %s, %s", c.From, c.To, cost(c)), c.Cost == api.CostHostCopy
				}
				edge(ids[before], ids[s.Name], label, copied)
			}
		}
		end()
	}
}

func caption(p *api.PlannedPipeline) string {
	text := p.Name
	if len(p.Runs) > 1 {
		text = fmt.Sprintf("%s × %d", text, len(p.Runs))
	}
	return text + " on " + onDevices(p)
}

// onDevices returns where the runs of a pipeline are.
func onDevices(p *api.PlannedPipeline) string {
	if p.Memory == 0 {
		return "CPU"
	}
	var all []string
	seen := map[string]bool{}
	for i := range p.Runs {
		if run := &p.Runs[i]; !seen[run.GPU] {
			seen[run.GPU] = true
			all = append(all, strconv.Itoa(run.Index.Or(0)))
		}
	}
	if len(all) > 4 {
		return words.Count(len(all), "GPU")
	}
	return "GPU " + strings.Join(all, ", ")
}

// memoryOf returns the memory of a step for a picture.
func memoryOf(s *api.PlannedStep) string {
	if !s.OnGPU {
		return "CPU"
	}
	return "GPU, " + s.Memory.String()
}

// mermaidText returns a text that can go between double quotes: characters with a meaning
// in Mermaid or HTML become entities.
func mermaidText(s string) string {
	var b strings.Builder
	for _, c := range term.Clean(s) {
		if strings.ContainsRune("\"#&<>`'\\;{}|%*_~$", c) {
			fmt.Fprintf(&b, "#%d;", c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// dotText writes lines as one quoted string.
func dotText(lines ...string) string {
	for i, line := range lines {
		lines[i] = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(term.Clean(line))
	}
	return `"` + strings.Join(lines, `\n`) + `"`
}
