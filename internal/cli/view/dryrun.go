package view

import (
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// DryRun describes how a program would be started.
type DryRun struct {
	Program     string         `json:"program"`
	Grant       api.Lease      `json:"grant"`
	Environment []string       `json:"environment"` // variables to set and, without =, to remove
	Receipt     launch.Receipt `json:"receipt"`     // what keeps the program to its lease, and what does not
}

// Would says what a program would get, and writes its environment in the syntax of a
// shell.
func (x GPUs) Would(d DryRun, to term.Screen) []string {
	lines := []string{to.Hang(term.Green, "✓ ", term.Clean(d.Program)+" would get "+x.Had(d.Grant)+", enforced by "+d.Grant.EnforcedBy)}
	if d.Grant.Note != "" {
		lines = append(lines, to.Hang(term.Plain, "  ", term.Clean(d.Grant.Note)))
	}
	for _, text := range d.Receipt.Held {
		lines = append(lines, to.Hang(term.Green, "  ✓ ", term.Clean(text)))
	}
	for _, text := range d.Receipt.Gaps {
		lines = append(lines, to.Hang(term.Yellow, "  ! ", term.Clean(text)))
	}
	lines = append(lines, "")
	for _, change := range d.Environment {
		if strings.Contains(change, "=") {
			name, value, _ := strings.Cut(term.Clean(change), "=")
			lines = append(lines, "export "+name+"="+words.Shell(value))
		} else {
			lines = append(lines, "unset "+term.Clean(change))
		}
	}
	return lines
}
