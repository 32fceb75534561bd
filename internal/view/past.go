package view

import (
	"strconv"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/term"
	"github.com/berth-gpu/berth/internal/words"
)

// Past shows the leases that have ended.
type Past struct {
	api.PastLeases
	GPUs     GPUs
	Filtered bool // somebody asked for some of them only
}

// Answer returns what the daemon said.
func (s *Past) Answer() any { return s.PastLeases }

// Lines writes the table for a screen. A lease has one row for every device.
func (s *Past) Lines(to term.Screen) []string {
	if len(s.Leases) == 0 {
		if s.Filtered {
			return []string{"No lease that has ended matches."}
		}
		return []string{"No lease has ended yet."}
	}
	t := &term.Table{Columns: []term.Column{
		{Title: "ID", Least: 8}, {Title: "HOLDER", Least: 8}, {Title: "GPU", Right: true}, {Title: "MEMORY GiB"},
		{Title: "SLOTS", Right: true}, {Title: "HELD", Right: true}, {Title: "ENDED", Right: true}, {Title: "HOW", Least: 8},
	}}
	for _, l := range s.Leases {
		for i, p := range l.Parts {
			row := make([]term.Cell, 8)
			if i == 0 {
				row[0], row[1] = term.Text(term.Clean(l.ID)), term.Text(Holder(l.Holder))
				row[5], row[6] = term.Text(words.Age(l.Ended.Sub(l.Granted))), term.Text(words.Age(to.Now.Sub(l.Ended))+" ago")
				row[7] = term.Text(how(l))
			}
			row[2], row[3], row[4] = s.GPUs.cell(p.GPU), usedCell(l.Peak, p.Memory), term.Text(strconv.Itoa(p.Slots))
			t.Add(row...)
		}
	}
	return t.Lines(to.Width, to.Painter)
}

// how says how a lease ended, and why where that is known.
func how(l api.PastLease) string {
	if l.Why == "" {
		return term.Clean(l.How)
	}
	return term.Clean(l.How + ": " + l.Why)
}
