package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Leases shows the leases and the waiting requests.
type Leases struct {
	api.Leases
	GPUs     GPUs
	Filtered bool // the user asked for only some of them
}

// Answer returns the answer of the daemon.
func (s *Leases) Answer() any { return s.Leases }

// Lines writes the tables for a screen.
func (s *Leases) Lines(to term.Screen) []string {
	var lines []string
	if len(s.Leases.Leases) > 0 {
		lines = append(s.held(to).Lines(to.Width, to.Painter), "")
	}
	if len(s.Waiting) > 0 {
		lines = append(lines, "Waiting, next first:")
		lines = append(append(lines, s.queue(to).Lines(to.Width, to.Painter)...), "")
	}
	lines = append(lines, to.Hang(term.Plain, "", s.totals()))
	for _, l := range s.Leases.Leases {
		if l.Paced != nil {
			lines = append(lines, pacedLine(l.ID, l.Paced, to))
		}
		lines = append(lines, whereabouts(l, to)...)
	}
	if s.Note != "" {
		lines = append(lines, to.Hang(term.Plain, "", s.Note))
	}
	return lines
}

// leaseLayout says how much of the table fits.
type leaseLayout struct {
	id, holder            int // columns they may be cut to; 0 for never
	noHolder, noAge, noBy bool
	noEnergy              bool
}

// held returns the richest table of the leases that fits. It cuts ids last, because
// other commands take them.
func (s *Leases) held(to term.Screen) *term.Table {
	var t *term.Table
	measured := slices.ContainsFunc(s.Leases.Leases, func(l api.Lease) bool { return l.Energy.Known() })
	for _, l := range []leaseLayout{
		{}, {holder: 8}, {holder: 8, noEnergy: true}, {holder: 8, noEnergy: true, noBy: true}, {holder: 8, noEnergy: true, noBy: true, noAge: true},
		{id: 8, noEnergy: true, noBy: true, noAge: true, noHolder: true},
	} {
		l.noEnergy = l.noEnergy || !measured
		t = s.table(l, to.Now)
		if t.Fits(to.Width) {
			break
		}
	}
	return t
}

// table returns one row for every device of a lease. The first row has the values of
// the lease as a whole.
func (s *Leases) table(l leaseLayout, now time.Time) *term.Table {
	t := &term.Table{Columns: kept(l, []term.Column{
		{Title: "ID", Least: l.id}, {Title: "HOLDER", Least: l.holder}, {Title: "GPU", Right: true}, {Title: "MEMORY GiB"},
		{Title: "SLOTS", Right: true}, {Title: "UNTIL"}, {Title: "AGE", Right: true}, {Title: "ENFORCED"}, {Title: "ENERGY", Right: true},
	})}
	for _, lease := range s.Leases.Leases {
		for i, p := range lease.Parts {
			row := make([]term.Cell, 9)
			if i == 0 {
				row[0], row[1], row[5] = term.Text(term.Clean(lease.ID)), term.Text(Holder(lease.Holder)), term.Text(Until(lease, now))
				row[6], row[7] = term.Text(words.Age(now.Sub(lease.Granted))), term.Text(term.Clean(lease.EnforcedBy))
				row[8] = term.Text(energyOf(lease.Energy))
			}
			row[2], row[3], row[4] = s.GPUs.cell(p.GPU), leasedCell(lease, p), term.Text(strconv.Itoa(p.Slots))
			t.Add(kept(l, row)...)
		}
	}
	return t
}

// kept omits the columns that do not fit.
func kept[T any](l leaseLayout, all []T) []T {
	var some []T
	for i, each := range all {
		if !(i == 1 && l.noHolder || i == 6 && l.noAge || i == 7 && l.noBy || i == 8 && l.noEnergy) {
			some = append(some, each)
		}
	}
	return some
}

// leasedCell writes the used and the leased memory. It marks a holder that uses more
// than it leased.
func leasedCell(l api.Lease, p api.LeasePart) term.Cell {
	used, leased := "-", "-"
	measured, seen := p.Measured.Get()
	if seen {
		used = GiB(fleet.Amount(measured))
	}
	if l.State == "parked" {
		used = "parked"
	}
	if p.Memory > 0 {
		leased = GiB(fleet.Amount(p.Memory))
	}
	c := term.Text(fmt.Sprintf("%4s/%s", used, leased))
	if p.Memory > 0 && measured > p.Memory {
		c.Colour = term.Red
	}
	return c
}

// Until says in a word or two what ends a lease.
func Until(l api.Lease, now time.Time) string {
	soonest := l.Expires
	if l.Ends != nil && (soonest == nil || l.Ends.Before(*soonest)) {
		soonest = l.Ends
	}
	switch {
	case soonest != nil:
		return "in " + words.Age(soonest.Sub(now))
	case l.Binding == "process":
		if pid := cmp.Or(l.Heir, l.Holder.PID); pid != 0 {
			return "pid " + strconv.Itoa(pid)
		}
		return "process"
	}
	return "release"
}

// queue returns the table of the waiting requests. It has a column for priorities if
// there are any.
func (s *Leases) queue(to term.Screen) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Title: "#", Right: true}, {Title: "ID"}, {Title: "HOLDER", Least: 8}, {Title: "ASKS FOR", Least: 12},
		{Title: "WAITS", Right: true}, {Title: "UNTIL"},
	}}
	ranked := slices.ContainsFunc(s.Waiting, func(w api.Waiting) bool { return w.Priority != 0 })
	if ranked {
		t.Columns = append(t.Columns, term.Column{Title: "PRIORITY", Right: true})
	}
	for _, w := range s.Waiting {
		asks, deadline := asksFor(w), "-"
		if w.Deadline != nil {
			deadline = "in " + words.Age(w.Deadline.Sub(to.Now))
		}
		row := []term.Cell{term.Text(strconv.Itoa(w.Position)), term.Text(term.Clean(w.ID)), term.Text(Holder(w.Holder)), term.Text(asks),
			term.Text(words.Age(to.Now.Sub(w.Since))), term.Text(deadline)}
		if ranked {
			row = append(row, term.Text(strconv.Itoa(w.Priority)))
		}
		t.Add(row...)
	}
	return t
}

// asksFor describes what a request waits for.
func asksFor(w api.Waiting) string {
	text := Amount(w.Memory, w.Slots)
	switch {
	case w.For == "resume":
		text += ", to return"
	case w.For == "resize":
		text += " more"
	case w.GPUs > 1:
		text = fmt.Sprintf("%d × %s", w.GPUs, text)
	}
	return text
}

func (s *Leases) totals() string {
	if len(s.Leases.Leases) == 0 && len(s.Waiting) == 0 {
		if s.Filtered {
			return "No lease and no request matches."
		}
		return "Nobody holds a lease, and nobody waits for one."
	}
	var memory gpu.MiB
	slots, parked := 0, 0
	for _, l := range s.Leases.Leases {
		if l.State == "parked" { // a parked lease holds nothing
			parked++
			continue
		}
		for _, p := range l.Parts {
			memory += p.Memory
			slots += p.Slots
		}
	}
	parts := []string{words.Count(len(s.Leases.Leases), "lease")}
	if memory > 0 {
		parts = append(parts, gib(memory)+" GiB")
	}
	if slots > 0 {
		parts = append(parts, words.Count(slots, "slot"))
	}
	if parked > 0 {
		parts = append(parts, fmt.Sprintf("%d parked", parked))
	}
	if n := len(s.Waiting); n > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting", n))
	}
	return strings.Join(parts, " · ")
}
