package tui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

// drawDevices writes the devices: a line each, or cards with curves.
func (s *State) drawDevices(a area, k look) []string {
	all := s.gpus
	c := s.cards(a.width, a.height)
	if c.curves == 0 || s.Several {
		return list(s, a, s.deviceColumns(), s.gpus, s.sortedBy(Devices), s.noDevices(), k)
	}
	head := line{{fmt.Sprintf(" GPUs %d", len(all)), s.headTone(Devices)}}
	head = rule(join(head, line{{"  the last 5 minutes", faint}}), a.width, faint)
	lines := []string{k.paint(head.fit(a.width))}
	width := (a.width - (c.across-1)*3) / c.across
	for i := 0; i < len(all); i += c.across {
		block := make([]string, c.height)
		for x := range c.across {
			card := make([]line, c.height)
			mark := k
			if i+x < len(all) {
				card = s.card(*all[i+x].GPU, width, c)
				if s.marked(Devices) == i+x {
					mark.marked = true
					card[0][0].text = "▸" + card[0][0].text[1:]
				}
			}
			for n := range block {
				if x > 0 {
					block[n] += strings.Repeat(" ", 3)
				}
				row := k
				if n == 0 {
					row = mark // only the name is marked: inverted curves are hard to read
				}
				w := width
				if x == c.across-1 {
					w = a.width - x*(width+3)
				}
				block[n] += row.paint(card[n].fit(w))
			}
		}
		lines = append(lines, block...)
	}
	return lines
}

// noDevices says why there are no devices.
func (s *State) noDevices() string {
	if s.Several {
		return s.none(len(s.nodes.all), "GPU", "No node.")
	}
	if s.facts.Status != nil && s.facts.Status.Note != "" {
		return plain(s.facts.Status.Note)
	}
	return "No GPU on this machine."
}

// deviceColumns returns the columns for devices with one line each. Several machines have
// some more, and no room for curves.
func (s *State) deviceColumns() []column[fleet.Row] {
	columns := []column[fleet.Row]{
		{title: "GPU", least: 3, most: 3, tone: strong},
		{title: "NAME", least: 8, most: 24, drop: 2},
		{title: "STATE", least: 11, most: 11},
		{title: "LOAD", name: "LOAD 5 min", least: 11, most: 58, cell: onDevice(func(d fleet.GPU, w int) line {
			return s.spark(d, w, loadOf, 100, load, percent(view.MeasuredOn(d).Utilization))
		})},
		{title: "MEMORY GiB", least: 15, most: 44, cell: onDevice(memoryCell)},
		{title: "TEMP", least: 9, most: 46, cell: onDevice(func(d fleet.GPU, w int) line {
			return s.spark(d, w, temperatureOf, 100, temperatureTone(d), fmt.Sprintf("%4s", degrees(view.MeasuredOn(d).Temperature)))
		})},
		{title: "POWER", least: 6, most: 6, drop: 4},
		{title: "SLOTS", least: 5, most: 5, drop: 3},
	}
	if s.Several {
		narrow := map[string]column[fleet.Row]{
			"GPU": {least: 3, most: 3}, "NAME": {least: 6, most: 20, drop: 4, fitted: true}, "STATE": {least: 9, most: 17, fitted: true, whole: 17},
			"LOAD": {least: 5, most: 5, right: true}, "MEMORY GiB": {least: 10, most: 30}, "TEMP": {least: 5, most: 5, right: true, drop: 1},
			"POWER": {least: 6, most: 6, drop: 3}, "SLOTS": {least: 5, most: 5, drop: 2},
		}
		for i, c := range columns {
			columns[i] = narrow[c.title]
			columns[i].title, columns[i].tone, columns[i].cell = c.title, c.tone, c.cell
		}
		columns = slices.Insert(columns, 5, column[fleet.Row]{title: "LEASED", least: 7, most: 7})
		columns = slices.Insert(columns, 0, column[fleet.Row]{title: "NODE", least: 8, most: 40, fitted: true, whole: 16, tone: strong})
		holders := column[fleet.Row]{title: "HELD BY", least: 20, most: 80, fitted: true, cell: onDevice(func(d fleet.GPU, width int) line { return text(fewIn(view.HeldBy(d), width), ordinary) })}
		if s.hasPods() {
			holders.name = "POD"
		}
		columns = append(columns, holders)
	}
	return columnsOf(s.gpus, view.DeviceColumns(0), itself, columns)
}

// onDevice returns a cell that is empty for a machine without a device.
func onDevice(cell func(d fleet.GPU, width int) line) func(fleet.Row, int) line {
	return func(r fleet.Row, width int) line {
		if r.GPU == nil {
			return nil
		}
		return cell(*r.GPU, width)
	}
}

