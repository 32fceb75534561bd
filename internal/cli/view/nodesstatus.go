package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// NodesStatus shows the devices of several machines in one table, with their holders.
type NodesStatus struct{ api.Nodes }

// Answer returns the answers of the machines.
func (s *NodesStatus) Answer() any { return s.Nodes }

// Lines writes the table for a screen.
func (s *NodesStatus) Lines(to term.Screen) []string {
	lines := append(s.fit(to.Width).Lines(to.Width, to.Painter), "")
	lines = append(lines, notes(s.Nodes, to)...)
	for _, d := range fleet.GPUs(s.Nodes.Nodes) {
		if d.Old {
			continue // the note about the machine says so
		}
		if text, bad := Complaint(d, to.Now); text != "" && bad {
			lines = append(lines, to.Hang(term.Red, "✗ ", text))
		} else if text != "" {
			lines = append(lines, to.Hang(term.Yellow, "! ", text))
		}
	}
	return append(lines, to.Hang(term.Plain, "", sumOf(s.Nodes)))
}

// fit returns the richest table that fits the width.
func (s *NodesStatus) fit(width int) *term.Table {
	var t *term.Table
	for _, l := range []struct {
		bar     int
		without []string
	}{
		{8, nil}, {5, nil}, {0, nil}, {0, []string{"NAME"}}, {0, []string{"NAME", "POWER"}}, {0, []string{"NAME", "POWER", "SLOTS"}},
		{0, []string{"NAME", "POWER", "SLOTS", "LOAD", "TEMP"}},
	} {
		if t = s.table(l.bar, l.without); t.Fits(width) {
			return t
		}
	}
	return narrowed(t)
}

// narrowed lets a table that does not fit cut its names further.
func narrowed(t *term.Table) *term.Table {
	for i := range t.Columns {
		t.Columns[i].Least = t.Columns[i].Least * 5 / 8
	}
	return t
}

// table returns one row for every device, and one for a machine without devices.
func (s *NodesStatus) table(bar int, without []string) *term.Table {
	holders := "POD"
	if !fleet.HasPods(s.Nodes.Nodes) {
		holders = "HELD BY"
	}
	t := columnsBut(without, []term.Column{
		{Title: "NODE", Least: 16}, {Title: "GPU", Right: true}, {Title: "NAME"}, {Title: "STATE"}, {Title: "LOAD"}, {Title: "MEMORY GiB"}, {Title: "LEASED", Right: true},
		{Title: "TEMP", Right: true}, {Title: "POWER", Right: true}, {Title: "SLOTS", Right: true}, {Title: holders, Least: 16, Fold: true},
	})
	devices := fleet.GPUs(s.Nodes.Nodes)
	for _, n := range s.Nodes.Nodes {
		switch {
		case n.Status == nil:
			t.add(map[string]term.Cell{"NODE": term.Text(Short(n.Name)), "GPU": term.Text("-"), "STATE": term.Painted("no answer", term.Red)})
		case len(n.Status.GPUs) == 0:
			t.add(map[string]term.Cell{"NODE": term.Text(Short(n.Name)), "GPU": term.Text("-"), "STATE": term.Text("no GPU")})
		}
		for len(devices) > 0 && devices[0].Node == n.Name {
			t.add(gpuRow(devices[0], bar, holders))
			devices = devices[1:]
		}
	}
	return &t.Table
}

// titled is a table whose rows are keyed by the titles of the columns.
type titled struct{ term.Table }

// columnsBut returns a table without some of the columns.
func columnsBut(without []string, all []term.Column) *titled {
	return &titled{term.Table{Columns: slices.DeleteFunc(all, func(c term.Column) bool { return slices.Contains(without, c.Title) })}}
}

func (t *titled) add(row map[string]term.Cell) {
	cells := make([]term.Cell, len(t.Columns))
	for i, c := range t.Columns {
		cells[i] = row[c.Title]
	}
	t.Add(cells...)
}

// gpuRow writes one device. It omits values from before the machine went silent.
func gpuRow(d fleet.GPU, bar int, holders string) map[string]term.Cell {
	m := MeasuredOn(d)
	state := term.Painted(DeviceState(d), deviceColour(d))
	leased := "-"
	if d.Leased > 0 {
		leased = GiB(d.Leased)
	}
	return map[string]term.Cell{
		"NODE": term.Text(Short(d.Node)), "GPU": term.Text(strconv.Itoa(d.Device.Index)), "NAME": term.Text(DeviceName(d)), "STATE": state,
		"LOAD": term.Text(loadCell(m, bar)), "MEMORY GiB": term.Text(memory(m, d.Leased, bar)), "LEASED": term.Text(leased),
		"TEMP": term.Text(Number(m.Temperature, "%.0f°C")), "POWER": term.Text(Number(m.Power, "%.0f W")),
		"SLOTS": term.Text(fmt.Sprintf("%d/%d", d.Slots.Active, d.Slots.Capacity)), holders: term.Text(cmp.Or(words.Few(HeldBy(d), mostNamed), "-")),
	}
}

// memory draws the used memory, and lighter the memory leased beyond that, and writes
// how much of the whole is used.
func memory(m gpu.Sample, leased gpu.MiB, size int) string {
	used, total := "-", fleet.Amount(m.MemoryTotal.Or(0))
	bar := strings.Repeat(" ", size)
	if v, known := m.MemoryUsed.Get(); known && total > 0 {
		used = GiB(fleet.Amount(v))
		bar = MemoryBar(fleet.Amount(v), leased, total, size)
	}
	return beside(bar, fmt.Sprintf("%4s/%s", used, GiB(total)))
}

func deviceColour(d fleet.GPU) term.Colour {
	if d.Old || d.Drain != nil && d.Well() {
		return term.Yellow
	}
	return stateColour(d.State)
}
