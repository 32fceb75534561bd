package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Device shows everything about one device.
type Device struct {
	api.Status
	Leasable api.DeviceAvailable
}

// Lines writes the device for a screen.
func (s *Device) Lines(to term.Screen) []string {
	title := fmt.Sprintf("GPU %d  %s  ", s.Device.Index, term.Clean(s.Device.Name))
	state := string(s.State)
	if !s.Since.IsZero() {
		state += " for " + words.Age(to.Now.Sub(s.Since))
	}
	lines := append([]string{to.Paint(term.Bold, title) + to.Paint(stateColour(s.State), state)}, factLines(s.facts(to), 13, to)...)
	if len(s.Leases) > 0 {
		lines = append(lines, "")
		lines = append(lines, leasesOn(s.Leases, to).Lines(to.Width, to.Painter)...)
	}
	if s.Sample != nil && len(s.Sample.Processes) > 0 {
		lines = append(lines, "")
		lines = append(lines, processes(s.Sample).Lines(to.Width, to.Painter)...)
	}
	return lines
}

// fact is one line about a device. A fact with an empty text is left out.
type fact struct{ name, text string }

// factLines writes facts, behind names of so many columns.
func factLines(facts []fact, names int, to term.Screen) (lines []string) {
	for _, f := range facts {
		if f.text != "" {
			lines = append(lines, to.Hang(term.Dim, fmt.Sprintf("  %-*s", names, f.name), term.Clean(f.text)))
		}
	}
	return lines
}

func (s *Device) facts(to term.Screen) []fact {
	d, m := s.Device, Measured(s.Status)
	facts := []fact{
		{"why", s.Reason},
		{"drained", s.drain(to)},
		{"advice", s.advice()},
		{"berth does", throttling(s.Throttling)},
		{"load", withBar(m.Utilization)},
		{"memory", s.memory(m)},
		{"leased", s.leased()},
		{"temperature", Join(optionalWord(m.Temperature, "%.0f °C"), optionalWord(d.TempSlowdown, "slows itself down at %.0f °C"))},
		{"outlook", outlook(s.Outlook)},
		{"power", Join(optionalWord(m.Power, "%.0f W"), optionalWord(d.PowerLimit, "limit %.0f W"))},
		{"clocks", Join(optionalWord(m.ClockSM, "SM %.0f MHz"), optionalWord(m.ClockMemory, "memory %.0f MHz"))},
		{"held back by", heldBack(m.Throttle)},
		{"fan", optionalWord(m.Fan, "%.0f %%")},
		{"slots", s.slots()},
		{"health", Join(string(s.Health), distrust(s.Trust, to.Now))},
		{"uuid", d.UUID},
		{"driver", Join(d.Driver, "through "+d.Backend)},
		{"bus", s.bus()},
		{"confidential", string(d.Confidential)},
	}
	if s.Sample != nil {
		facts = append(facts, fact{"sampled", words.Age(to.Now.Sub(s.Sample.Time)) + " ago"})
	}
	return facts
}

// advice says how fast work should run, and why unless the state says so.
func (s *Device) advice() string {
	return fmt.Sprintf("work at %.0f %% of full speed", s.Multiplier*100) + given(": ", s.Slower)
}

func (s *Device) memory(m gpu.Sample) string {
	used, ok := m.MemoryUsed.Get()
	if !ok {
		return s.Device.MemoryTotal.String()
	}
	total := m.MemoryTotal.Or(s.Device.MemoryTotal)
	return Join(fmt.Sprintf("%s of %s", used.Beside(total), total.Beside(used)), withBar(m.MemoryPercent()))
}

// drain says who drains the device, or returns "" if nobody does.
func (s *Device) drain(to term.Screen) string {
	if s.Drain == nil {
		return ""
	}
	return "yes, " + drained(s.Drain, to.Now)
}

// leased says how much of the memory is leased, and how much is left.
func (s *Device) leased() string {
	l := s.Leasable
	if l.GPU == "" {
		return ""
	}
	text := Join(l.Leased.String(), l.Available.String()+" more can be leased")
	if l.Foreign > 0 {
		text = Join(text, gib(l.Foreign)+" GiB is used under no lease")
	}
	if l.Available == 0 && l.Reason != "" {
		text += ": " + l.Reason
	}
	return text
}

func (s *Device) slots() string {
	text := fmt.Sprintf("%d of %d in use", s.Slots.Active, s.Slots.Capacity)
	if s.Slots.Usable < s.Slots.Capacity {
		text = Join(text, fmt.Sprintf("%d may be, as it is now", s.Slots.Usable))
	}
	return text
}