// spark draws the past values of a device in front of the present one, if there is room.
func (s *machine) spark(d fleet.GPU, width int, of func(point) float64, high float64, t tone, now string) line {
	room := width - term.Columns(now) - 1
	if room <= 0 {
		return text(now, t)
	}
	lo := 0.0
	if high == 100 && t != load {
		lo = 20 // no device is colder
	}
	return line{{term.Spark(s.curves[d.Device.UUID].values(room, s.Now, of), lo, high), t}, {" " + now, ordinary}}
}

// memoryCell draws the used memory and the memory leased beyond that, if there is room, and
// writes the numbers.
func memoryCell(d fleet.GPU, width int) line {
	const least = 4 // columns of a bar
	said := view.DeviceMemory(d, func(text string) int {
		if room := width - len(text) - 1; room >= least {
			return room
		}
		return 0
	})
	t := memory
	if m := view.MeasuredOn(d); m.MemoryPercent().Or(0) > 95 {
		t = bad
	}
	taken := len(said) - len(strings.TrimLeft(said, "█▒"))
	bar := len(said) - len(strings.TrimLeft(said, "█▒░"))
	return line{{said[:taken], t}, {said[taken:bar], faint}, {said[bar:], ordinary}}
}

// card draws a device with its name, its numbers and its curves.
func (s *machine) card(d fleet.GPU, width int, c cards) []line {
	m, state := view.MeasuredOn(d), view.DeviceState(d)
	name := line{{" " + d.Device.Label(), strong}, {"  " + plain(view.DeviceName(d)) + "  ", ordinary}, {plain(state.Text), toneOf(state.Colour, ordinary)}}
	name = append(name, span{fmt.Sprintf("  %d/%d slots", d.Slots.Active, d.Slots.Capacity), faint})
	if l := s.leasable(d.Device.UUID); l.GPU != "" {
		name = append(name, span{fmt.Sprintf("  %s GiB leased, %s free to lease", view.GiB(l.Leased), view.GiB(max(l.Available, 0))), faint})
	}
	if d.State != gpu.Optimal && d.Reason != "" {
		name = append(name, span{"  " + plain(d.Reason), faint})
	}
	limit := float64(d.Device.PowerLimit.Or(0))
	for _, p := range s.curves[d.Device.UUID] {
		limit = max(limit, p.power)
	}
	panels := []struct {
		label, now string
		tone       tone
		of         func(point) float64
		lo, hi     float64
	}{
		{"load", percent(m.Utilization), load, loadOf, 0, 100},
		{"memory", gibOr(m.MemoryUsed) + "/" + gibOr(m.MemoryTotal) + " GiB", memory, memoryOf, 0, 100},
		{"temp", degrees(m.Temperature), temperatureTone(d), temperatureOf, 20, 100},
		{"power", watts(m.Power), power, powerOf, 0, limit},
	}
	lines := make([]line, c.height)
	lines[0] = name
	room := max(0, (width-1-3*2)/4)
	if room < 24 {
		panels[1].now = strings.TrimSuffix(panels[1].now, " GiB")
	}
	for i, p := range panels {
		gap := line{{"  ", ordinary}}
		if i == 0 {
			gap = line{{" ", ordinary}}
		}
		lines[1] = join(lines[1], gap, line{{p.label + " ", faint}, {p.now, p.tone}}.fit(room))
		values := s.curves[d.Device.UUID].values(2*room, s.Now, p.of)
		for n, curve := range term.Area(values, p.lo, p.hi, c.curves) {
			lines[2+n] = join(lines[2+n], gap, line{{curve, p.tone}}.fit(room))
		}
	}
	return lines
}

// temperatureTone returns the tone of a device's temperature, by the device's own
// thresholds if the daemon reports them.
func temperatureTone(d fleet.GPU) tone {
	normal, throttle := gpu.Celsius(75), gpu.Celsius(85)
	if d.Outlook != nil {
		for _, t := range d.Outlook.Thresholds {
			switch t.Threshold {
			case "temp_normal":
				normal = t.Limit
			case "temp_throttle":
				throttle = t.Limit
			}
		}
	}
	now := view.MeasuredOn(d).Temperature.Or(0)
	switch {
	case now >= throttle:
		return bad
	case now >= normal:
		return warning
	}
	return good
}

func percent(v gpu.Opt[gpu.Percent]) string { return view.Number(v, "%3.0f%%") }
func degrees(v gpu.Opt[gpu.Celsius]) string { return view.Number(v, "%.0f°C") }
func watts(v gpu.Opt[gpu.Watts]) string     { return view.Number(v, "%.0f W") }

func gibOr(m gpu.Opt[gpu.MiB]) string {
	if v, known := m.Get(); known {
		return view.GiB(v)
	}
	return "-"
}
