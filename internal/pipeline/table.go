package pipeline

import (
	"fmt"
	"strconv"
	"strings"
)

// Table writes the plan for people.
func (p *Plan) Table() string {
	var b strings.Builder
	for i := range p.Pipelines {
		if i > 0 {
			b.WriteByte('\n')
		}
		p.Pipelines[i].table(&b)
	}
	if p.Waves > 0 || p.waiting() > 0 {
		b.WriteByte('\n')
		p.devices(&b)
	}
	writeNotes(&b, "note: ", p.Notes)
	return b.String()
}

func (p *Plan) waiting() int {
	sum := 0
	for i := range p.Devices {
		sum += p.Devices[i].Waiting
	}
	return sum
}

func (p *Planned) table(b *strings.Builder) {
	wrapped(b, "", "  ", p.headline())
	t := grid{columns: []column{
		{title: "STEP", least: 8}, {title: "ON"}, {title: "IN→OUT", least: 14}, {title: "CONVERTED FROM", least: 14},
		{title: "MEMORY", right: true}, {title: "FROM", least: 8}, {title: "PEAK", right: true},
	}}
	if p.Memory == 0 {
		t.columns = t.columns[:3]
	}
	for i := range p.Steps {
		p.Steps[i].rows(&t)
	}
	t.write(b)
	if libraries := p.libraries(); libraries != "" {
		wrapped(b, "  ", "    ", "libraries: "+libraries)
	}
	writeNotes(b, "not now: ", p.Unsatisfied)
	writeNotes(b, "note: ", p.Notes)
}

// headline says in a sentence what the pipeline gets.
func (p *Planned) headline() string {
	text := fmt.Sprintf("pipeline %s: %s", clean(p.Name), plural(len(p.Runs), "run"))
	if seconds, known := p.Seconds.Get(); known {
		text += " of about " + span(seconds)
	}
	if p.Memory == 0 {
		return text + ", no GPU needed"
	}
	each := ""
	if len(p.Runs) > 1 {
		each = " each"
	} else if index, placed := p.Runs[0].Index.Get(); placed {
		text += fmt.Sprintf(" on GPU %d", index)
	}
	return fmt.Sprintf("%s, %s and %s%s (peak %s + %s for the CUDA context)",
		text, plural(p.Slots, "slot"), p.Memory, each, p.Peak, p.Context)
}

// rows writes a step: one row, and one more for every further conversion.
func (s *PlannedStep) rows(t *grid) {
	on, memory, from, peak := "CPU", "-", "-", "-"
	if s.OnGPU {
		on, memory, from = "GPU", s.Memory.String(), s.from()
	}
	if s.Peak > 0 {
		peak = s.Peak.String()
	}
	before := []string{"-"}
	for i, c := range s.Conversions {
		text := fmt.Sprintf("%s (%s)", c.From, c.Cost.words())
		if i == 0 {
			before[0] = text
		} else {
			before = append(before, text)
		}
	}
	types := fmt.Sprintf("%s→%s", s.Input, s.Output)
	t.add(clean(s.Name), on, types, before[0], memory, from, peak)
	for _, more := range before[1:] {
		t.add("", "", "", more, "", "", "")
	}
}

func (s *PlannedStep) from() string {
	if s.MemoryFrom == Learned {
		return fmt.Sprintf("%s (%d)", Learned, s.Measured)
	}
	return string(s.MemoryFrom)
}

// libraries names each library of the pipeline once.
func (p *Planned) libraries() string {
	var all []string
	seen := map[string]bool{}
	for i := range p.Steps {
		for _, l := range p.Steps[i].Libraries {
			if !seen[l.Name] {
				seen[l.Name] = true
				all = append(all, clean(strings.TrimSpace(l.Name+" "+l.Version)))
			}
		}
	}
	return strings.Join(all, ", ")
}

func (p *Plan) devices(b *strings.Builder) {
	text := "nothing can start now"
	if p.Waves > 0 {
		together := "at a time"
		if p.SideBySide > 1 {
			together = "side by side"
		}
		text = fmt.Sprintf("%s %s, %s", plural(p.SideBySide, "run"), together, plural(p.Waves, "wave"))
	}
	if seconds, known := p.Seconds.Get(); known {
		text += ", about " + span(seconds) + " in all"
	}
	wrapped(b, "", "  ", text)
	t := grid{columns: []column{
		{title: "GPU", right: true}, {title: "NAME", least: 12}, {title: "RUNS", right: true}, {title: "SIDE BY SIDE", right: true},
		{title: "WAVES", right: true}, {title: "WAITING", right: true}, {title: "LEASED", right: true},
	}}
	for i := range p.Devices {
		d := &p.Devices[i]
		t.add(strconv.Itoa(d.Index), clean(d.Name), strconv.Itoa(d.Runs), strconv.Itoa(d.SideBySide),
			strconv.Itoa(d.Waves), strconv.Itoa(d.Waiting), d.Memory.String())
	}
	t.write(b)
}

func writeNotes(b *strings.Builder, label string, notes []string) {
	for _, note := range notes {
		wrapped(b, "  ", "    ", label+clean(note))
	}
}

// span is a time for people.
func span(seconds float64) string {
	switch {
	case seconds < 10:
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	case seconds < 120:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 2*3600:
		return fmt.Sprintf("%.0f min", seconds/60)
	}
	return fmt.Sprintf("%.1f h", seconds/3600)
}
