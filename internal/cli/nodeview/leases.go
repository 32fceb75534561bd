package nodeview

import (
	"fmt"
	"strconv"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Leases shows the leases of several machines in one table, and the pods that
// they are for.
type Leases struct {
	api.Nodes
	Filtered bool // somebody asked for some of them only
}

// Answer returns what the machines said.
func (s *Leases) Answer() any { return s.Nodes }

// Lines writes the table for a screen.
func (s *Leases) Lines(to term.Screen) []string {
	var lines []string
	parts := fleet.Parts(s.Nodes.Nodes)
	if len(parts) > 0 {
		lines = append(s.fit(parts, to).Lines(to.Width, to.Painter), "")
	}
	lines = append(lines, notes(s.Nodes, to)...)
	text := Sum(s.Nodes)
	switch {
	case len(parts) == 0 && s.Filtered:
		text = "No lease matches. " + words.Count(len(s.Nodes.Nodes), "node") + " asked."
	case len(parts) == 0:
		text = "Nobody holds a lease. " + text
	}
	return append(lines, to.Hang(term.Plain, "", text))
}

// fit returns the richest table that the width has room for.
func (s *Leases) fit(parts []fleet.Part, to term.Screen) *term.Table {
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

// table returns one row for every device of a lease. What belongs to the lease as a
// whole is in the first.
func (s *Leases) table(parts []fleet.Part, without []string, to term.Screen) *term.Table {
	t := columnsBut(without, []term.Column{
		{Title: "NODE", Least: 16}, {Title: "GPU", Right: true}, {Title: "POD", Least: 24, Fold: true}, {Title: "LEASE", Least: 12}, {Title: "MEMORY GiB"},
		{Title: "SLOTS", Right: true}, {Title: "AGE", Right: true}, {Title: "ENFORCED"},
	})
	for _, p := range parts {
		row := map[string]term.Cell{"NODE": term.Text(Short(p.Node)), "GPU": placeOf(p), "MEMORY GiB": used(p), "SLOTS": term.Text(strconv.Itoa(p.On.Slots))}
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

// used writes what is used of what is leased. It marks a lease that uses more.
func used(p fleet.Part) term.Cell {
	inUse, leased := "-", "-"
	measured, seen := p.On.Measured.Get()
	if seen {
		inUse = GiB(fleet.Amount(measured))
	}
	if p.State == "parked" {
		inUse = "parked"
	}
	if p.On.Memory > 0 {
		leased = GiB(fleet.Amount(p.On.Memory))
	}
	c := term.Text(fmt.Sprintf("%4s/%s", inUse, leased))
	if p.On.Memory > 0 && measured > p.On.Memory {
		c.Colour = term.Red
	}
	return c
}
