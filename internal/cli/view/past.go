package view

import (
	"slices"
	"strconv"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Past shows ended leases.
type Past struct {
	api.PastLeases
	GPUs     GPUs
	Filtered bool // the user asked for only some of them
}

// Answer returns the answer of the daemon.
func (s *Past) Answer() any { return s.PastLeases }

// Lines writes the table for a screen. A lease has one row for every device.
func (s *Past) Lines(to term.Screen) []string {
	if len(s.Leases) == 0 {
		if s.Filtered {
			return []string{"No lease that has ended matches."}
		}
		return []string{"No lease has ended yet."}
	}
	measured := slices.ContainsFunc(s.Leases, func(l api.PastLease) bool { return l.Energy.Known() })
	if t := s.table(to, measured); !measured || t.Fits(to.Width) {
		return t.Lines(to.Width, to.Painter)
	}
	return s.table(to, false).Lines(to.Width, to.Painter)
}

// table returns the table, with or without the energy of each lease.
func (s *Past) table(to term.Screen, energy bool) *term.Table {
	least := 8
	if energy {
		least = 0 // the column ENERGY is not worth cutting names
	}
	t := &term.Table{Columns: []term.Column{
		{Title: "ID", Least: least}, {Title: "HOLDER", Least: least}, {Title: "GPU", Right: true}, {Title: "MEMORY GiB"},
		{Title: "SLOTS", Right: true}, {Title: "HELD", Right: true}, {Title: "ENDED", Right: true}, {Title: "HOW", Least: 8},
	}}
	if energy {
		t.Columns = append(t.Columns, term.Column{Title: "ENERGY", Right: true})
	}
	for _, l := range s.Leases {
		for i, p := range l.Parts {
			row := make([]term.Cell, len(t.Columns))
			if i == 0 {
				row[0], row[1] = term.Text(term.Clean(l.ID)), term.Text(Holder(l.Holder))
				row[5], row[6] = term.Text(words.Age(l.Ended.Sub(l.Granted))), term.Text(words.Age(to.Now.Sub(l.Ended))+" ago")
				row[7] = term.Text(how(l))
			}
			row[2], row[3], row[4] = s.GPUs.cell(p.GPU), usedCell(l.Peak, p.Memory), term.Text(strconv.Itoa(p.Slots))
			if energy && i == 0 {
				row[8] = term.Text(energyOf(l.Energy))
			}
			t.Add(row...)
		}
	}
	return t
}

// how says how a lease ended, and why if that is known.
func how(l api.PastLease) string {
	if l.Why == "" {
		return term.Clean(l.How)
	}
	return term.Clean(l.How + ": " + l.Why)
}
