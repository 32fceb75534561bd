package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/report"
	"github.com/berth-gpu/berth/internal/text/chart"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

const mostRows = 25 // of a table

// filled removes empty blocks.
func filled(list ...block) []block {
	return slices.DeleteFunc(list, func(b block) bool {
		return b.Picture == "" && (b.Table == nil || len(b.Table.Rows) == 0) && len(b.List) == 0
	})
}

// cut shortens a table.
func cut(t *table) *table {
	if more := len(t.Rows) - mostRows; more > 0 {
		t.Rows, t.More = t.Rows[:mostRows], fmt.Sprintf("%s more; berth report --json has them.", words.Count(more, "row"))
	}
	return t
}

func (b *builder) use() section {
	t := &table{Columns: []column{{"GPU", false}, {"Name", false}, {"Load", true}, {"", false}, {"Hottest", true}, {"Power", true}, {"Leased", true}, {"Used", true}, {"Idle", true}, {"Measured", true}}}
	for i := range b.p.GPUs {
		d := &b.p.GPUs[i]
		all := float64(d.Total) * d.Measured / 3600
		t.Rows = append(t.Rows, []cell{
			text(deviceLabel(d)), text(d.Name), text(optional(d.Utilization, "%.0f %%")), {Picture: b.spark(d)}, text(optional(d.Hottest, "%.0f °C")), text(optional(d.Power, "%.0f W")),
			text(percent(d.Leased, all)), text(percent(d.Used, all)), text(hours(d.Idle)), text(hours(d.Measured)),
		})
	}
	return section{Title: "Use", Blocks: filled(b.devices("load", "Load", " %", 100), b.memory(), block{Title: "GPUs", Table: t})}
}

// spark draws the load of a device for a table.
func (b *builder) spark(d *api.DevicePeriod) string {
	for _, c := range b.curves("load") {
		if c.Of == d.GPU {
			t := b.frame("Load of "+deviceLabel(d), " %")
			t.Most, t.Series = 100, []chart.Series{{Points: points(&c, 1)}}
			return chart.Spark(t)
		}
	}
	return ""
}

func (b *builder) holders() section {
	programs := &table{Columns: b.priced(column{"Program", false}, column{"User", false}, column{"Service", false}, column{"Leases", true}, column{"Held", true}, column{"Memory leased", true}, column{"Peak", true}, column{"Energy", true})}
	for _, p := range b.p.Programs {
		programs.Rows = append(programs.Rows, b.withCost(p.Energy, text(p.Program), text(p.User), text(p.Service), text(strconv.Itoa(p.Leases)), text(hours(p.Hours*3600)),
			text(memoryHours(p.Leased)), text(peak(p.Peak)), text(joules(p.Energy))))
	}
	s := section{Title: "Users, services and programs", Blocks: filled(b.users(),
		block{Title: "Users", Table: cut(b.holderTable("User", b.p.Users))}, block{Title: "Services", Table: cut(b.holderTable("Service", b.p.Services))},
		block{Title: "Programs", Table: cut(programs)})}
	if len(s.Blocks) == 0 {
		s.Text = "Nobody held a lease in this time, or you may not see who did."
	}
	return s
}

func (b *builder) holderTable(title string, list []api.HolderPeriod) *table {
	t := &table{Columns: b.priced(column{title, false}, column{"Held", true}, column{"Memory leased", true}, column{"Not used", true}, column{"Waited", true}, column{"Energy", true})}
	for _, h := range list {
		t.Rows = append(t.Rows, b.withCost(h.Energy, text(cmp.Or(h.Name, nobody)), text(hours(h.Leases*3600)), text(memoryHours(h.Leased)),
			text(percent(max(h.Measured-h.Used, 0), h.Measured)), text(hours(h.Waiting*3600)), text(joules(h.Energy))))
	}
	return t
}

// priced adds a column for the cost, if there is a price.
func (b *builder) priced(list ...column) []column {
	if b.Energy.Price.Known() {
		list = append(list, column{"Cost", true})
	}
	return list
}

