package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Status shows every device in a table, and says below it what is wrong with devices
// that are not well.
type Status struct {
	api.StatusAll
	Leasable api.Available
	Local    bool // no daemon measures, and the caller sees these devices itself
}

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
		if note := ahead(d); d.Well() && note != "" {
			lines = append(lines, to.Hang(term.Yellow, "! ", fmt.Sprintf("GPU %d %s", d.Device.Index, term.Clean(note))))
		}
		lines = append(lines, complaints(fleet.GPU{Status: d}, to)...)
		if acts := d.Throttling; acts != nil && (acts.PacedLeases > 0 || acts.Original.Known()) {
			lines = append(lines, to.Hang(term.Yellow, "! ", fmt.Sprintf("GPU %d: %s", d.Device.Index, throttling(acts))))
		}
	}
	lines = slices.Concat(lines, s.unleased(to), s.needs(to), s.paced(to), s.parked(to))
	if !s.Monitoring && !s.Local {
		lines = append(lines, to.Hang(term.Yellow, "! ", "Monitoring is stopped, so these numbers are old. Start it: POST /api/gpu/monitoring/start"))
	}
	if s.Note != "" {
		lines = append(lines, to.Hang(term.Yellow, "! ", term.Clean(s.Note)))
	}
	lines = append(lines, to.Hang(term.Plain, "", s.totals()))
	if m := s.Machine; m != nil {
		lines = append(lines, to.Hang(term.Plain, "", Machine(m)))
	}
	return lines
}

// Machine says how busy the machine is beside its devices.
func Machine(m *api.Machine) string {
	return fmt.Sprintf("Machine: load %.1f on %s, %s of %s of memory available", m.Load, words.Count(m.CPUs, "CPU"), m.Available.Beside(m.Total), m.Total.Beside(m.Available))
}

// CurvesFrom is the smallest width at which a table of devices may have curves, and
// CurvePoints the largest number of averages in a curve.
const (
	CurvesFrom  = 96
	CurvePoints = 20
)

// fit returns the richest table that fits the width.
func (s *Status) fit(width int) *term.Table {
	rows := make([]fleet.Row, len(s.GPUs))
	for i, d := range s.GPUs {
		can := LeasableOf(s.Leasable, d.Device.UUID)
		rows[i].GPU = &fleet.GPU{Status: d, Leased: can.Leased + can.Foreign}
	}
	in := func(l layout) *term.Table {
		columns := chosen(DeviceColumns(l.bar), "GPU", "NAME", "STATE", "LOAD", "MEMORY GiB", "TEMP", "POWER", "SLOTS")
		for _, at := range []int{6, 4} { // behind TEMP, and behind LOAD
			if l.curve > 0 {
				columns = slices.Insert(columns, at, Column[fleet.Row]{term.Column{Title: "5 MIN"}, func(r fleet.Row) term.Cell {
					load, temperature := curves(r.GPU.Curves, l.curve)
					return term.Text(map[int]string{4: load, 6: temperature}[at])
				}})
			}
		}
		return tableIn(l, rows, columns)
	}
	if t := s.curved(width, in); t != nil {
		return t
	}
	var layouts []layout
	for bar := 12; bar >= 5; bar-- {
		layouts = append(layouts, layout{bar: bar})
	}
	long, short := map[string]int{"NAME": 10}, map[string]int{"NAME": 8}
	return richest(width, append(layouts,
		layout{bar: 5, least: long}, layout{bar: 3, least: long}, layout{least: short}, layout{least: short, without: []string{"SLOTS"}},
		layout{least: short, without: []string{"SLOTS", "POWER"}}, layout{without: []string{"SLOTS", "POWER", "NAME"}},
	), in)
}

// curved returns the table with the widest curves that fit the width. It returns nil if
// none fit, or if there is nothing to draw. It makes at most two tables: they take most
// of the time that berth status takes by itself.
func (s *Status) curved(width int, in func(layout) *term.Table) *term.Table {
	const narrowest = 8
	if !slices.ContainsFunc(s.GPUs, func(d api.Status) bool {
		return d.Curves != nil && max(len(d.Curves.Utilization), len(d.Curves.Temperature)) > 1
	}) {
		return nil
	}
	l := layout{bar: 12, curve: CurvePoints}
	t := in(l)
	missing := t.Width() - width
	if missing <= 0 {
		return t
	}
	for _, l.bar = range []int{12, 8} { // there are two bars, and two curves
		if l.curve = CurvePoints - (missing-2*(12-l.bar)+1)/2; l.curve >= narrowest {
			return in(l)
		}
	}
	return nil
}

