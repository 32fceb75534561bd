package cli

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// allDevices is the table of every device.
type allDevices struct {
	api.StatusAll
	leasable api.Available
}

func (s *allDevices) answer() any { return s.StatusAll }

func (s *allDevices) lines(to screen, local bool) []string {
	if len(s.GPUs) == 0 {
		return []string{to.hang(plain, "", cmp.Or(clean(s.Note), "No GPU on this machine."))}
	}
	lines := append(s.fit(to.width).lines(to.width, to.painter), "")
	for _, d := range s.GPUs {
		if !isWell(d) {
			lines = append(lines, complaint(d, to))
		}
	}
	if !s.Monitoring && !local {
		lines = append(lines, to.hang(yellow, "! ", "Monitoring is stopped, so these numbers are old. Start it: POST /api/gpu/monitoring/start"))
	}
	if s.Note != "" {
		lines = append(lines, to.hang(yellow, "! ", clean(s.Note)))
	}
	return append(lines, to.hang(plain, "", s.totals()))
}

// layout is how much of the table there is room for.
type layout struct {
	bar         int // columns of a bar; 0: none
	least       int // columns the name may be cut to; 0: never
	power, name bool
	slots       bool
}

// layouts go from rich to poor.
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

// fit makes the richest table that the width has room for.
func (s *allDevices) fit(width int) *table {
	var t *table
	for _, l := range layouts() {
		t = s.table(l)
		if _, fits := t.widths(width); fits {
			break
		}
	}
	return t
}

func (s *allDevices) table(l layout) *table {
	t := &table{columns: []column{{title: "GPU", right: true}}}
	if l.name {
		t.columns = append(t.columns, column{title: "NAME", least: l.least})
	}
	t.columns = append(t.columns, column{title: "STATE"}, column{title: "LOAD"},
		column{title: "MEMORY GiB"}, column{title: "TEMP", right: true})
	if l.power {
		t.columns = append(t.columns, column{title: "POWER", right: true})
	}
	if l.slots {
		t.columns = append(t.columns, column{title: "SLOTS", right: true})
	}
	for _, d := range s.GPUs {
		t.add(deviceRow(d, leasableOf(s.leasable, d.Device.UUID), l)...)
	}
	return t
}

func deviceRow(d api.Status, leasable api.DeviceAvailable, l layout) []cell {
	m := measured(d)
	row := []cell{{text: strconv.Itoa(d.Device.Index)}}
	if l.name {
		row = append(row, cell{text: shortName(d.Device.Name)})
	}
	row = append(row, cell{string(d.State), stateColour(d.State)},
		cell{text: loadCell(m, l.bar)}, cell{text: memoryCell(m, leasable, l.bar)},
		cell{text: optional(m.Temperature, "%.0f°C")})
	if l.power {
		row = append(row, cell{text: optional(m.Power, "%.0f W")})
	}
	if l.slots {
		row = append(row, cell{text: fmt.Sprintf("%d/%d", d.Slots.Active, d.Slots.Capacity)})
	}
	return row
}

// measured is what is known about a device now. The last sample of one that
// does not answer is history.
func measured(d api.Status) gpu.Sample {
	answers := d.State != gpu.Unavailable || d.Health == gpu.Unhealthy // in quarantine, and still measured
	if d.Sample == nil || !answers {
		return gpu.Sample{MemoryTotal: gpu.Some(d.Device.MemoryTotal)}
	}
	return *d.Sample
}

// shortName leaves out the maker, whom everybody knows by the model.
func shortName(name string) string {
	return strings.TrimPrefix(clean(name), "NVIDIA ")
}

func loadCell(m gpu.Sample, size int) string {
	return beside(bar(m.Utilization, size), fmt.Sprintf("%4s", optional(m.Utilization, "%.0f%%")))
}

func memoryCell(m gpu.Sample, leasable api.DeviceAvailable, size int) string {
	used, total := "-", "-"
	if v, ok := m.MemoryUsed.Get(); ok {
		used = gib(v)
	}
	if v, ok := m.MemoryTotal.Get(); ok {
		total = gib(v)
	}
	return beside(memoryBar(m, leasable, size), fmt.Sprintf("%4s/%s", used, total))
}

// memoryBar draws what is used, and lighter what is leased beyond that.
func memoryBar(m gpu.Sample, leasable api.DeviceAvailable, size int) string {
	used := bar(m.MemoryPercent(), size)
	total, _ := m.MemoryTotal.Get()
	if total == 0 || !m.MemoryUsed.Known() {
		return used
	}
	taken := gpu.Percent(100 * float64(leasable.Leased+leasable.Foreign) / float64(total))
	both := strings.ReplaceAll(bar(gpu.Some(taken), size), "█", "▒")
	full := []rune(used)
	for i, r := range []rune(both) {
		if full[i] == '░' {
			full[i] = r
		}
	}
	return string(full)
}

// beside puts a text after its bar, if there is room for bars.
func beside(bar, text string) string {
	if bar == "" {
		return text
	}
	return bar + " " + text
}

// gib is an amount in GiB with three digits.
func gib(m gpu.MiB) string {
	v := float64(m) / 1024
	if v >= 99.95 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// bar draws a share. What is not known is not drawn empty.
func bar(share gpu.Opt[gpu.Percent], size int) string {
	v, ok := share.Get()
	if !ok || math.IsNaN(float64(v)) {
		return strings.Repeat(" ", size)
	}
	full := int(math.Round(float64(min(max(v, 0), 100)) / 100 * float64(size)))
	if v > 0 && full == 0 && size > 0 {
		full = 1 // a little is not nothing
	}
	return strings.Repeat("█", full) + strings.Repeat("░", size-full)
}

// optional writes a number, or a dash for one that is not there.
func optional[T ~float64](v gpu.Opt[T], format string) string {
	if n, ok := v.Get(); ok {
		return fmt.Sprintf(format, float64(n))
	}
	return "-"
}

func stateColour(s gpu.State) colour {
	switch s {
	case gpu.Optimal, gpu.Normal:
		return green
	case gpu.Throttled:
		return yellow
	}
	return red
}