func (b *builder) withCost(j gpu.Opt[gpu.Joules], list ...cell) []cell {
	if !b.Energy.Price.Known() {
		return list
	}
	used, known := j.Get()
	if !known {
		return append(list, text("–"))
	}
	return append(list, text(b.cost(used)))
}

func joules(j gpu.Opt[gpu.Joules]) string {
	if used, known := j.Get(); known {
		return used.InWattHours()
	}
	return "–"
}

func peak(m gpu.MiB) string {
	if m == 0 {
		return "–"
	}
	return m.InGiB()
}

// waste shows what was requested and not used.
func (b *builder) waste() section {
	plot := chart.BarPlot{Title: "Memory asked for and used, by program", Unit: " GiB·h", Parts: []chart.Series{{Name: "used", Class: "c0"}, {Name: "asked for and not used", Class: "c5"}}}
	idle := &table{Columns: []column{{"Program", false}, {"User", false}, {"Held", true}, {"Idle", true}, {"Share", true}}}
	programs := slices.Clone(b.p.Programs)
	slices.SortStableFunc(programs, func(x, y api.ProgramPeriod) int { return cmp.Compare(y.Measured-y.Used, x.Measured-x.Used) })
	for _, p := range programs {
		if p.Measured > 0 && len(plot.Bars) < 12 {
			unused := max(p.Measured-p.Used, 0)
			plot.Bars = append(plot.Bars, chart.Bar{
				Name: program(&p), Parts: []float64{min(p.Used, p.Measured) / 1024, unused / 1024}, Note: fmt.Sprintf("%s not used (%s)", memoryHours(unused), percent(unused, p.Measured)),
			})
		}
	}
	slices.SortStableFunc(programs, func(x, y api.ProgramPeriod) int { return cmp.Compare(y.Idle, x.Idle) })
	for _, p := range programs {
		if p.Idle >= 1.0/60 {
			idle.Rows = append(idle.Rows, []cell{text(p.Program), text(p.User), text(hours(p.Hours * 3600)), text(hours(p.Idle * 3600)), text(percent(p.Idle, p.Hours))})
		}
	}
	var list []api.Advice
	for _, a := range b.Advice {
		list = append(list, api.Advice{Text: term.Clean(a.Text), Command: term.Clean(a.Command)})
	}
	return section{Title: "Waste", Blocks: filled(bars(plot), block{Title: "Leases that stood while their GPUs did nothing", Table: cut(idle)}, block{Title: "Advice", List: list})}
}

func program(p *api.ProgramPeriod) string {
	if p.User == "" {
		return p.Program
	}
	return p.Program + " (" + p.User + ")"
}

func (b *builder) waiting() section {
	w := &b.p.Waiting
	plot := chart.BarPlot{Title: "How long requests waited", Parts: []chart.Series{{Class: "c0"}}}
	from, all := "0", 0.0
	for _, c := range w.Times {
		all += c.Count
	}
	for _, c := range w.Times {
		name := "longer than " + from
		if c.Below > 0 {
			name = "less than " + wait(c.Below)
			from = wait(c.Below)
		}
		plot.Bars = append(plot.Bars, chart.Bar{Name: name, Parts: []float64{c.Count}, Note: words.Thousands(int64(c.Count)) + " (" + percent(c.Count, all) + ")"})
	}
	if all == 0 {
		plot.Bars = nil
	}
	queue := b.frame("Requests that wait", "")
	for _, c := range b.curves("queue") {
		queue.Series = append(queue.Series, chart.Series{Name: "waiting", Points: points(&c, 1)})
	}
	line := block{}
	if w.Longest > 0 {
		line = b.drawn(queue, chart.Lines)
	}
	now := &table{Columns: []column{{"Request", false}, {"User", false}, {"Service", false}, {"For", true}, {"GPUs", true}, {"Since", true}}}
	for _, r := range w.Now {
		now.Rows = append(now.Rows, []cell{text(r.ID), text(r.Holder.User), text(r.Holder.Service), text(report.Amount(r)), text(strconv.Itoa(max(r.GPUs, 1))), text(words.Age(b.Time.Sub(r.Since)))})
	}
	s := section{Title: "Waiting", Blocks: filled(bars(plot), line, block{Title: "Requests that wait now", Table: cut(now)})}
	if b.p.Source == "past" {
		s.Text = fmt.Sprintf("%s granted, %s failed. On average %s waited, at most %s.", words.CountThousands(int64(w.Answered), "request"), words.Thousands(int64(w.Refused)),
			round(w.Queue), round(w.Longest))
	}
	return s
}

