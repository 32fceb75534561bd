package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

// Status shows every device in a table, and says below it what is wrong with devices
// that are not well.
type Status struct {
	api.StatusAll
	Leasable api.Available
	Local    bool // no daemon measures, and the caller sees these devices itself
}

// Answer returns the answer of the daemon.
func (s *Status) Answer() any { return s.StatusAll }

// Lines writes the table for a screen.
func (s *Status) Lines(to term.Screen) []string {
	if len(s.GPUs) == 0 {
		return []string{to.Hang(term.Plain, "", cmp.Or(term.Clean(s.Note), "No GPU on this machine."))}
	}
	lines := append(s.fit(to.Width).Lines(to.Width, to.Painter), "")
	if holders := s.holders(); len(holders.Rows) > 0 {
		lines = append(append(lines, holders.Lines(to.Width, to.Painter)...), "")
	}
	for _, d := range s.GPUs {
		if note := ahead(d); !d.Well() {
			lines = append(lines, complaint(d, to))
		} else if note != "" {
			lines = append(lines, to.Hang(term.Yellow, "! ", fmt.Sprintf("GPU %d %s", d.Device.Index, term.Clean(note))))
		}
		if d.Drain != nil {
			lines = append(lines, to.Hang(term.Yellow, "! ", fmt.Sprintf("GPU %d is %s", d.Device.Index, drained(d.Drain, to))))
		}
		if acts := d.Throttling; acts != nil && (acts.PacedLeases > 0 || acts.Original.Known()) {
			lines = append(lines, to.Hang(term.Yellow, "! ", fmt.Sprintf("GPU %d: %s", d.Device.Index, throttling(acts))))
		}
	}
	lines = slices.Concat(lines, s.needs(to), s.paced(to), s.parked(to))
	if !s.Monitoring && !s.Local {
		lines = append(lines, to.Hang(term.Yellow, "! ", "Monitoring is stopped, so these numbers are old. Start it: POST /api/gpu/monitoring/start"))
	}
	if s.Note != "" {
		lines = append(lines, to.Hang(term.Yellow, "! ", term.Clean(s.Note)))
	}
	return append(lines, to.Hang(term.Plain, "", s.totals()))
}

// layout says how much of the table fits.
type layout struct {
	bar         int // columns of a bar; 0 for none
	spark       int // columns of a curve; 0 for none
	least       int // columns the name may be cut to; 0 for never
	power, name bool
	slots       bool
}

// CurvesFrom is the smallest width at which a table of devices may have curves, and
// CurvePoints the largest number of averages in a curve.
const (
	CurvesFrom  = 96
	CurvePoints = 20
)

// layouts returns the layouts without curves, from rich to poor.
func layouts() []layout {
	var list []layout
	for bar := 12; bar >= 5; bar-- {
		list = append(list, layout{bar: bar, power: true, name: true, slots: true})
	}
	return append(list,
		layout{bar: 5, least: 10, power: true, name: true, slots: true},
		layout{bar: 3, least: 10, power: true, name: true, slots: true},
		layout{least: 8, power: true, name: true, slots: true},
		layout{least: 8, power: true, name: true},
		layout{least: 8, name: true},
		layout{},
	)
}

// fit returns the richest table that fits the width.
func (s *Status) fit(width int) *term.Table {
	var t *term.Table
	if t = s.curved(width); t != nil {
		return t
	}
	for _, l := range layouts() {
		t = s.table(l)
		if t.Fits(width) {
			break
		}
	}
	return t
}

// curved returns the table with the widest curves that fit the width. It returns nil if
// none fit, or if there is nothing to draw. It makes at most two tables: they take most
// of the time that berth status takes by itself.
func (s *Status) curved(width int) *term.Table {
	const narrowest = 8
	if !slices.ContainsFunc(s.GPUs, func(d api.Status) bool {
		return d.Curves != nil && max(len(d.Curves.Utilization), len(d.Curves.Temperature)) > 1
	}) {
		return nil
	}
	l := layout{bar: 12, spark: CurvePoints, power: true, name: true, slots: true}
	t := s.table(l)
	missing := t.Width() - width
	if missing <= 0 {
		return t
	}
	for _, l.bar = range []int{12, 8} { // there are two bars, and two curves
		if l.spark = CurvePoints - (missing-2*(12-l.bar)+1)/2; l.spark >= narrowest {
			return s.table(l)
		}
	}
	return nil
}