func (s *Device) bus() string {
	text := s.Device.PCI
	if node, ok := s.Device.NUMANode.Get(); ok {
		text = Join(text, "NUMA node "+strconv.Itoa(node))
	}
	return text
}

func withBar(part gpu.Opt[gpu.Percent]) string {
	if !part.Known() {
		return ""
	}
	return share(part, 10) + " " + optional(part, "%.0f %%")
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

// Join joins the parts that are not empty with commas.
func Join(parts ...string) string {
	var there []string
	for _, part := range parts {
		if part != "" {
			there = append(there, part)
		}
	}
	return strings.Join(there, ", ")
}

// given returns a text with what comes before it, or "" for an empty one.
func given(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// PID writes the number of a process, or a dash for a process of another user,
// which the daemon does not show.
func PID(pid int) string {
	if pid == 0 {
		return "-"
	}
	return strconv.Itoa(pid)
}

// processes returns the table of the processes on a device.
func processes(sample *gpu.Sample) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Title: "PID", Right: true}, {Title: "KIND"}, {Title: "MEMORY", Right: true},
		{Title: "LOAD", Right: true}, {Title: "PROCESS", Least: 10},
	}}
	for _, p := range sample.Processes {
		memory, load := "-", "-"
		if v, ok := p.Memory.Get(); ok {
			memory = v.String()
		}
		if v, ok := sample.ProcessUtilization[p.PID]; ok {
			load = fmt.Sprintf("%.0f%%", float64(v))
		}
		name := term.Clean(p.Name)
		if p.PID == 0 {
			name = "another user's"
		}
		t.Add(term.Text(PID(p.PID)), term.Text(string(p.Kind)), term.Text(memory), term.Text(load), term.Text(name))
	}
	return t
}

// Drained says that a device is drained, and which leases continue there.
func Drained(d api.Drained, to term.Screen) []string {
	text := fmt.Sprintf("GPU %d is not drained any more.", d.Index)
	if d.Drain != nil {
		text = fmt.Sprintf("GPU %d is %s.", d.Index, drained(d.Drain, to.Now))
	}
	if len(d.Leases) == 0 {
		return []string{to.Hang(term.Plain, "", text+" No lease is left there.")}
	}
	text += " " + words.Count(len(d.Leases), "lease") + " " + words.Form(len(d.Leases), "goes", "go") + " on:"
	return append([]string{to.Hang(term.Plain, "", text), ""}, leasesOn(d.Leases, to).Lines(to.Width, to.Painter)...)
}

// Undrained says that a device is in use again, or that nothing has changed.
func Undrained(d api.Drained, _ term.Screen) []string {
	if !d.Changed {
		return []string{fmt.Sprintf("GPU %d was not drained.", d.Index)}
	}
	return []string{fmt.Sprintf("GPU %d is not drained any more.", d.Index)}
}

// drained says who drains a device, until when and why.
func drained(d *api.Drain, now time.Time) string {
	until := ""
	if d.Until != nil {
		until = clock(*d.Until, now)
	}
	return "drained" + given(" by ", term.Clean(d.By)) + given(" until ", until) + given(": ", term.Clean(d.Reason))
}

