package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// oneDevice is all that is known about one device.
type oneDevice struct {
	api.Status
	leasable api.DeviceAvailable
}

func (s *oneDevice) answer() any { return s.Status }

func (s *oneDevice) lines(to screen, _ bool) []string {
	title := fmt.Sprintf("GPU %d  %s  ", s.Device.Index, clean(s.Device.Name))
	state := string(s.State)
	if !s.Since.IsZero() {
		state += " for " + span(to.now.Sub(s.Since))
	}
	lines := []string{to.paint(bold, title) + to.paint(stateColour(s.State), state)}
	for _, f := range s.facts(to) {
		if f.text != "" {
			lines = append(lines, to.hang(dim, fmt.Sprintf("  %-13s", f.name), clean(f.text)))
		}
	}
	if s.Sample != nil && len(s.Sample.Processes) > 0 {
		lines = append(lines, "")
		lines = append(lines, processTable(s.Sample).lines(to.width, to.painter)...)
	}
	return lines
}

// fact is one line about a device; an empty text is not shown.
type fact struct{ name, text string }

func (s *oneDevice) facts(to screen) []fact {
	d, m := s.Device, measured(s.Status)
	facts := []fact{
		{"why", s.Reason},
		{"advice", fmt.Sprintf("work at %.0f %% of full speed", s.Multiplier*100)},
		{"load", withBar(m.Utilization)},
		{"memory", s.memory(m)},
		{"leased", s.leased()},
		{"temperature", join(optionalWord(m.Temperature, "%.0f °C"), optionalWord(d.TempSlowdown, "slows itself down at %.0f °C"))},
		{"power", join(optionalWord(m.Power, "%.0f W"), optionalWord(d.PowerLimit, "limit %.0f W"))},
		{"clocks", join(optionalWord(m.ClockSM, "SM %.0f MHz"), optionalWord(m.ClockMemory, "memory %.0f MHz"))},
		{"held back by", heldBack(m.Throttle)},
		{"fan", optionalWord(m.Fan, "%.0f %%")},
		{"slots", s.slots()},
		{"health", join(string(s.Health), distrust(s.Trust, to))},
		{"uuid", d.UUID},
		{"driver", join(d.Driver, "through "+d.Backend)},
		{"bus", s.bus()},
	}
	if s.Sample != nil {
		facts = append(facts, fact{"sampled", span(to.now.Sub(s.Sample.Time)) + " ago"})
	}
	return facts
}

func (s *oneDevice) memory(m gpu.Sample) string {
	used, ok := m.MemoryUsed.Get()
	if !ok {
		return s.Device.MemoryTotal.String()
	}
	return join(fmt.Sprintf("%s of %s", used, m.MemoryTotal.Or(s.Device.MemoryTotal)), withBar(m.MemoryPercent()))
}

// leased is what is promised of the memory, and what is left.
func (s *oneDevice) leased() string {
	l := s.leasable
	if l.GPU == "" {
		return ""
	}
	text := join(l.Leased.String(), l.Available.String()+" more can be leased")
	if l.Foreign > 0 {
		text = join(text, l.Foreign.String()+" is used under no lease")
	}
	if l.Available == 0 && l.Reason != "" {
		text += ": " + l.Reason
	}
	return text
}

func (s *oneDevice) slots() string {
	text := fmt.Sprintf("%d of %d in use", s.Slots.Active, s.Slots.Capacity)
	if s.Slots.Usable < s.Slots.Capacity {
		text = join(text, fmt.Sprintf("%d may be, as it is now", s.Slots.Usable))
	}
	return text
}

func (s *oneDevice) bus() string {
	text := s.Device.PCI
	if node, ok := s.Device.NUMANode.Get(); ok {
		text = join(text, "NUMA node "+strconv.Itoa(node))
	}
	return text
}

func withBar(share gpu.Opt[gpu.Percent]) string {
	if !share.Known() {
		return ""
	}
	return bar(share, 10) + " " + optional(share, "%.0f %%")
}

func optionalWord[T ~float64](v gpu.Opt[T], format string) string {
	if !v.Known() {
		return ""
	}
	return optional(v, format)
}

func heldBack(reasons []gpu.ThrottleReason) string {
	var words []string
	for _, r := range reasons {
		words = append(words, strings.ReplaceAll(string(r), "_", " "))
	}
	return strings.Join(words, ", ")
}

// join puts a comma between what is there.
func join(parts ...string) string {
	var there []string
	for _, part := range parts {
		if part != "" {
			there = append(there, part)
		}
	}
	return strings.Join(there, ", ")
}

// pidText is the number of a process; a dash for one of another user, which the
// daemon does not show.
func pidText(pid int) string {
	if pid == 0 {
		return "-"
	}
	return strconv.Itoa(pid)
}

func processTable(sample *gpu.Sample) *table {
	t := &table{columns: []column{
		{title: "PID", right: true}, {title: "KIND"}, {title: "MEMORY", right: true},
		{title: "LOAD", right: true}, {title: "PROCESS", least: 10},
	}}
	for _, p := range sample.Processes {
		memory, load := "-", "-"
		if v, ok := p.Memory.Get(); ok {
			memory = v.String()
		}
		if v, ok := sample.ProcessUtilization[p.PID]; ok {
			load = fmt.Sprintf("%.0f%%", float64(v))
		}
		name := clean(p.Name)
		if p.PID == 0 {
			name = "another user's"
		}
		t.add(cell{text: pidText(p.PID)}, cell{text: string(p.Kind)}, cell{text: memory}, cell{text: load}, cell{text: name})
	}
	return t
}
