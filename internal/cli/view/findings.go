package view

import (
	"fmt"

	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Finding is one result of the doctor's examination.
type Finding struct {
	Topic string // a word or two
	Grade string // ok, note or broken
	Text  string // the result
	Next  string // the next step
}

// Findings shows each finding with a mark, and counts those that are not well.
func Findings(all []Finding, to term.Screen) []string {
	var lines []string
	broken, notes := 0, 0
	for _, f := range all {
		mark, c := "✗", term.Red
		switch f.Grade {
		case "ok":
			mark, c = "✓", term.Green
		case "note":
			mark, c = "!", term.Yellow
			notes++
		default:
			broken++
		}
		lines = append(lines, to.Hang(c, mark+fmt.Sprintf(" %-11s", term.Clean(f.Topic)), term.CleanLines(f.Text)))
		if f.Next != "" {
			lines = append(lines, to.Hang(term.Plain, "             → ", term.Clean(f.Next)))
		}
	}
	summary := "Nothing is broken"
	if broken > 0 {
		summary = words.Count(broken, "thing") + " broken"
	}
	if notes > 0 {
		summary += ", " + words.Count(notes, "note")
	}
	return append(lines, "", summary+".")
}