func (b *builder) throttling() section {
	t := &table{Columns: []column{{"GPU", false}}}
	for _, s := range states {
		t.Columns = append(t.Columns, column{string(s.state), true})
	}
	t.Columns = append(t.Columns, column{"Below full clock because of", false})
	for i := range b.p.GPUs {
		d := &b.p.GPUs[i]
		if len(d.States) == 0 {
			continue
		}
		row := []cell{text(deviceLabel(d))}
		for _, s := range states {
			row = append(row, text(hours(d.States[s.state])))
		}
		var reasons []string
		for reason, spent := range d.Reasons {
			reasons = append(reasons, strings.ReplaceAll(reason, "_", " ")+" "+hours(spent))
		}
		slices.Sort(reasons)
		t.Rows = append(t.Rows, append(row, text(strings.Join(reasons, ", "))))
	}
	return section{Title: "Heat and throttling", Blocks: filled(b.strips(), block{Title: "Time in each state", Table: t}, b.devices("heat", "Highest temperature", " °C", 90))}
}

func (b *builder) faults() section {
	if b.p.Source != "past" {
		return section{}
	}
	events := &table{Columns: []column{{"Event", false}, {"How often", true}}}
	for _, f := range b.p.Faults {
		events.Rows = append(events.Rows, []cell{text(strings.ReplaceAll(string(f.Code), "_", " ")), text(words.Thousands(int64(f.Count)))})
	}
	devices := &table{Columns: []column{{"GPU", false}, {"Memory errors mended", true}, {"Not mended", true}, {"Unhealthy", true}, {"Drained", true}}}
	for i := range b.p.GPUs {
		if d := &b.p.GPUs[i]; d.Corrected+d.Uncorrected+d.Unhealthy+d.Drained > 0.5 {
			devices.Rows = append(devices.Rows, []cell{text(deviceLabel(d)), text(words.Thousands(int64(d.Corrected))), text(words.Thousands(int64(d.Uncorrected))), text(hours(d.Unhealthy)), text(hours(d.Drained))})
		}
	}
	s := section{Title: "Faults", Blocks: filled(block{Title: "Events", Table: events}, block{Title: "GPUs", Table: devices})}
	if len(s.Blocks) == 0 {
		s.Text = "None."
	}
	return s
}

func (b *builder) energy() section {
	plot := chart.BarPlot{Title: "Energy of each GPU", Unit: " kWh", Parts: []chart.Series{{Name: "for programs", Class: "c2"}, {Name: "drawn by the GPU itself", Class: "c7"}}}
	t := &table{Columns: b.priced(column{"GPU", false}, column{"Energy", true}, column{"For programs", true}, column{"By itself", true}, column{"Power", true})}
	for i := range b.p.GPUs {
		d := &b.p.GPUs[i]
		all, known := d.Energy.Get()
		if !known {
			continue
		}
		own := min(d.IdleEnergy.Or(0), all)
		plot.Bars = append(plot.Bars, chart.Bar{Name: deviceLabel(d), Parts: []float64{(all - own).WattHours() / 1000, own.WattHours() / 1000}, Note: all.String()})
		t.Rows = append(t.Rows, b.withCost(d.Energy, text(deviceLabel(d)), text(all.InWattHours()), text((all-own).InWattHours()), text(own.InWattHours()), text(optional(d.Power, "%.0f W"))))
	}
	title := "Energy"
	if b.Energy.Price.Known() {
		title = "Energy and cost"
	}
	return section{Title: title, Blocks: filled(bars(plot), block{Title: "GPUs", Table: t}, b.devices("power", "Power", " W", 0))}
}
