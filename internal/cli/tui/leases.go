package tui

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/cli/view"
)

// leaseCount writes the number of leases, and how many match the filter. One with several
// rows counts once.
func (s *State) leaseCount() string {
	shown := map[*api.Lease]bool{}
	for _, r := range s.leases {
		if r.lease != nil && s.filter != "" {
			shown[r.lease] = true
		}
	}
	return "LEASES " + s.count(len(shown), len(s.parts))
}

// noLeases says why the list is empty.
func (s *State) noLeases() string {
	switch {
	case s.Local && len(s.parts) == 0:
		return "Without a daemon there are no leases."
	case s.facts.Refused != "":
		return plain(s.facts.Refused)
	case s.facts.Leases == nil && !s.Several, s.facts.At.IsZero():
		return "…"
	}
	return s.none(len(s.parts), "lease", "Nobody holds a lease.")
}

// leaseColumns returns the columns for leases. Several machines have two more, and call a
// lease by its claim.
func (s *State) leaseColumns() []column[row] {
	columns := []column[row]{
		{title: "ID", name: s.leaseCount(), least: 14, first: true, tone: strong},
		{title: "USER", least: 7, most: 14, drop: 3},
		{title: "SERVICE", least: 8, most: 16, drop: 6},
		{title: "GPU", least: 4, most: 8},
		{title: "MEMORY GiB", least: 11, most: 11},
		{title: "USED", least: 6, most: 16, drop: 4, cell: useBar},
		{title: "STATE", least: 8, most: 8, drop: 1},
		{title: "AGE", least: 6, most: 6, drop: 2},
		{title: "UNTIL", least: 9, most: 11, drop: 7},
		{title: "SLOTS", least: 5, most: 5, drop: 9},
		{title: "ENERGY", least: 8, most: 9, drop: 8},
		{title: "ENFORCED", least: 9, most: 9, drop: 8},
		{title: "PROGRAM", least: 12, most: 36, drop: 5, cell: func(r row, _ int) line { return program(r) }},
	}
	if s.Several { // which do not tell what runs there
		columns[0] = column[row]{title: "LEASE", least: 14, most: 40, drop: 1, fitted: true, whole: 20}
		columns = columns[:len(columns)-1]
		if s.hasPods() {
			columns = slices.Insert(columns, 0, column[row]{title: "POD", least: 16, most: 50, fitted: true, cell: func(r row, width int) line {
				if len(r.part.Pods) == 0 {
					return text("-", faint)
				}
				return text(fewIn(view.Pods(r.part.PodLease), width), ordinary)
			}})
		}
		columns = slices.Insert(columns, 0, column[row]{title: "NODE", name: s.leaseCount(), least: 12, most: 40, fitted: true, whole: 24, tone: strong})
	}
	columns = columnsOf(s.leases, view.LeaseColumns(s.Now), func(r row) (fleet.Part, bool) {
		if r.part == nil {
			return fleet.Part{}, false
		}
		return *r.part, true
	}, columns)
	for i := range columns {
		c := &columns[i]
		whole := c.cell
		c.cell = func(r row, width int) line {
			if said, is := s.ofProcess(r, c.title); is {
				return said
			}
			return whole(r, width)
		}
	}
	return columns
}

// ofProcess writes what a column says of a process under its lease or under none. It
// returns false for a lease.
func (s *machine) ofProcess(r row, title string) (said line, is bool) {
	switch p, stray := r.process, r.stray; {
	case p != nil:
		said = map[string]line{
			"ID": text("  └ "+pid(p.PID), faint), "GPU": text(s.index(p.GPU), ordinary), "MEMORY GiB": text(fmt.Sprintf("%4s", view.GiB(p.Memory)), faint),
			"PROGRAM": text(plain(p.Name)+" by "+plain(p.Evidence), faint),
		}[title]
	case stray != nil:
		state, name := "foreign", plain(stray.Name)
		if stray.Lease != "" {
			state = "orphan"
		}
		if stray.PID != 0 {
			name = strconv.Itoa(stray.PID) + " " + name
		}
		said = map[string]line{
			"ID": text("(no lease)", warning), "USER": text(plain(stray.User), ordinary), "GPU": text(s.index(stray.GPU), ordinary),
			"MEMORY GiB": text(fmt.Sprintf("%4s", gibOr(stray.Memory)), warning), "STATE": text(state, warning), "PROGRAM": text(name, warning),
		}[title]
	}
	return said, r.process != nil || r.stray != nil
}

// where names the devices of a lease.
func (s *machine) where(l *api.Lease) string {
	var list []string
	for _, p := range l.Parts {
		list = append(list, s.index(p.GPU))
	}
	return strings.Join(list, ",")
}

// isSeen reports whether the processes of a lease were measured.
func isSeen(l *api.Lease) bool {
	return slices.ContainsFunc(l.Parts, func(p api.LeasePart) bool { return p.Measured.Known() })
}

// useBar draws the share of its requested memory that a lease uses.
func useBar(r row, width int) line {
	if !isSeen(r.lease) {
		return nil
	}
	return shareBar(used(r.lease), asked(r.lease), width)
}

// shareBar draws the share of an amount that is used.
func shareBar(used, of gpu.MiB, width int) line {
	if of == 0 {
		return nil
	}
	share := float64(used) / float64(of)
	full := min(width, int(math.Round(share*float64(width))))
	if full == 0 && share > 0 {
		full = 1
	}
	t := good
	switch {
	case share > 1:
		t = bad
	case share < 0.25:
		t = warning // it requested much more than it uses
	}
	return line{{strings.Repeat("█", full), t}, {strings.Repeat("░", width-full), faint}}
}

// program writes the programs under a lease.
func program(r row) line {
	list := r.lease.Processes
	switch len(list) {
	case 0: // none has touched a GPU yet
		return text(cmp.Or(plain(r.lease.Holder.Name), "-"), faint)
	case 1:
		return text(plain(list[0].Name), ordinary)
	}
	return text(plain(list[0].Name)+fmt.Sprintf(" and %d more", len(list)-1), ordinary)
}

func slots(l *api.Lease) int {
	n := 0
	for _, p := range l.Parts {
		n += p.Slots
	}
	return n
}

// pid writes the number of a process. Users do not see the numbers of others'
// processes.
func pid(p int) string {
	if p == 0 {
		return "a process"
	}
	return strconv.Itoa(p)
}