// DeviceColumns returns the columns of devices, with bars of this size.
func DeviceColumns(bar int) []Column[fleet.Row] {
	number := func(title string, text func(d fleet.GPU, m gpu.Sample) string) Column[fleet.Row] {
		return Column[fleet.Row]{term.Column{Title: title, Right: true}, ofDevice(func(d fleet.GPU) term.Cell { return term.Text(text(d, MeasuredOn(d))) })}
	}
	text := func(title string, text func(d fleet.GPU) string) Column[fleet.Row] {
		return Column[fleet.Row]{term.Column{Title: title}, ofDevice(func(d fleet.GPU) term.Cell { return term.Text(text(d)) })}
	}
	return []Column[fleet.Row]{
		{term.Column{Title: "NODE", Fold: true}, func(r fleet.Row) term.Cell { return term.Text(Short(r.Node.Name)) }},
		{term.Column{Title: "GPU", Right: true}, func(r fleet.Row) term.Cell {
			if r.GPU == nil {
				return term.Text("-")
			}
			return term.Text(strconv.Itoa(r.GPU.Device.Index))
		}},
		text("NAME", DeviceName),
		{term.Column{Title: "STATE"}, func(r fleet.Row) term.Cell {
			switch {
			case r.GPU == nil && r.Node.Status == nil:
				return term.Painted("no answer", term.Red)
			case r.GPU == nil:
				return term.Painted("no GPU", term.Dim)
			}
			return DeviceState(*r.GPU)
		}},
		text("LOAD", func(d fleet.GPU) string {
			load := MeasuredOn(d).Utilization
			return beside(share(load, bar), fmt.Sprintf("%4s", Number(load, "%.0f%%")))
		}),
		text("MEMORY GiB", func(d fleet.GPU) string { return DeviceMemory(d, func(string) int { return bar }) }),
		number("LEASED", func(d fleet.GPU, _ gpu.Sample) string { return amountOrDash(d.Leased) }),
		number("TEMP", func(_ fleet.GPU, m gpu.Sample) string { return Number(m.Temperature, "%.0f°C") }),
		number("POWER", func(_ fleet.GPU, m gpu.Sample) string { return Number(m.Power, "%.0f W") }),
		number("SLOTS", func(d fleet.GPU, _ gpu.Sample) string { return fmt.Sprintf("%d/%d", d.Slots.Active, d.Slots.Capacity) }),
		{term.Column{Title: "HELD BY", Fold: true}, ofDevice(func(d fleet.GPU) term.Cell { return term.Text(cmp.Or(words.Few(HeldBy(d), mostNamed), "-")) })},
	}
}

// ofDevice returns a cell that is empty for a machine without a device.
func ofDevice(cell func(fleet.GPU) term.Cell) func(fleet.Row) term.Cell {
	return func(r fleet.Row) term.Cell {
		if r.GPU == nil {
			return term.Cell{}
		}
		return cell(*r.GPU)
	}
}

// DeviceName returns the name of a device without its maker.
func DeviceName(d fleet.GPU) string { return shortName(Short(d.Device.Name)) }

