package view

import (
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Strays shows the processes that use devices under no lease.
type Strays struct {
	api.Strays
	GPUs GPUs
}

// Answer returns the answer of the daemon.
func (s *Strays) Answer() any { return s.Strays }

// Lines writes the table for a screen.
func (s *Strays) Lines(to term.Screen) []string {
	if len(s.Orphans)+len(s.Foreign) == 0 {
		return []string{"No process uses a GPU without a lease."}
	}
	t := &term.Table{Columns: []term.Column{
		{Title: "GPU"}, {Title: "PID", Right: true}, {Title: "PROCESS", Least: 8}, {Title: "USER", Least: 6}, {Title: "MEMORY", Right: true}, {Title: "LEASE THAT HAS ENDED", Least: 8},
	}}
	undecided := slices.ContainsFunc(s.Foreign, fitsSeveral) || slices.ContainsFunc(s.Orphans, fitsSeveral)
	if undecided {
		t.Columns = append(t.Columns, term.Column{Title: "BELONGS TO NONE, BECAUSE IT", Least: 12})
	}
	pods := slices.ContainsFunc(s.Foreign, inPod) || slices.ContainsFunc(s.Orphans, inPod)
	if pods {
		t.Columns = append(t.Columns, term.Column{Title: "POD", Least: 12})
	}
	for _, list := range [][]api.Stray{s.Orphans, s.Foreign} {
		for _, p := range list {
			memory := "open only"
			if m, known := p.Memory.Get(); known {
				memory = m.String()
			}
			row := []term.Cell{s.GPUs.cell(p.GPU), term.Text(pidText(p.PID)), term.Text(term.Clean(p.Name)), term.Text(term.Clean(p.User)), term.Text(memory), term.Text(term.Clean(p.Lease))}
			if undecided {
				row = append(row, term.Text(fits(p)))
			}
			if pods {
				row = append(row, term.Text(term.Clean(p.Pod)))
			}
			t.Add(row...)
		}
	}
	summary := words.Count(len(s.Orphans), "orphan") + ", " + words.Count(len(s.Foreign), "other") + " that never had a lease"
	return append(t.Lines(to.Width, to.Painter), "", to.Hang(term.Plain, "", summary+". berth adopt puts one under a lease."))
}

// inPod reports whether a process runs in a pod of Kubernetes.
func inPod(p api.Stray) bool { return p.Pod != "" }

// fitsSeveral reports whether a process fits several leases equally.
func fitsSeveral(p api.Stray) bool { return len(p.Fits) > 0 }

// fits names the leases that a process fits equally.
func fits(p api.Stray) string {
	if !fitsSeveral(p) {
		return ""
	}
	return term.Clean("fits " + words.And(p.Fits) + " by " + p.Evidence)
}
