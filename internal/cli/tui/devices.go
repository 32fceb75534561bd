package tui

import (
	"fmt"
	"math"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

// drawDevices writes the devices: a line each, or cards with curves.
func (s *State) drawDevices(a area, k look) []string {
	all := s.gpus
	c := s.cards(a.width, a.height)
	if c.curves == 0 {
		return list(s, a, s.deviceColumns(), s.gpus, "", s.noDevices(), k)
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
				card = s.card(all[i+x].gpu.Status, width, c)
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
func (s *machine) noDevices() string {
	if s.facts.Status != nil && s.facts.Status.Note != "" {
		return plain(s.facts.Status.Note)
	}
	return "No GPU on this machine."
}

// deviceColumns returns the columns for devices with one line each.
func (s *machine) deviceColumns() []column[gpuRow] {
	return []column[gpuRow]{
		{heading: "GPU", least: 3, most: 3, right: true, cell: deviceCell("GPU", strong)},
		{heading: "NAME", least: 8, most: 24, drop: 2, cell: ofGPU(func(d fleet.GPU, _ int) line { return text(shortName(d.Status), ordinary) })},
		{heading: "STATE", least: 11, most: 11, cell: ofGPU(func(d fleet.GPU, _ int) line { return text(stateText(d.Status), stateTone(d.Status)) })},
		{heading: "LOAD 5 min", least: 11, most: 58, cell: ofGPU(func(d fleet.GPU, w int) line {
			return s.spark(d.Status, w, loadOf, 100, load, percent(view.Measured(d.Status).Utilization))
		})},
		{heading: "MEMORY GiB", least: 15, most: 44, cell: ofGPU(func(d fleet.GPU, w int) line { return s.memoryCell(d.Status, w) })},
		{heading: "TEMP", least: 9, most: 46, cell: ofGPU(func(d fleet.GPU, w int) line {
			return s.spark(d.Status, w, temperatureOf, 100, temperatureTone(d.Status), fmt.Sprintf("%4s", degrees(view.Measured(d.Status).Temperature)))
		})},
		{heading: "POWER", least: 6, most: 6, right: true, drop: 4, cell: deviceCell("POWER", ordinary)},
		{heading: "SLOTS", least: 5, most: 5, right: true, drop: 3, cell: deviceCell("SLOTS", ordinary)},
	}
}

// spark draws the past values of a device in front of the present one.
func (s *machine) spark(d api.Status, width int, of func(point) float64, high float64, t tone, now string) line {
	room := width - term.Columns(now) - 1
	lo := 0.0
	if high == 100 && t != load {
		lo = 20 // no device is colder
	}
	return line{{term.Spark(s.curves[d.Device.UUID].values(max(0, room), s.Now, of), lo, high), t}, {" " + now, ordinary}}
}

// memoryCell draws the used memory and the memory leased beyond that, and writes the
// numbers.
func (s *machine) memoryCell(d api.Status, width int) line {
	m := view.Measured(d)
	now := fmt.Sprintf("%4s/%s", gibOr(m.MemoryUsed), gibOr(m.MemoryTotal))
	return join(s.memoryBar(d, width-term.Columns(now)-1), line{{" " + now, ordinary}})
}

// memoryBar draws the used memory, and lighter the memory leased beyond that.
func (s *machine) memoryBar(d api.Status, width int) line {
	m := view.Measured(d)
	total, inUse := m.MemoryTotal.Or(0), m.MemoryUsed.Or(0)
	width = max(width, 0)
	if total <= 0 || !m.MemoryUsed.Known() {
		return line{{strings.Repeat(" ", width), ordinary}}
	}
	columns := func(v gpu.MiB) int {
		n := int(math.Round(float64(v) / float64(total) * float64(width)))
		if v > 0 && n == 0 {
			n = 1 // a little is not nothing
		}
		return min(n, width)
	}
	full := columns(inUse)
	l := s.leasable(d.Device.UUID)
	both := max(full, columns(l.Leased+l.Foreign))
	tone := memory
	if share, _ := m.MemoryPercent().Get(); share > 95 {
		tone = bad
	}
	return line{{strings.Repeat("█", full), tone}, {strings.Repeat("▒", both-full), tone}, {strings.Repeat("░", width-both), faint}}
}

// card draws a device with its name, its numbers and its curves.
func (s *machine) card(d api.Status, width int, c cards) []line {
	m := view.Measured(d)
	name := line{{" " + d.Device.Label(), strong}, {"  " + shortName(d) + "  ", ordinary}, {stateText(d), stateTone(d)}}
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

func shortName(d api.Status) string { return strings.TrimPrefix(plain(d.Device.Name), "NVIDIA ") }

// stateText returns the state of a device, and whether it is drained.
func stateText(d api.Status) string {
	if d.Drain != nil && d.Well() {
		return "drained"
	}
	return string(d.State)
}

func stateTone(d api.Status) tone {
	switch {
	case d.State.Worse(gpu.Throttled) || d.Health == gpu.Unhealthy:
		return bad
	case d.State == gpu.Throttled || d.Drain != nil || !d.Well():
		return warning
	}
	return good
}

// temperatureTone returns the tone of a device's temperature, by the device's own
// thresholds if the daemon reports them.
func temperatureTone(d api.Status) tone {
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
	now := view.Measured(d).Temperature.Or(0)
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
