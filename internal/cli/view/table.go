package view

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// column is one column of a table, and what it says of a row.
type column[T any] struct {
	term.Column
	cell func(T) term.Cell
}

// tableOf returns the table of rows without some of its columns.
func tableOf[T any](rows []T, columns []column[T], without ...string) *term.Table {
	columns = slices.DeleteFunc(columns, func(c column[T]) bool { return c.Title != "" && slices.Contains(without, c.Title) })
	t := new(term.Table)
	for _, c := range columns {
		t.Columns = append(t.Columns, c.Column)
	}
	for _, r := range rows {
		cells := make([]term.Cell, len(columns))
		for i, c := range columns {
			cells[i] = c.cell(r)
		}
		t.Add(cells...)
	}
	return t
}

// unless returns the title of a column to leave out, unless it is wanted.
func unless(wanted bool, title string) string {
	if wanted {
		return ""
	}
	return title
}

// DeviceCell returns what every table of devices says of one in the column with a title.
func DeviceCell(title string, d fleet.GPU) term.Cell {
	m := MeasuredOn(d)
	switch title {
	case "NODE":
		return term.Text(Short(d.Node))
	case "GPU":
		return term.Text(strconv.Itoa(d.Device.Index))
	case "NAME":
		return term.Text(DeviceName(d))
	case "STATE":
		return term.Painted(DeviceState(d), deviceColour(d))
	case "LOAD":
		return term.Text(Number(m.Utilization, "%.0f%%"))
	case "LEASED":
		return term.Text(GiB(d.Leased))
	case "TEMP":
		return term.Text(Number(m.Temperature, "%.0f°C"))
	case "POWER":
		return term.Text(Number(m.Power, "%.0f W"))
	case "SLOTS":
		return term.Text(fmt.Sprintf("%d/%d", d.Slots.Active, d.Slots.Capacity))
	}
	return term.Text(words.Few(HeldBy(d), mostNamed))
}

// PartCell returns what every table of leases says of the part of one on a device, in the
// column with a title. Values of a lease as a whole stand at its first part.
func PartCell(title string, p fleet.Part, now time.Time) term.Cell {
	switch title {
	case "NODE":
		if p.Old {
			return term.Painted(Short(p.Node)+" (old)", term.Yellow)
		}
		return term.Text(Short(p.Node))
	case "GPU":
		switch {
		case p.Index >= 0:
			return term.Text(strconv.Itoa(p.Index))
		case p.On.GPU == "":
			return term.Text("-")
		}
		return term.Painted("gone", term.Red)
	case "MEMORY GiB":
		return leasedCell(p.Lease, p.On)
	case "SLOTS":
		return term.Text(strconv.Itoa(p.On.Slots))
	}
	if !p.First {
		return term.Cell{}
	}
	switch title {
	case "ID":
		return term.Text(term.Clean(p.ID))
	case "LEASE":
		return term.Text(LeaseOf(p.PodLease))
	case "HOLDER":
		return term.Text(Holder(p.Holder))
	case "UNTIL":
		return term.Text(Until(p.Lease, now))
	case "AGE":
		return term.Text(words.Age(now.Sub(p.Granted)))
	case "ENFORCED":
		return term.Text(Short(p.EnforcedBy))
	case "ENERGY":
		return term.Text(energyOf(p.Energy))
	case "POD":
		if len(p.Pods) > 0 {
			return term.Text(words.Few(Pods(p.PodLease), mostNamed))
		}
	}
	return term.Text("-")
}

// partTable returns a table of the parts of leases, without some of its columns.
func partTable(parts []fleet.Part, now time.Time, without []string, all ...term.Column) *term.Table {
	var columns []column[fleet.Part]
	for _, c := range all {
		columns = append(columns, column[fleet.Part]{c, func(p fleet.Part) term.Cell { return PartCell(c.Title, p, now) }})
	}
	return tableOf(parts, columns, without...)
}