// clock writes a future time: only the hour if it is within a day.
func clock(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Sub(now) < 24*time.Hour {
		return t.Format("15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// throttling says what berth does about a device that should run slower, or returns ""
// if it does nothing.
func throttling(t *api.Throttling) string {
	if t == nil {
		return ""
	}
	var power, paced, fan, denied string
	if original, held := t.Original.Get(); held {
		power = fmt.Sprintf("the power limit is %.0f W instead of %.0f W, after %s", t.PowerLimit.Or(0), original, words.Count(t.PowerSteps, "step"))
	}
	if share, held := t.Share.Get(); held {
		paced = fmt.Sprintf("%s held to %.0f %% of full speed", words.Count(t.PacedLeases, "lease"), 100*share)
	}
	if speed, held := t.Fan.Get(); held {
		fan = fmt.Sprintf("fans at %.0f %%", speed)
	}
	if t.Denied != "" {
		denied = "nothing: " + t.Denied
	}
	return Join(power, paced, fan, denied)
}

// ahead says in a few words that the temperature of a device passes a threshold, or
// that a forecast slows work on it down. It returns "" if neither is so.
func ahead(d api.Status) string {
	text := ""
	if next, passes := nextThreshold(d.Outlook); passes {
		text = fmt.Sprintf("settles at %.0f °C, passes %s in %s", float64(d.Outlook.Settles), next.Threshold, words.Duration(passing(next)))
	}
	if d.Cause != "forecast" {
		return text
	}
	if text == "" {
		text = "was about to get too hot"
	}
	return fmt.Sprintf("%s: work at %.0f %% of full speed", text, d.Multiplier*100)
}

// nextThreshold returns the first threshold that the temperature of a device will pass.
// It returns false if there is none.
func nextThreshold(o *api.Outlook) (next api.ThresholdForecast, ok bool) {
	if o == nil {
		return next, false
	}
	for _, t := range o.Thresholds {
		if in, passes := t.Seconds.Get(); passes && in > 0 {
			return t, true
		}
	}
	return next, false
}

// passing returns the time until a threshold is passed.
func passing(t api.ThresholdForecast) time.Duration {
	return time.Duration(t.Seconds.Or(0) * float64(time.Second))
}

// outlook describes the forecast of a device's temperature, for the page about the
// device.
func outlook(o *api.Outlook) string {
	if o == nil {
		return ""
	}
	text := fmt.Sprintf("settles at %.0f °C (%.0f to %.0f) at %.0f W", float64(o.Settles), float64(o.Low), float64(o.High), float64(o.Power))
	if next, passes := nextThreshold(o); passes {
		return Join(text, fmt.Sprintf("passes %s %.0f °C in %s", term.Clean(next.Threshold), float64(next.Limit), words.Duration(passing(next))))
	}
	return text
}

// GPUs holds the indexes of the devices by UUID: people name devices by their index.
type GPUs map[string]int

// GPUsOf returns the devices of a status.
func GPUsOf(all api.StatusAll) GPUs {
	gpus := GPUs{}
	for _, d := range all.GPUs {
		gpus[d.Device.UUID] = d.Device.Index
	}
	return gpus
}

// short returns the index of a device, or the UUID if the device is gone.
func (x GPUs) short(uuid string) string {
	if index, known := x[uuid]; known {
		return strconv.Itoa(index)
	}
	return term.Clean(uuid)
}

// Name returns the name of a device in a sentence: "GPU 0", or the UUID if the device
// is gone.
func (x GPUs) Name(uuid string) string {
	if _, known := x[uuid]; known {
		return "GPU " + x.short(uuid)
	}
	return x.short(uuid)
}

// cell returns the index for a table, because a UUID would take half of the width.
func (x GPUs) cell(uuid string) term.Cell {
	if _, known := x[uuid]; !known {
		return term.Painted("gone", term.Red)
	}
	return term.Text(x.short(uuid))
}

// Check shows the result of a check: the verdict, and each step.
func Check(c api.Check, to term.Screen) []string {
	took := words.Duration(time.Duration(c.Took * float64(time.Second)))
	head := fmt.Sprintf("GPU %d %s: %s (%s check, %s)", c.Index, verdict(c.Verdict), term.Clean(c.Reason), c.Kind, took)
	if c.Kind == "residue" {
		head = fmt.Sprintf("GPU %d: %s (%s)", c.Index, term.Clean(c.Reason), took)
	}
	mark, colour := verdictMark(c.Verdict)
	lines := []string{to.Hang(colour, mark, head)}
	if c.Memory > 0 && c.Memory < c.Total*9/10 {
		lines = append(lines, to.Hang(term.Plain, "  ", fmt.Sprintf("%s of %s could be taken; the rest is leased or in use", c.Memory.Beside(c.Total), c.Total.Beside(c.Memory))))
	}
	if c.Kind == "residue" {
		return lines
	}
	t := &term.Table{Columns: []term.Column{{Title: "  STEP"}, {Title: "VERDICT"}, {Title: "FOUND", Least: 10, Fold: true}}}
	for _, s := range c.Steps {
		_, colour := verdictMark(s.Verdict)
		t.Add(term.Text("  "+strings.ReplaceAll(s.Name, "_", " ")), term.Painted(verdict(s.Verdict), colour), term.Text(term.Clean(s.Detail)))
	}
	if len(t.Rows) == 0 {
		return lines
	}
	return append(lines, t.Lines(to.Width, to.Painter)...)
}

// verdict writes a verdict for people.
func verdict(v string) string { return strings.ReplaceAll(v, "_", " ") }

// verdictMark returns the mark of a verdict, and its colour.
func verdictMark(v string) (mark string, c term.Colour) {
	switch v {
	case "passed":
		return "✓ ", term.Green
	case "failed":
		return "✗ ", term.Red
	}
	return "! ", term.Yellow
}
