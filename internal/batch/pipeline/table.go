package pipeline

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Width is the default width of a table in columns.
const Width = 80

// Table writes the plan in lines of at most width columns.
func Table(p *api.Plan, width int) string {
	t := page{width: width}
	for i := range p.Pipelines {
		if i > 0 {
			t.line("")
		}
		t.pipeline(&p.Pipelines[i])
	}
	if p.Waves > 0 || waiting(p) > 0 {
		t.line("")
		t.devices(p)
	}
	t.notes("note: ", p.Notes)
	return t.String()
}

func waiting(p *api.Plan) int {
	sum := 0
	for i := range p.Devices {
		sum += p.Devices[i].Waiting
	}
	return sum
}

// page is the table while it grows.
type page struct {
	strings.Builder
	width int
}

func (t *page) line(text string) { t.WriteString(text + "\n") }

func (t *page) paragraph(lead, indent, text string) {
	for _, line := range term.Paragraph(lead, indent, text, t.width) {
		t.line(line)
	}
}

func (t *page) table(table *term.Table) {
	for _, line := range table.Lines(t.width, false) {
		t.line(line)
	}
}

func (t *page) notes(label string, notes []string) {
	for _, note := range notes {
		t.paragraph("  ", "    ", label+term.Clean(note))
	}
}

func (t *page) pipeline(p *api.PlannedPipeline) {
	t.paragraph("", "  ", headline(p))
	table := &term.Table{Indent: 2, Columns: []term.Column{
		{Title: "STEP", Least: 8, Fold: true}, {Title: "ON"}, {Title: "IN→OUT", Least: 14, Fold: true}, {Title: "CONVERTED FROM", Least: 14, Fold: true},
		{Title: "MEMORY", Right: true}, {Title: "FROM", Least: 8, Fold: true}, {Title: "PEAK", Right: true},
	}}
	if p.Memory == 0 {
		table.Columns = table.Columns[:3]
	}
	for i := range p.Steps {
		addStep(table, &p.Steps[i])
	}
	t.table(table)
	if libraries := libraries(p); libraries != "" {
		t.paragraph("  ", "    ", "libraries: "+libraries)
	}
	t.notes("not now: ", p.Unsatisfied)
	t.notes("note: ", p.Notes)
}

// headline returns a sentence that says what the pipeline gets.
func headline(p *api.PlannedPipeline) string {
	text := fmt.Sprintf("pipeline %s: %s", term.Clean(p.Name), words.Count(len(p.Runs), "run"))
	if seconds, known := p.Seconds.Get(); known {
		text += " of about " + length(seconds)
	}
	if p.Memory == 0 {
		return text + ", no GPU needed"
	}
	each := ""
	if len(p.Runs) > 1 {
		each = " each"
	} else if index, placed := onlyIndex(p); placed {
		text += fmt.Sprintf(" on GPU %d", index)
	}
	return fmt.Sprintf("%s, %s and %s%s (peak %s + %s for the CUDA context)",
		text, words.Count(p.Slots, "slot"), p.Memory.Beside(p.Peak, p.Context), each, p.Peak.Beside(p.Memory, p.Context), p.Context.Beside(p.Memory, p.Peak))
}

// onlyIndex returns the device of the only run.
func onlyIndex(p *api.PlannedPipeline) (index int, placed bool) {
	if len(p.Runs) == 0 {
		return 0, false
	}
	return p.Runs[0].Index.Get()
}

// addStep adds one row, and one more for every further conversion.
func addStep(t *term.Table, s *api.PlannedStep) {
	on, memory, from, peak := "CPU", "-", "-", "-"
	if s.OnGPU {
		on, memory, from = "GPU", s.Memory.InGiB(), memoryFrom(s)
	}
	if s.Peak > 0 {
		peak = s.Peak.InGiB()
	}
	before := []string{"-"}
	for i, c := range s.Conversions {
		text := fmt.Sprintf("%s (%s)", term.Clean(c.From), cost(c))
		if i == 0 {
			before[0] = text
		} else {
			before = append(before, text)
		}
	}
	t.Add(term.Text(term.Clean(s.Name)), term.Text(on), term.Text(term.Clean(s.Input+"→"+s.Output)), term.Text(before[0]),
		term.Text(memory), term.Text(from), term.Text(peak))
	for _, more := range before[1:] {
		t.Add(term.Cell{}, term.Cell{}, term.Cell{}, term.Text(more))
	}
}

// cost returns the cost of a conversion in words.
func cost(c api.Conversion) string { return strings.ReplaceAll(term.Clean(c.Cost), "_", " ") }

func memoryFrom(s *api.PlannedStep) string {
	if s.MemoryFrom == api.MemoryLearned {
		return fmt.Sprintf("%s (%d)", s.MemoryFrom, s.Measured)
	}
	return term.Clean(s.MemoryFrom)
}

// libraries names each library of the pipeline once.
func libraries(p *api.PlannedPipeline) string {
	var all []string
	seen := map[string]bool{}
	for i := range p.Steps {
		for _, l := range p.Steps[i].Libraries {
			if !seen[l.Name] {
				seen[l.Name] = true
				all = append(all, term.Clean(strings.TrimSpace(l.Name+" "+l.Version)))
			}
		}
	}
	return strings.Join(all, ", ")
}

func (t *page) devices(p *api.Plan) {
	text := "nothing can start now"
	if p.Waves > 0 {
		together := "at a time"
		if p.SideBySide > 1 {
			together = "side by side"
		}
		text = fmt.Sprintf("%s %s, %s", words.Count(p.SideBySide, "run"), together, words.Count(p.Waves, "wave"))
	}
	if seconds, known := p.Seconds.Get(); known {
		text += ", about " + length(seconds) + " in all"
	}
	t.paragraph("", "  ", text)
	table := &term.Table{Indent: 2, Columns: []term.Column{
		{Title: "GPU", Right: true}, {Title: "NAME", Least: 12, Fold: true}, {Title: "RUNS", Right: true}, {Title: "SIDE BY SIDE", Right: true},
		{Title: "WAVES", Right: true}, {Title: "WAITING", Right: true}, {Title: "LEASED", Right: true},
	}}
	for i := range p.Devices {
		d := &p.Devices[i]
		table.Add(number(d.Index), term.Text(term.Clean(d.Name)), number(d.Runs), number(d.SideBySide),
			number(d.Waves), number(d.Waiting), term.Text(d.Memory.InGiB()))
	}
	t.table(table)
}

func number(n int) term.Cell { return term.Text(strconv.Itoa(n)) }

// length returns an expected time. The longer it is, the more it is rounded.
func length(seconds float64) string {
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
