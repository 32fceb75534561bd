package view

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
)

// ranking returns the devices in the order in which a request would get them, with the
// numbers that decide. Devices that do not fit come last, with the reason, unless the
// explanation says more about them elsewhere. It returns nothing if no device fits.
func (x GPUs) ranking(e api.Explanation, to term.Screen) []string {
	if !slices.ContainsFunc(e.Ranking, func(r api.Ranked) bool { return r.Rank > 0 }) {
		return nil
	}
	t := x.rankingTable(e, true)
	if !t.Fits(to.Width) {
		t = x.rankingTable(e, false)
	}
	return t.Lines(to.Width, to.Painter)
}

// rankingTable returns the table with or without the free memory. It has a column for
// replicas if there are any.
func (x GPUs) rankingTable(e api.Explanation, free bool) *term.Table {
	replicas := slices.ContainsFunc(e.Ranking, func(r api.Ranked) bool { return r.Replicas > 0 })
	t := &term.Table{Indent: 2}
	add := func(shown bool, c term.Column) {
		if shown {
			t.Columns = append(t.Columns, c)
		}
	}
	add(true, term.Column{Title: "RANK", Right: true})
	add(true, term.Column{Title: "GPU", Right: true})
	add(true, term.Column{Title: "SLOTS", Right: true})
	add(true, term.Column{Title: "LOAD", Right: true})
	add(true, term.Column{Title: "TEMP", Right: true})
	add(free, term.Column{Title: "FREE", Right: true})
	add(replicas, term.Column{Title: "REPLICAS", Right: true})
	add(true, term.Column{Least: 16, Fold: true})
	for _, r := range e.Ranking {
		if r.Rank == 0 && (r.Code == "other_device" || slices.ContainsFunc(e.Devices, func(o api.Obstacle) bool { return o.GPU == r.GPU })) {
			continue
		}
		row := []term.Cell{
			rankCell(r.Rank), x.cell(r.GPU), term.Text(fmt.Sprintf("%d/%d", r.Active, r.Usable)),
			term.Text(optional(r.Utilization, "%.0f %%")), term.Text(optional(r.Temperature, "%.0f °C")),
		}
		if free {
			row = append(row, term.Text(r.Available.String()))
		}
		if replicas {
			row = append(row, term.Text(strconv.Itoa(r.Replicas)))
		}
		t.Add(append(row, remark(r, e.Grant))...)
	}
	return t
}

func rankCell(rank int) term.Cell {
	if rank == 0 {
		return term.Text("-")
	}
	return term.Text(strconv.Itoa(rank))
}

// remark says what happens to a device: the request takes it, or cannot.
func remark(r api.Ranked, grant *api.Lease) term.Cell {
	switch {
	case grant != nil && slices.ContainsFunc(grant.Parts, func(p api.LeasePart) bool { return p.GPU == r.GPU }):
		return term.Painted(Join("taken", term.Clean(r.Why)), term.Green)
	case r.Rank > 0 && r.Preferred:
		return term.Text(Join("preferred", term.Clean(r.Why)))
	}
	return term.Text(term.Clean(r.Why))
}