// DeviceState returns the state of a device, whether it is drained, and whether it is from
// an old answer.
func DeviceState(d fleet.GPU) term.Cell {
	const most = 12
	text := term.Cut(term.Clean(string(d.State)), most)
	if d.Drain != nil && d.Well() {
		text = "drained"
	}
	switch {
	case d.Old:
		return term.Painted(text+" (old)", term.Yellow)
	case d.State.Worse(gpu.Throttled) || d.Health == gpu.Unhealthy:
		return term.Painted(text, term.Red)
	case d.Drain != nil || !d.Well():
		return term.Painted(text, term.Yellow)
	}
	return term.Painted(text, term.Green)
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

// DeviceMemory draws the used memory of a device, and lighter the memory leased beyond that,
// and writes how much of the whole is used. The bar beside a text has bar(text) columns.
func DeviceMemory(d fleet.GPU, bar func(text string) int) string {
	m := MeasuredOn(d)
	used, total := "-", fleet.Amount(m.MemoryTotal.Or(0))
	v, known := m.MemoryUsed.Get()
	if known {
		used = GiB(fleet.Amount(v))
	}
	text := fmt.Sprintf("%4s/%s", used, amountOrDash(total))
	size := bar(text)
	if !known || total == 0 {
		return beside(strings.Repeat(" ", size), text)
	}
	return beside(memoryBar(fleet.Amount(v), d.Leased, total, size), text)
}

// memoryBar draws the used memory, and lighter the memory leased beyond that.
func memoryBar(used, leased, total gpu.MiB, size int) string {
	of := func(m gpu.MiB) []rune { return []rune(term.Bar(100*float64(m)/float64(total), size)) }
	full := of(used)
	for i, r := range of(leased) {
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

// share draws a share, or blanks if it is not known.
func share(of gpu.Opt[gpu.Percent], size int) string {
	return term.Bar(float64(of.Or(gpu.Percent(math.NaN()))), size)
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

// complaints lists what is wrong with a device, and that it is drained.
func complaints(d fleet.GPU, to term.Screen) (lines []string) {
	if text, bad := Complaint(d, to.Now); bad {
		lines = append(lines, to.Hang(term.Red, "✗ ", text))
	} else if text != "" {
		lines = append(lines, to.Hang(term.Yellow, "! ", text))
	}
	if d.Drain != nil && !d.Well() && !d.Old {
		lines = append(lines, to.Hang(term.Yellow, "! ", named(d)+" is "+drained(d.Drain, to.Now)))
	}
	return lines
}

// Complaint says what is wrong with a device, or else that it is drained. It returns "" if
// it is neither, or if the answer is old.
func Complaint(d fleet.GPU, now time.Time) (text string, bad bool) {
	switch {
	case d.Old || d.Well() && d.Drain == nil:
		return "", false
	case d.Well():
		return named(d) + " is " + drained(d.Drain, now), false
	}
	text = named(d) + " " + DeviceState(d).Text
	if !d.Since.IsZero() {
		text += " for " + words.Age(now.Sub(d.Since))
	}
	if d.Health == gpu.Unhealthy && d.State != gpu.Unavailable {
		text += ", unhealthy"
	}
	text += given(": ", term.Clean(d.Reason))
	if d.State != gpu.Unavailable {
		text += given("; ", distrust(d.Trust, now))
	}
	if d.Node == "" { // forecasts of other machines are not trusted
		text += given("; ", term.Clean(ahead(d.Status)))
	}
	if d.State == gpu.Unavailable && d.Health == gpu.HealthUnknown && d.Sample != nil {
		text += fmt.Sprintf(" (last sample %s ago)", words.Age(now.Sub(d.Sample.Time)))
	}
	return text, d.State.Worse(gpu.Throttled) || d.Health == gpu.Unhealthy
}

// named names a device in a sentence, after its machine if there are several.
func named(d fleet.GPU) string {
	if d.Node != "" {
		return fmt.Sprintf("%s GPU %d", Short(d.Node), d.Device.Index)
	}
	return fmt.Sprintf("GPU %d", d.Device.Index)
}

// distrust says how far a device is not trusted, or returns "" if it is.
func distrust(t *api.Trust, now time.Time) string {
	if t == nil {
		return ""
	}
	text, left := "", time.Duration(0)
	if t.Until != nil {
		left = t.Until.Sub(now)
	}
	switch {
	case t.Phase == "quarantine" && left > 0:
		text = "in quarantine for another " + words.Age(left) + " at least: " + term.Clean(t.Why)
	case t.Phase == "quarantine":
		text = "in quarantine until its check is done: " + term.Clean(t.Why)
	case t.Phase == "probation":
		text = "on probation for another " + words.Age(left) + ", with half its slots: " + term.Clean(t.Why)
	}
	if t.Withheld > 0 {
		text = Join(text, words.Count(t.Withheld, "slot")+" withheld, as its memory ran out")
	}
	return text
}

// totals sums up the table. UNAVAILABLE devices count as such, and add no memory and no
// power; nor do instances of a device.
func (s *Status) totals() string {
	var used, total gpu.MiB
	var power gpu.Watts
	states := map[gpu.State]int{}
	for _, d := range s.GPUs {
		states[d.State]++
		if d.State == gpu.Unavailable || d.Device.Parent != "" { // the whole device counts for its instances
			continue
		}
		total += d.Device.MemoryTotal
		m := Measured(d)
		used += m.MemoryUsed.Or(0)
		power += m.Power.Or(0)
	}
	var leased gpu.MiB
	for _, d := range s.Leasable.GPUs {
		leased += d.Leased
	}
	u := s.Utilization
	memory := fmt.Sprintf("%s of %s GiB", gib(used), gib(total))
	if leased > 0 {
		memory += ", " + gib(leased) + " leased"
	}
	parts := []string{
		words.Count(len(s.GPUs), "GPU") + given(" on ", term.Clean(s.Host)) + ": " + strings.Join(counted(states, gpu.States()...), ", "),
		memory,
		fmt.Sprintf("%.0f W", float64(power)),
		fmt.Sprintf("%d of %s in use", u.TotalActive, words.Count(u.TotalCapacity, "slot")),
	}
	return strings.Join(parts, " · ")
}

// Need writes what needs a person, and for how long.
func Need(n api.Need, now time.Time) string {
	text := term.Clean(n.Text)
	if n.Since != nil {
		text += ", for " + words.Age(now.Sub(*n.Since))
	}
	return text
}

// leastUnleased is the least memory under no lease that is told: a reading of a program
// that grows may be that much newer than another.
const leastUnleased = 100

// unleased says on which devices programs use memory under no lease, beside what the
// driver takes.
func (s *Status) unleased(to term.Screen) (lines []string) {
	for _, d := range s.GPUs {
		var used gpu.MiB
		for _, p := range Measured(d).Processes {
			if p.Kind != gpu.Graphics { // a desktop is not somebody who passes by berth
				used += p.Memory.Or(0)
			}
		}
		for _, l := range d.Leases {
			used -= l.Measured
		}
		if used = min(used, LeasableOf(s.Leasable, d.Device.UUID).Foreign); used >= leastUnleased {
			lines = append(lines, to.Hang(term.Yellow, "! ", fmt.Sprintf("GPU %d: %s GiB is used under no lease. Next: berth leases --orphans", d.Device.Index, gib(used))))
		}
	}
	return lines
}

// needs lists what needs a person beside the devices, and what to do about it.
func (s *Status) needs(to term.Screen) (lines []string) {
	for _, n := range s.Needs {
		if n.GPU != "" || n.Kind == "monitoring" {
			continue // there is more about it in other lines
		}
		mark, c := "! ", term.Yellow
		if n.Severity == gpu.Serious {
			mark, c = "✗ ", term.Red
		}
		lines = append(lines, to.Hang(c, mark, Need(n, to.Now)+given(". Next: ", term.Clean(n.Next))))
	}
	return lines
}

// coldest is the lower end of temperature curves: no device is colder.
const coldest = 20

// curves draws the load and the temperature of a device in the last minutes.
func curves(c *api.Curves, size int) (load, temperature string) {
	if c == nil || size == 0 {
		return "", ""
	}
	return term.Spark(stretch(c.Utilization, c.Points, size), 0, 100), term.Spark(stretch(c.Temperature, c.Points, size), coldest, 100)
}

// stretch returns size values for a list of up to points averages that ends now. Values
// before the beginning of the list are NaN.
func stretch[T ~float64](list []T, points, size int) []float64 {
	values := make([]float64, size)
	for i := range values {
		// The part of the list that this value stands for ends behind it.
		from, to := i*points/size, max((i+1)*points/size, i*points/size+1)
		from, to = max(from-(points-len(list)), 0), to-(points-len(list))
		values[i] = math.NaN()
		if to > from && to <= len(list) {
			sum := 0.0
			for _, v := range list[from:to] {
				sum += float64(v)
			}
			values[i] = sum / float64(to-from)
		}
	}
	return values
}

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
		{Title: "GPU", Right: true}, {Title: "HELD BY", Least: 8, Fold: true}, {Title: "MEMORY GiB"}, {Title: "SLOTS", Right: true}, {Title: "LEASES", Right: true},
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
	if slices.ContainsFunc(leases, func(l api.DeviceLease) bool { return l.Until != nil }) {
		t.Columns = append(t.Columns, term.Column{Title: "UNTIL"})
	}
	for _, l := range leases {
		memory, until := usedCell(l.Measured, l.Memory), "-"
		if l.State == "parked" {
			memory = term.Text("parked")
		}
		if l.Until != nil {
			until = clock(*l.Until, to.Now)
		}
		t.Add(term.Text(term.Clean(l.ID)), term.Text(Holder(l.Holder)), memory, term.Text(strconv.Itoa(l.Slots)), term.Text(words.Age(to.Now.Sub(l.Granted))), term.Text(until))
	}
	return t
}

// usedCell writes how much of the leased memory is used. It marks a holder that uses
// more than it leased.
func usedCell(used, leased gpu.MiB) term.Cell {
	c := term.Text(fmt.Sprintf("%4s/%s", amountOrDash(used), amountOrDash(leased)))
	if leased > 0 && used > leased {
		c.Colour = term.Red
	}
	return c
}

// amountOrDash writes an amount in GiB, or a dash for none.
func amountOrDash(m gpu.MiB) string {
	if m == 0 {
		return "-"
	}
	return GiB(m)
}