func (s *Status) table(l layout) *term.Table {
	t := &term.Table{Columns: []term.Column{{Title: "GPU", Right: true}}}
	if l.name {
		t.Columns = append(t.Columns, term.Column{Title: "NAME", Least: l.least})
	}
	t.Columns = append(t.Columns, term.Column{Title: "STATE"}, term.Column{Title: "LOAD"})
	if l.spark > 0 {
		t.Columns = append(t.Columns, term.Column{Title: "5 MIN"})
	}
	t.Columns = append(t.Columns, term.Column{Title: "MEMORY GiB"}, term.Column{Title: "TEMP", Right: true})
	if l.spark > 0 {
		t.Columns = append(t.Columns, term.Column{Title: "5 MIN"})
	}
	if l.power {
		t.Columns = append(t.Columns, term.Column{Title: "POWER", Right: true})
	}
	if l.slots {
		t.Columns = append(t.Columns, term.Column{Title: "SLOTS", Right: true})
	}
	for _, d := range s.GPUs {
		t.Add(deviceRow(d, LeasableOf(s.Leasable, d.Device.UUID), l)...)
	}
	return t
}

func deviceRow(d api.Status, leasable api.DeviceAvailable, l layout) []term.Cell {
	m := Measured(d)
	row := []term.Cell{term.Text(strconv.Itoa(d.Device.Index))}
	if l.name {
		row = append(row, term.Text(shortName(d.Device.Name)))
	}
	load, temperature := curves(d.Curves, l.spark)
	row = append(row, term.Painted(string(d.State), stateColour(d.State)), term.Text(loadCell(m, l.bar)))
	if l.spark > 0 {
		row = append(row, term.Text(load))
	}
	row = append(row, term.Text(memoryCell(m, leasable, l.bar)), term.Text(optional(m.Temperature, "%.0f°C")))
	if l.spark > 0 {
		row = append(row, term.Text(temperature))
	}
	if l.power {
		row = append(row, term.Text(optional(m.Power, "%.0f W")))
	}
	if l.slots {
		row = append(row, term.Text(fmt.Sprintf("%d/%d", d.Slots.Active, d.Slots.Capacity)))
	}
	return row
}

// LeasableOf returns the amounts that can be leased on one device, or zero if they are
// not known.
func LeasableOf(all api.Available, uuid string) api.DeviceAvailable {
	for _, d := range all.GPUs {
		if d.GPU == uuid {
			return d
		}
	}
	return api.DeviceAvailable{}
}

// Measured returns the present values of a device. It omits the last sample of a device
// that does not answer.
func Measured(d api.Status) gpu.Sample {
	answers := d.State != gpu.Unavailable || d.Health == gpu.Unhealthy // or it is in quarantine, and still measured
	if d.Sample == nil || !answers {
		return gpu.Sample{MemoryTotal: gpu.Some(d.Device.MemoryTotal)}
	}
	return *d.Sample
}

// shortName returns the name of a device without its maker.
func shortName(name string) string {
	return strings.TrimPrefix(term.Clean(name), "NVIDIA ")
}

func loadCell(m gpu.Sample, size int) string {
	return beside(bar(m.Utilization, size), fmt.Sprintf("%4s", Number(m.Utilization, "%.0f%%")))
}

func memoryCell(m gpu.Sample, leasable api.DeviceAvailable, size int) string {
	used, total, bar := "-", "-", strings.Repeat(" ", size)
	all, known := m.MemoryTotal.Get()
	if known {
		total = gib(all)
	}
	if v, known := m.MemoryUsed.Get(); known {
		used = gib(v)
		if all > 0 {
			bar = MemoryBar(v, leasable.Leased+leasable.Foreign, all, size)
		}
	}
	return beside(bar, fmt.Sprintf("%4s/%s", used, total))
}

// MemoryBar draws the used memory, and lighter the memory leased beyond that.
func MemoryBar(used, leased, total gpu.MiB, size int) string {
	share := func(m gpu.MiB) string { return term.Bar(100*float64(m)/float64(total), size) }
	full := []rune(share(used))
	for i, r := range []rune(share(leased)) {
		if full[i] == '░' && r == '█' {
			full[i] = '▒'
		}
	}
	return string(full)
}

// beside puts a text after its bar, if there is a bar.
func beside(bar, text string) string {
	if bar == "" {
		return text
	}
	return bar + " " + text
}

// gib writes an amount in GiB with three digits.
func gib(m gpu.MiB) string {
	v := float64(m) / 1024
	if v >= 99.95 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// GiB writes an amount in GiB with three digits, and never 0 for a small amount.
func GiB(m gpu.MiB) string {
	if text := gib(m); text != "0.0" || m == 0 {
		return text
	}
	return "<0.1"
}

// bar draws a share, or blanks if the share is not known.
func bar(share gpu.Opt[gpu.Percent], size int) string {
	return term.Bar(float64(share.Or(gpu.Percent(math.NaN()))), size)
}

// optional writes a number, or a dash if it is absent.
func optional[T ~float64](v gpu.Opt[T], format string) string {
	if n, ok := v.Get(); ok {
		return fmt.Sprintf(format, float64(n))
	}
	return "-"
}

func stateColour(s gpu.State) term.Colour {
	switch s {
	case gpu.Optimal, gpu.Normal:
		return term.Green
	case gpu.Throttled:
		return term.Yellow
	}
	return term.Red
}
