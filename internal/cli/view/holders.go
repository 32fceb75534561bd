package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// holding is the share of one holder in one device.
type holding struct {
	name             string
	memory, measured gpu.MiB
	slots, leases    int
	parked           int // of the leases
}

func (h *holding) add(more holding) {
	h.memory += more.memory
	h.measured += more.measured
	h.slots += more.slots
	h.leases += more.leases
	h.parked += more.parked
}

// mostHolders limits the holders of a device that are shown one by one.
const mostHolders = 8

// holdings sums up the leases on a device by holder, the largest first. It combines the
// holders beyond mostHolders.
func holdings(leases []api.DeviceLease) []holding {
	var list []holding
	for _, l := range leases {
		one := holding{Holder(l.Holder), l.Memory, l.Measured, l.Slots, 1, 0}
		if l.State == "parked" {
			one.memory, one.slots, one.parked = 0, 0, 1
		}
		if at := slices.IndexFunc(list, func(h holding) bool { return h.name == one.name }); at >= 0 {
			list[at].add(one)
		} else {
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b holding) int {
		return cmp.Compare(max(b.memory, b.measured), max(a.memory, a.measured))
	})
	if len(list) <= mostHolders {
		return list
	}
	rest := holding{name: words.Count(len(list)-mostHolders+1, "other")}
	for _, h := range list[mostHolders-1:] {
		rest.add(h)
	}
	return append(list[:mostHolders-1], rest)
}

// holders returns the table of who holds how much of each device.
func (s *Status) holders() *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Title: "GPU", Right: true}, {Title: "HELD BY", Least: 8}, {Title: "MEMORY GiB"}, {Title: "SLOTS", Right: true}, {Title: "LEASES", Right: true},
	}}
	for _, d := range s.GPUs {
		for _, h := range holdings(d.Leases) {
			memory := usedCell(h.measured, h.memory)
			if h.parked == h.leases && h.measured == 0 {
				memory = term.Text("parked")
			}
			t.Add(term.Text(strconv.Itoa(d.Device.Index)), term.Text(h.name), memory,
				term.Text(strconv.Itoa(h.slots)), term.Text(strconv.Itoa(h.leases)))
		}
	}
	return t
}

// leasesOn returns the table of the leases on one device.
func leasesOn(leases []api.DeviceLease, to term.Screen) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Title: "LEASE", Least: 8}, {Title: "HOLDER", Least: 8}, {Title: "MEMORY GiB"}, {Title: "SLOTS", Right: true}, {Title: "AGE", Right: true},
	}}
	ends := slices.ContainsFunc(leases, func(l api.DeviceLease) bool { return l.Until != nil })
	if ends {
		t.Columns = append(t.Columns, term.Column{Title: "UNTIL"})
	}
	for _, l := range leases {
		memory := usedCell(l.Measured, l.Memory)
		if l.State == "parked" {
			memory = term.Text("parked")
		}
		row := []term.Cell{term.Text(term.Clean(l.ID)), term.Text(Holder(l.Holder)), memory, term.Text(strconv.Itoa(l.Slots)), term.Text(words.Age(to.Now.Sub(l.Granted)))}
		switch {
		case !ends:
		case l.Until == nil:
			row = append(row, term.Text("-"))
		default:
			row = append(row, term.Text(clock(*l.Until, to.Now)))
		}
		t.Add(row...)
	}
	return t
}

// usedCell writes how much of the leased memory is used. It marks a holder that uses
// more than it leased.
func usedCell(used, leased gpu.MiB) term.Cell {
	amount := func(m gpu.MiB) string {
		if m == 0 {
			return "-"
		}
		return GiB(m)
	}
	c := term.Text(fmt.Sprintf("%4s/%s", amount(used), amount(leased)))
	if leased > 0 && used > leased {
		c.Colour = term.Red
	}
	return c
}
