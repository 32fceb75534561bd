package view

import (
	"cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Belonging shows the processes of leases, and why they belong to them.
type Belonging struct {
	api.Leases
	GPUs GPUs
}

// Answer returns the answer of the daemon.
func (s *Belonging) Answer() any { return s.Leases }

// reasons explains why a process belongs to a lease, by the word of the API.
var reasons = map[string]string{
	"scope":       "is in its scope",
	"descent":     "holds it or descends from its holder",
	"environment": "has its id and fence in the environment",
	"unit":        "runs in its unit",
	"service":     "matches its service",
	"program":     "has its user and its name",
}

// Lines writes the table for a screen.
func (s *Belonging) Lines(to term.Screen) []string {
	t := &term.Table{Columns: []term.Column{
		{Title: "LEASE", Least: 8}, {Title: "GPU", Right: true}, {Title: "PID", Right: true}, {Title: "PROCESS", Least: 8},
		{Title: "MEMORY", Right: true}, {Title: "BELONGS, BECAUSE IT", Least: 12},
	}}
	shown := 0
	for _, lease := range s.Leases.Leases {
		for _, p := range lease.Processes {
			shown++
			t.Add(term.Text(term.Clean(lease.ID)), s.GPUs.cell(p.GPU), term.Text(pidText(p.PID)), term.Text(term.Clean(p.Name)),
				term.Text(p.Memory.String()), term.Text(cmp.Or(reasons[p.Evidence], term.Clean(p.Evidence))))
		}
	}
	if shown == 0 {
		return []string{to.Hang(term.Plain, "", "No process of a lease that you can see uses a GPU. berth leases --orphans shows those without a lease.")}
	}
	lines := append(t.Lines(to.Width, to.Painter), "", to.Hang(term.Plain, "", words.Count(shown, "process")+"."))
	if s.Note != "" {
		lines = append(lines, to.Hang(term.Plain, "", s.Note))
	}
	return lines
}
