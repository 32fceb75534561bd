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
	"github.com/berth-gpu/berth/internal/text/words"
)

// leaseCount writes the number of leases, and how many match the filter. One with several
// rows counts once.
func (s *State) leaseCount() string {
	total := 0
	if s.facts.Leases != nil {
		total = len(s.facts.Leases.Leases)
	}
	for _, p := range s.nodes.parts {
		if p.First {
			total++
		}
	}
	shown := map[*api.Lease]bool{}
	for _, r := range s.leases {
		if r.lease != nil && s.filter != "" {
			shown[r.lease] = true
		}
	}
	return "LEASES " + s.count(len(shown), total)
}

// noLeases says why the list is empty.
func (s *State) noLeases() string {
	switch {
	case s.Local && (s.facts.Leases == nil || len(s.facts.Leases.Leases) == 0):
		return "Without a daemon there are no leases."
	case s.facts.Refused != "":
		return plain(s.facts.Refused)
	case s.facts.Leases == nil:
		return "…"
	case len(s.facts.Leases.Leases) > 0:
		return "No lease matches the filter; esc clears it."
	}
	return "Nobody holds a lease."
}

// leaseColumns returns the columns for leases.
func (s *State) leaseColumns() []column[row] {
	return []column[row]{
		{heading: "LEASE", name: s.leaseCount(), least: 14, most: idWidth(s.leases, 14, leaseIDs), first: true, cell: func(r row, width int) line {
			switch {
			case r.process != nil:
				return text("  └ "+pid(r.process.PID), faint)
			case r.stray != nil:
				return text("(no lease)", warning)
			}
			return text(idCut(r.lease.ID, width), strong)
		}},
		{heading: "USER", least: 7, most: 14, drop: 3, cell: func(r row, _ int) line {
			return ofLease(r, func(l *api.Lease) string { return l.Holder.User }, r.strayText(func(p *api.Stray) string { return p.User }))
		}},
		{heading: "SERVICE", least: 8, most: 16, drop: 6, cell: func(r row, _ int) line { return ofLease(r, func(l *api.Lease) string { return l.Holder.Service }, "") }},
		{heading: "GPU", least: 4, most: 8, cell: func(r row, _ int) line { return text(s.where(r), ordinary) }},
		{heading: "MEMORY GiB", least: 11, most: 11, cell: func(r row, _ int) line { return memoryText(r) }},
		{heading: "USED", least: 6, most: 16, drop: 4, cell: useBar},
		{heading: "STATE", least: 8, most: 8, drop: 1, cell: func(r row, _ int) line { return leaseState(r) }},
		{heading: "AGE", least: 6, most: 6, right: true, drop: 2, cell: func(r row, _ int) line {
			if r.lease == nil || r.process != nil {
				return nil
			}
			return text(words.Age(s.Now.Sub(r.lease.Granted)), ordinary)
		}},
		{heading: "UNTIL", least: 9, most: 11, drop: 7, cell: func(r row, _ int) line {
			return ofLease(r, func(l *api.Lease) string { return view.Until(*l, s.Now) }, "")
		}},
		{heading: "SLOTS", least: 5, most: 5, right: true, drop: 9, cell: func(r row, _ int) line {
			return ofLease(r, func(l *api.Lease) string { return strconv.Itoa(slots(l)) }, "")
		}},
		{heading: "ENERGY", least: 8, most: 9, right: true, drop: 8, cell: func(r row, _ int) line {
			return ofLease(r, func(l *api.Lease) string {
				if j, known := l.Energy.Get(); known {
					return j.InWattHours()
				}
				return "-"
			}, "")
		}},
		{heading: "ENFORCED", least: 9, most: 9, drop: 8, cell: func(r row, _ int) line {
			return ofLease(r, func(l *api.Lease) string { return l.EnforcedBy }, "")
		}},
		{heading: "PROGRAM", least: 12, most: 36, drop: 5, cell: func(r row, _ int) line { return program(r) }},
	}
}

// ofLease writes a text about a lease, or other for a process under no lease.
func ofLease(r row, about func(*api.Lease) string, other string) line {
	switch {
	case r.process != nil:
		return nil
	case r.lease != nil:
		return text(plain(about(r.lease)), ordinary)
	}
	return text(plain(other), ordinary)
}

func (r row) strayText(about func(*api.Stray) string) string {
	if r.stray == nil {
		return ""
	}
	return about(r.stray)
}

// where names the devices of a row.
func (s *machine) where(r row) string {
	switch {
	case r.process != nil:
		return s.index(r.process.GPU)
	case r.stray != nil:
		return s.index(r.stray.GPU)
	}
	var list []string
	for _, p := range r.lease.Parts {
		list = append(list, s.index(p.GPU))
	}
	return strings.Join(list, ",")
}

// memoryText writes how much of the requested memory is used, and marks a lease that
// uses more.
func memoryText(r row) line {
	switch {
	case r.process != nil:
		return text(fmt.Sprintf("%5s", view.GiB(r.process.Memory)), faint)
	case r.stray != nil:
		return text(fmt.Sprintf("%5s", gibOr(r.stray.Memory)), warning)
	}
	return memoryOfParts(r.lease.Parts)
}

// memoryOfParts writes how much of the leased memory is used, and marks a lease that uses
// more.
func memoryOfParts(parts []api.LeasePart) line {
	inUse, of, t := "-", "-", ordinary
	var used, asked gpu.MiB
	for _, p := range parts {
		if v, seen := p.Measured.Get(); seen {
			used += v
			inUse = view.GiB(fleet.Amount(used))
		}
		asked += p.Memory
	}
	if asked > 0 {
		of = view.GiB(fleet.Amount(asked))
	}
	if asked > 0 && used > asked {
		t = bad
	}
	return text(fmt.Sprintf("%5s/%s", inUse, of), t)
}

// isSeen reports whether the processes of a lease were measured.
func isSeen(l *api.Lease) bool {
	return slices.ContainsFunc(l.Parts, func(p api.LeasePart) bool { return p.Measured.Known() })
}

// useBar draws the share of its requested memory that a lease uses.
func useBar(r row, width int) line {
	if r.lease == nil || r.process != nil || !isSeen(r.lease) {
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

// leaseState writes the state of a lease.
func leaseState(r row) line {
	switch {
	case r.process != nil:
		return nil
	case r.stray != nil && r.stray.Lease != "":
		return text("orphan", warning)
	case r.stray != nil:
		return text("foreign", warning)
	}
	l := r.lease
	switch {
	case l.State != "active":
		return text(l.State, warning)
	case l.Paced != nil:
		return text(fmt.Sprintf("at %.0f %%", 100*l.Paced.Share), warning)
	case l.Idle != nil:
		return text("idle", faint)
	}
	return text(l.State, good)
}

// program writes the programs under a lease.
func program(r row) line {
	switch {
	case r.process != nil:
		return text(plain(r.process.Name)+" by "+plain(r.process.Evidence), faint)
	case r.stray != nil:
		name := plain(r.stray.Name)
		if r.stray.PID != 0 {
			name = strconv.Itoa(r.stray.PID) + " " + name
		}
		return text(name, warning)
	}
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
