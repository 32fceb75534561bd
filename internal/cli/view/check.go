package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Check shows the result of a check: the verdict, and each step.
func Check(c api.Check, to term.Screen) []string {
	took := words.Duration(time.Duration(c.Took * float64(time.Second)))
	head := fmt.Sprintf("GPU %d %s: %s (%s check, %s)", c.Index, verdict(c.Verdict), term.Clean(c.Reason), c.Kind, took)
	if c.Kind == "residue" {
		head = fmt.Sprintf("GPU %d: %s (%s)", c.Index, term.Clean(c.Reason), took)
	}
	lines := []string{to.Hang(verdictColour(c.Verdict), verdictMark(c.Verdict), head)}
	if c.Memory > 0 && c.Memory < c.Total*9/10 {
		lines = append(lines, to.Hang(term.Plain, "  ", fmt.Sprintf("%s of %s could be taken; the rest is leased or in use", c.Memory, c.Total)))
	}
	if c.Kind == "residue" {
		return lines
	}
	t := &term.Table{Columns: []term.Column{{Title: "  STEP"}, {Title: "VERDICT"}, {Title: "FOUND", Least: 10}}}
	for _, s := range c.Steps {
		t.Add(term.Text("  "+strings.ReplaceAll(s.Name, "_", " ")), term.Painted(verdict(s.Verdict), verdictColour(s.Verdict)), term.Text(term.Clean(s.Detail)))
	}
	if len(t.Rows) == 0 {
		return lines
	}
	return append(lines, t.Lines(to.Width, to.Painter)...)
}

// verdict writes a verdict for people.
func verdict(v string) string { return strings.ReplaceAll(v, "_", " ") }

func verdictColour(v string) term.Colour {
	switch v {
	case "passed":
		return term.Green
	case "failed":
		return term.Red
	}
	return term.Yellow
}

func verdictMark(v string) string {
	switch v {
	case "passed":
		return "✓ "
	case "failed":
		return "✗ "
	}
	return "! "
}
