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

// layout says how much of the table fits.
type layout struct {
	bar     int // columns of a bar; 0 for none
	spark   int // columns of a curve; 0 for none
	least   int // columns the name may be cut to; 0 for never
	without []string
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
		list = append(list, layout{bar: bar})
	}
	return append(list,
		layout{bar: 5, least: 10},
		layout{bar: 3, least: 10},
		layout{least: 8},
		layout{least: 8, without: []string{"SLOTS"}},
		layout{least: 8, without: []string{"SLOTS", "POWER"}},
		layout{without: []string{"SLOTS", "POWER", "NAME"}},
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
	l := layout{bar: 12, spark: CurvePoints}
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

// table returns one row for every device.
func (s *Status) table(l layout) *term.Table {
	same := func(c term.Column) column[fleet.GPU] {
		return column[fleet.GPU]{c, func(d fleet.GPU) term.Cell { return DeviceCell(c.Title, d) }}
	}
	curve := func(of func(load, temperature string) string) column[fleet.GPU] {
		return column[fleet.GPU]{term.Column{Title: "5 MIN"}, func(d fleet.GPU) term.Cell { return term.Text(of(curves(d.Curves, l.spark))) }}
	}
	devices := make([]fleet.GPU, len(s.GPUs))
	for i, d := range s.GPUs {
		devices[i] = fleet.GPU{Status: d}
	}
	return tableOf(devices, []column[fleet.GPU]{
		same(term.Column{Title: "GPU", Right: true}),
		{term.Column{Title: "NAME", Least: l.least}, func(d fleet.GPU) term.Cell { return term.Text(shortName(d.Device.Name)) }},
		{term.Column{Title: "STATE"}, func(d fleet.GPU) term.Cell { return term.Painted(string(d.State), stateColour(d.State)) }},
		{term.Column{Title: "LOAD"}, func(d fleet.GPU) term.Cell { return term.Text(loadCell(Measured(d.Status), l.bar)) }},
		curve(func(load, _ string) string { return load }),
		{term.Column{Title: "MEMORY GiB"}, func(d fleet.GPU) term.Cell {
			return term.Text(memoryCell(Measured(d.Status), LeasableOf(s.Leasable, d.Device.UUID), l.bar))
		}},
		same(term.Column{Title: "TEMP", Right: true}),
		curve(func(_, temperature string) string { return temperature }),
		same(term.Column{Title: "POWER", Right: true}), same(term.Column{Title: "SLOTS", Right: true}),
	}, append(l.without, unless(l.spark > 0, "5 MIN"))...)
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

// complaint says what is wrong with a device.
func complaint(d api.Status, to term.Screen) string {
	mark := "! "
	if d.State.Worse(gpu.Throttled) || d.Health == gpu.Unhealthy {
		mark = "✗ "
	}
	text := fmt.Sprintf("GPU %d %s", d.Device.Index, d.State)
	if !d.Since.IsZero() {
		text += " for " + words.Age(to.Now.Sub(d.Since))
	}
	if d.Health == gpu.Unhealthy && d.State != gpu.Unavailable {
		text += ", unhealthy"
	}
	if d.Reason != "" {
		text += ": " + term.Clean(d.Reason)
	}
	if d.State != gpu.Unavailable {
		if not := distrust(d.Trust, to); not != "" {
			text += "; " + not
		}
	}
	if note := ahead(d); note != "" {
		text += "; " + term.Clean(note)
	}
	if d.State == gpu.Unavailable && d.Health == gpu.HealthUnknown && d.Sample != nil {
		text += fmt.Sprintf(" (last sample %s ago)", words.Age(to.Now.Sub(d.Sample.Time)))
	}
	return to.Hang(stateColour(d.State), mark, text)
}

// distrust says how far a device is not trusted, or returns "" if it is.
func distrust(t *api.Trust, to term.Screen) string {
	if t == nil {
		return ""
	}
	text := ""
	switch t.Phase {
	case "quarantine":
		text = "in quarantine until its check is done: " + term.Clean(t.Why)
		if left := t.Until.Sub(to.Now); left > 0 {
			text = "in quarantine for another " + words.Age(left) + " at least: " + term.Clean(t.Why)
		}
	case "probation":
		text = "on probation for another " + words.Age(t.Until.Sub(to.Now)) + ", with half its slots: " + term.Clean(t.Why)
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
	var counts []string
	for _, state := range gpu.States() {
		if n := states[state]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, state))
		}
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
		words.Count(len(s.GPUs), "GPU") + given(" on ", term.Clean(s.Host)) + ": " + strings.Join(counts, ", "),
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
		text := Need(n, to.Now)
		if n.Next != "" {
			text += ". Next: " + term.Clean(n.Next)
		}
		lines = append(lines, to.Hang(c, mark, text))
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
	amount := func(m gpu.MiB) string {
		if m == 0 {
			return "-"
		}
		return GiB(m)
	}
	c := term.Text(fmt.Sprintf("%4s/%s", amount(used), amount(leased)))
	if leased > 0 && used > leased {
		c.Colour = term.Red
	}
	return c
}
