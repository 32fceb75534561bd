package view

import (
	"strconv"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// NodesLeases shows the leases of several machines in one table, with their pods.
type NodesLeases struct {
	api.Nodes
	Filtered bool // the user asked for only some of them
}

// Answer returns the answers of the machines.
func (s *NodesLeases) Answer() any { return s.Nodes }

// Lines writes the table for a screen.
func (s *NodesLeases) Lines(to term.Screen) []string {
	var lines []string
	parts := fleet.Parts(s.Nodes.Nodes)
	if len(parts) > 0 {
		lines = append(s.fit(parts, to).Lines(to.Width, to.Painter), "")
	}
	lines = append(lines, notes(s.Nodes, to)...)
	text := sumOf(s.Nodes)
	switch {
	case len(parts) == 0 && s.Filtered:
		text = "No lease matches. " + words.Count(len(s.Nodes.Nodes), "node") + " asked."
	case len(parts) == 0:
		text = "Nobody holds a lease. " + text
	}
	return append(lines, to.Hang(term.Plain, "", text))
}

// fit returns the richest table that fits the width.
func (s *NodesLeases) fit(parts []fleet.Part, to term.Screen) *term.Table {
	var t *term.Table
	var never []string
	if !fleet.HasPods(s.Nodes.Nodes) {
		never = []string{"POD"}
	}
	for _, without := range [][]string{nil, {"ENFORCED"}, {"ENFORCED", "SLOTS"}, {"ENFORCED", "SLOTS", "AGE"}} {
		if t = s.table(parts, append(without, never...), to); t.Fits(to.Width) {
			return t
		}
	}
	return narrowed(t)
}

// table returns one row for every device of a lease. The first row has the values of
// the lease as a whole.
func (s *NodesLeases) table(parts []fleet.Part, without []string, to term.Screen) *term.Table {
	t := columnsBut(without, []term.Column{
		{Title: "NODE", Least: 16}, {Title: "GPU", Right: true}, {Title: "POD", Least: 24, Fold: true}, {Title: "LEASE", Least: 12}, {Title: "MEMORY GiB"},
		{Title: "SLOTS", Right: true}, {Title: "AGE", Right: true}, {Title: "ENFORCED"},
	})
	for _, p := range parts {
		row := map[string]term.Cell{"NODE": term.Text(Short(p.Node)), "GPU": placeOf(p), "MEMORY GiB": leasedCell(p.Lease, p.On), "SLOTS": term.Text(strconv.Itoa(p.On.Slots))}
		if p.Old {
			row["NODE"] = term.Painted(Short(p.Node)+" (old)", term.Yellow)
		}
		if p.First {
			row["POD"], row["LEASE"] = term.Text("-"), term.Text(LeaseOf(p.PodLease))
			if len(p.Pods) > 0 {
				row["POD"] = term.Text(words.Few(podsOf(p.PodLease), mostNamed))
			}
			row["AGE"], row["ENFORCED"] = term.Text(words.Age(to.Now.Sub(p.Granted))), term.Text(Short(p.EnforcedBy))
		}
		t.add(row)
	}
	return &t.Table
}

// placeOf returns the index of the device.
func placeOf(p fleet.Part) term.Cell {
	switch {
	case p.Index >= 0:
		return term.Text(strconv.Itoa(p.Index))
	case p.On.GPU == "":
		return term.Text("-")
	}
	return term.Painted("gone", term.Red)
}
