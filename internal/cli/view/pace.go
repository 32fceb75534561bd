package view

import (
	"fmt"
	"math"
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
)

// Paced says which share a lease is held to.
func (x GPUs) Paced(l api.Lease, to term.Screen) []string {
	if l.Paced == nil {
		return []string{to.Hang(term.Plain, "", term.Clean(l.ID)+" runs freely.")}
	}
	return []string{pacedLine(l.ID, l.Paced, to)}
}

func percent(share float64) string { return fmt.Sprintf("%d %%", int(math.Round(100*share))) }

// pacedLine says in one line which share a lease is held to, by whom, and how much it
// gets.
func pacedLine(id string, p *api.Paced, to term.Screen) string {
	text := term.Clean(id) + " is held to " + percent(p.Share)
	if len(p.HeldBy) > 0 {
		by := p.HeldBy[0]
		text += " by " + map[string]string{"owner": "its owner", "operator": "an operator", "throttle": "gpu.throttle"}[by.Source]
		if by.Why != "" {
			text += ": " + term.Clean(by.Why)
		}
	}
	measured, known := p.Measured.Get()
	switch {
	case p.Refused != "":
		return to.Hang(term.Yellow, "! ", text+"; but it runs freely: "+term.Clean(p.Refused))
	case known && p.MeasuredBy == "driver":
		text += fmt.Sprintf(" (it gets %s)", percent(measured))
	case known:
		text += fmt.Sprintf(" (it gets %s by duty, not measured)", percent(measured))
	}
	return to.Hang(term.Plain, "", text+".")
}

// paced lists the leases that are held to a share, each once.
func (s *Status) paced(to term.Screen) []string {
	var lines []string
	for _, d := range s.GPUs {
		for _, l := range d.Leases {
			if l.Paced == nil {
				continue
			}
			if line := pacedLine(l.ID, l.Paced, to); !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}
