package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// leaseList is who holds what and who waits.
type leaseList struct {
	api.Leases
	gpus     indexes
	filtered bool
}

func (s *leaseList) answer() any { return s.Leases }

func (s *leaseList) lines(to screen, _ bool) []string {
	var lines []string
	if len(s.Leases.Leases) > 0 {
		lines = append(s.held(to).lines(to.width, to.painter), "")
	}
	if len(s.Waiting) > 0 {
		lines = append(lines, "Waiting, next first:")
		lines = append(append(lines, s.queue(to).lines(to.width, to.painter)...), "")
	}
	return append(lines, to.hang(plain, "", s.totals()))
}

// leaseLayout is how much of the table there is room for.
type leaseLayout struct {
	id, holder            int // columns they may be cut to; 0: never
	noHolder, noAge, noBy bool
}

// held makes the richest table of the leases that there is room for. An id is
// cut last: it is what other commands are given.
func (s *leaseList) held(to screen) *table {
	var t *table
	for _, l := range []leaseLayout{
		{}, {holder: 8}, {holder: 8, noBy: true}, {holder: 8, noBy: true, noAge: true},
		{id: 8, noBy: true, noAge: true, noHolder: true},
	} {
		t = s.table(l, to.now)
		if _, fits := t.widths(to.width); fits {
			break
		}
	}
	return t
}

// table has one row for every device of a lease; what belongs to the lease as a
// whole is in the first.
func (s *leaseList) table(l leaseLayout, now time.Time) *table {
	t := &table{columns: kept(l, []column{
		{title: "ID", least: l.id}, {title: "HOLDER", least: l.holder}, {title: "GPU", right: true}, {title: "MEMORY GiB"},
		{title: "SLOTS", right: true}, {title: "UNTIL"}, {title: "AGE", right: true}, {title: "ENFORCED"},
	})}
	for _, lease := range s.Leases.Leases {
		for i, p := range lease.Parts {
			row := make([]cell, 8)
			if i == 0 {
				row[0], row[1], row[5] = cell{text: clean(lease.ID)}, cell{text: who(lease.Holder)}, cell{text: until(lease, now)}
				row[6], row[7] = cell{text: span(now.Sub(lease.Granted))}, cell{text: clean(lease.EnforcedBy)}
			}
			row[2], row[3], row[4] = s.gpus.cell(p.GPU), leasedCell(lease, p), cell{text: strconv.Itoa(p.Slots)}
			t.add(kept(l, row)...)
		}
	}
	return t
}

// kept leaves out the columns that there is no room for.
func kept[T any](l leaseLayout, all []T) []T {
	var some []T
	for i, each := range all {
		if !(i == 1 && l.noHolder || i == 6 && l.noAge || i == 7 && l.noBy) {
			some = append(some, each)
		}
	}
	return some
}

// leasedCell is what is used and what is leased. Who uses more than is leased
// stands out.
func leasedCell(l api.Lease, p api.LeasePart) cell {
	used, leased := "-", "-"
	measured, seen := p.Measured.Get()
	if seen {
		used = some(measured)
	}
	if l.State == "parked" {
		used = "parked"
	}
	if p.Memory > 0 {
		leased = some(p.Memory)
	}
	c := cell{text: fmt.Sprintf("%4s/%s", used, leased)}
	if p.Memory > 0 && measured > p.Memory {
		c.colour = red
	}
	return c
}

// some is an amount of GiB that is not written as nothing unless it is.
func some(m gpu.MiB) string {
	if text := gib(m); text != "0.0" || m == 0 {
		return text
	}
	return "<0.1"
}

// until is what ends a lease, in a word or two.
func until(l api.Lease, now time.Time) string {
	switch {
	case l.Expires != nil:
		return "in " + span(l.Expires.Sub(now))
	case l.Binding == "process":
		if pid := cmp.Or(l.Heir, l.Holder.PID); pid != 0 {
			return "pid " + strconv.Itoa(pid)
		}
		return "process"
	}
	return "release"
}

// queue is the table of those who wait. Priorities are shown where there are
// any.
func (s *leaseList) queue(to screen) *table {
	t := &table{columns: []column{
		{title: "#", right: true}, {title: "ID"}, {title: "HOLDER", least: 8}, {title: "ASKS FOR", least: 12},
		{title: "WAITS", right: true}, {title: "UNTIL"},
	}}
	ranked := slices.ContainsFunc(s.Waiting, func(w api.Waiting) bool { return w.Priority != 0 })
	if ranked {
		t.columns = append(t.columns, column{title: "PRIORITY", right: true})
	}
	for _, w := range s.Waiting {
		asks, deadline := amount(w.Memory, w.Slots), "-"
		if w.GPUs > 1 {
			asks = fmt.Sprintf("%d × %s", w.GPUs, asks)
		}
		if w.Deadline != nil {
			deadline = "in " + span(w.Deadline.Sub(to.now))
		}
		row := []cell{{text: strconv.Itoa(w.Position)}, {text: clean(w.ID)}, {text: who(w.Holder)}, {text: asks},
			{text: span(to.now.Sub(w.Since))}, {text: deadline}}
		if ranked {
			row = append(row, cell{text: strconv.Itoa(w.Priority)})
		}
		t.add(row...)
	}
	return t
}

func (s *leaseList) totals() string {
	if len(s.Leases.Leases) == 0 && len(s.Waiting) == 0 {
		if s.filtered {
			return "No lease and no request matches."
		}
		return "Nobody holds a lease, and nobody waits for one."
	}
	var memory gpu.MiB
	slots := 0
	for _, l := range s.Leases.Leases {
		for _, p := range l.Parts {
			memory += p.Memory
			slots += p.Slots
		}
	}
	parts := []string{plural(len(s.Leases.Leases), "lease")}
	if memory > 0 {
		parts = append(parts, gib(memory)+" GiB")
	}
	if slots > 0 {
		parts = append(parts, plural(slots, "slot"))
	}
	if n := len(s.Waiting); n > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting", n))
	}
	return strings.Join(parts, " · ")
}
