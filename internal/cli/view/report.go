package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Report shows how devices were used, who used them, what programs used, and what could
// be improved.
func Report(r api.Report, to term.Screen) []string {
	var lines []string
	section := func(title string, body []string) {
		lines = append(append(append(lines, to.Paint(term.Bold, title)), body...), "")
	}
	if r.Period != nil {
		period(&r, to, section)
		return append(lines, adviceLines(r.Advice, to)...)
	}
	if len(r.GPUs) > 0 {
		section("GPUs"+covered(r.GPUs), reportedDevices(r.GPUs).Lines(to.Width, to.Painter))
	}
	if len(r.Services) > 0 {
		section("Services", reportedServices(r.Services).Lines(to.Width, to.Painter))
	}
	section("Programs", Measurements(api.Measurements{Measurements: r.Measurements}, to))
	if len(r.Energy.GPUs) > 0 {
		section("Energy", energyLines(&r.Energy, to))
	}
	return append(lines, adviceLines(r.Advice, to)...)
}

func adviceLines(list []api.Advice, to term.Screen) []string {
	if len(list) == 0 {
		return []string{"Nothing to advise."}
	}
	lines := []string{to.Paint(term.Bold, "Advice")}
	for _, a := range list {
		lines = append(lines, to.Hang(term.Yellow, "! ", term.Clean(a.Text+given(" Next: ", a.Command))))
	}
	return lines
}

// covered says which time the numbers of devices cover.
func covered(devices []api.DeviceReport) string {
	most := 0.0
	for _, d := range devices {
		most = max(most, d.Covers)
	}
	if most == 0 {
		return ""
	}
	return ", in the last " + words.Age(time.Duration(most*float64(time.Second)))
}

func reportedDevices(devices []api.DeviceReport) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Title: "GPU", Right: true}, {Title: "NAME", Least: 6}, {Title: "STATE"}, {Title: "LOAD", Right: true}, {Title: "HOTTEST", Right: true},
		{Title: "POWER", Right: true}, {Title: "USED/LEASED GiB"}, {Title: "FREE", Right: true}, {Title: "LEASES", Right: true},
	}}
	for _, d := range devices {
		t.Add(term.Text(strconv.Itoa(d.Index)), term.Text(shortName(d.Name)), term.Painted(string(d.State), stateColour(d.State)),
			term.Text(optional(d.Utilization, "%.0f%%")), term.Text(optional(d.Hottest, "%.0f°C")), term.Text(optional(d.Power, "%.0f W")),
			usedCell(d.Measured, d.Leased), term.Text(GiB(d.Available)), term.Text(strconv.Itoa(d.Leases)))
	}
	return t
}

func reportedServices(services []api.ServiceReport) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Title: "SERVICE", Least: 8}, {Title: "USERS", Least: 6}, {Title: "LEASES", Right: true}, {Title: "USED/LEASED GiB"}, {Title: "SLOTS", Right: true},
		{Title: "WAITING", Right: true}, {Title: "ENDED", Right: true}, {Title: "PEAK", Right: true},
	}}
	for _, s := range services {
		t.Add(term.Text(term.Clean(cmp.Or(s.Service, "(none)"))), term.Text(term.Clean(strings.Join(s.Users, ", "))), term.Text(strconv.Itoa(s.Leases)),
			usedCell(s.Measured, s.Leased), term.Text(strconv.Itoa(s.Slots)), term.Text(strconv.Itoa(s.Waiting)),
			term.Text(strconv.Itoa(s.Past)), term.Text(orDash(s.PastPeak)))
	}
	return t
}

// mostListed limits the users, services and programs in a report of a period.
const mostListed = 15

// period shows what happened over a longer time.
func period(r *api.Report, to term.Screen, section func(title string, body []string)) {
	p := r.Period
	const format = "2 Jan 2006, 15:04"
	body := []string{fmt.Sprintf("%s to %s, of which %s was measured", p.From.Format(format), p.Until.Format(format), words.Age(seconds(p.Covered)))}
	for _, remark := range p.Remarks {
		body = append(body, to.Hang(term.Yellow, "! ", term.Clean(remark)))
	}
	section("Period", body)
	section("GPUs", periodDevices(p).Lines(to.Width, to.Painter))
	for _, each := range []struct {
		title string
		list  []api.HolderPeriod
	}{{"Users", p.Users}, {"Services", p.Services}} {
		if len(each.list) > 0 {
			section(each.title, periodHolders(each.list).Lines(to.Width, to.Painter))
		}
	}
	if len(p.Programs) > 0 {
		section("Programs", periodPrograms(p.Programs).Lines(to.Width, to.Painter))
	}
	if p.Source == "past" {
		w := &p.Waiting
		line := fmt.Sprintf("%s granted, %s failed; at most %.0f waited at once.", words.CountThousands(int64(w.Answered), "request"), words.Thousands(int64(w.Refused)), w.Longest)
		if mean, known := w.Mean.Get(); known {
			line += " A request waited " + words.Duration(seconds(mean)) + " on average."
		}
		section("Waiting", term.Wrap(line, to.Width))
		section("Faults", faults(p, to))
	}
}

func periodDevices(p *api.PeriodReport) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Title: "GPU", Right: true}, {Title: "NAME", Least: 6}, {Title: "LOAD", Right: true}, {Title: "HOTTEST", Right: true}, {Title: "LEASED", Right: true},
		{Title: "USED", Right: true}, {Title: "IDLE", Right: true}, {Title: "THROTTLED", Right: true}, {Title: "ENERGY", Right: true},
	}}
	for _, d := range p.GPUs {
		index := "-"
		if i, known := d.Index.Get(); known {
			index = strconv.Itoa(i)
		}
		all := float64(d.Total) * d.Measured / 3600
		t.Add(term.Text(index), term.Text(shortName(term.Clean(cmp.Or(d.Name, d.GPU)))), term.Text(optional(d.Utilization, "%.0f%%")), term.Text(optional(d.Hottest, "%.0f°C")),
			term.Text(ratio(d.Leased, all)), term.Text(ratio(d.Used, all)), term.Text(spent(d.Idle)),
			term.Text(spent(d.States[gpu.Throttled]+d.States[gpu.Critical])), term.Text(energyOf(d.Energy)))
	}
	return t
}

func periodHolders(list []api.HolderPeriod) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Title: "NAME", Least: 8}, {Title: "HELD", Right: true}, {Title: "LEASED GiB·h", Right: true}, {Title: "NOT USED", Right: true}, {Title: "WAITED", Right: true}, {Title: "ENERGY", Right: true},
	}}
	for _, h := range list[:min(len(list), mostListed)] {
		t.Add(term.Text(term.Clean(cmp.Or(h.Name, "(none)"))), term.Text(spent(h.Leases*3600)), term.Text(fmt.Sprintf("%.1f", h.Leased/1024)),
			term.Text(ratio(max(h.Measured-h.Used, 0), h.Measured)), term.Text(spent(h.Waiting*3600)), term.Text(energyOf(h.Energy)))
	}
	return t
}

func periodPrograms(list []api.ProgramPeriod) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Title: "PROGRAM", Least: 8}, {Title: "USER", Least: 6}, {Title: "LEASES", Right: true}, {Title: "HELD", Right: true}, {Title: "IDLE", Right: true},
		{Title: "LEASED GiB·h", Right: true}, {Title: "NOT USED", Right: true}, {Title: "ENERGY", Right: true},
	}}
	for _, p := range list[:min(len(list), mostListed)] {
		t.Add(term.Text(term.Clean(p.Program)), term.Text(term.Clean(p.User)), term.Text(strconv.Itoa(p.Leases)), term.Text(spent(p.Hours*3600)), term.Text(spent(p.Idle*3600)),
			term.Text(fmt.Sprintf("%.1f", p.Leased/1024)), term.Text(ratio(max(p.Measured-p.Used, 0), p.Measured)), term.Text(energyOf(p.Energy)))
	}
	return t
}

func faults(p *api.PeriodReport, to term.Screen) []string {
	if len(p.Faults) == 0 {
		return []string{"None."}
	}
	t := &term.Table{Columns: []term.Column{{Title: "EVENT"}, {Title: "COUNT", Right: true}}}
	for _, f := range p.Faults {
		t.Add(term.Text(string(f.Code)), term.Text(words.Thousands(int64(f.Count))))
	}
	return t.Lines(to.Width, to.Painter)
}

// ratio writes part as a share of whole, or "-" if whole is not positive.
func ratio(part, whole float64) string {
	if whole <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*part/whole)
}

// spent writes a number of seconds, or "-" for none.
func spent(s float64) string {
	if s < 1 {
		return "-"
	}
	return words.Age(seconds(s))
}

// mostUses limits the users, services and programs in a report.
const mostUses = 20

// energyLines shows the energy that each device used, and for whom.
func energyLines(e *api.Energy, to term.Screen) []string {
	lines := deviceEnergy(e, to.Now).Lines(to.Width, to.Painter)
	if len(e.Used) > 0 {
		lines = append(append(lines, ""), usedEnergy(e).Lines(to.Width, to.Painter)...)
	}
	if more := len(e.Used) - mostUses; more > 0 {
		lines = append(lines, to.Hang(term.Plain, "", fmt.Sprintf("%d more used less; --json has them.", more)))
	}
	for _, d := range e.GPUs {
		if missed := seconds(d.Unmeasured); missed >= time.Minute {
			lines = append(lines, to.Hang(term.Yellow, "! ", fmt.Sprintf("GPU %d was not measured for %s of that time: what it used then is missing.", d.Index, words.Age(missed))))
		}
	}
	return lines
}

func deviceEnergy(e *api.Energy, now time.Time) *term.Table {
	t := &term.Table{Columns: priced(e, []term.Column{
		{Title: "GPU", Right: true}, {Title: "NAME", Least: 6}, {Title: "MEASURED", Right: true}, {Title: "ENERGY", Right: true}, {Title: "LEASES", Right: true},
		{Title: "OTHERS", Right: true}, {Title: "IDLE", Right: true}, {Title: "COST", Right: true},
	})}
	for _, d := range e.GPUs {
		t.Add(term.Text(strconv.Itoa(d.Index)), term.Text(shortName(d.Name)), term.Text(words.Age(now.Sub(d.Since))), term.Text(d.Total.InWattHours()),
			term.Text(part(d.Leases, d.Total)), term.Text(part(d.Others, d.Total)), term.Text(part(d.Idle, d.Total)), term.Text(cost(e, d.Total)))
	}
	return t
}

func usedEnergy(e *api.Energy) *term.Table {
	t := &term.Table{Columns: priced(e, []term.Column{
		{Title: "USER", Least: 6}, {Title: "SERVICE", Least: 7}, {Title: "PROGRAM", Least: 8}, {Title: "ENERGY", Right: true}, {Title: "COST", Right: true},
	})}
	for _, u := range e.Used[:min(len(e.Used), mostUses)] {
		t.Add(term.Text(term.Clean(cmp.Or(u.User, "(others)"))), term.Text(term.Clean(cmp.Or(u.Service, "-"))), term.Text(term.Clean(cmp.Or(u.Name, "-"))),
			term.Text(u.Energy.InWattHours()), term.Text(cost(e, u.Energy)))
	}
	return t
}

// priced omits the last column, with the cost, if no price is set.
func priced(e *api.Energy, all []term.Column) []term.Column {
	if e.Price.Known() {
		return all
	}
	return all[:len(all)-1]
}

// part returns an amount as a share of the whole.
func part(some, whole gpu.Joules) string {
	if whole <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(some/whole))
}

// cost returns the cost of an amount.
func cost(e *api.Energy, j gpu.Joules) string {
	amount, known := e.Cost(j).Get()
	if !known {
		return "-"
	}
	return strings.TrimSpace(fmt.Sprintf("%.2f %s", amount, term.Clean(e.Currency)))
}

// energyOf returns the energy used, or a dash if it is not known.
func energyOf(used gpu.Opt[gpu.Joules]) string {
	if j, known := used.Get(); known {
		return j.InWattHours()
	}
	return "-"
}

// Measurements shows what programs requested and what they used.
func Measurements(all api.Measurements, to term.Screen) []string {
	if len(all.Measurements) == 0 {
		return []string{"Nothing has run under a lease yet."}
	}
	measured := slices.ContainsFunc(all.Measurements, func(m api.Measured) bool { return m.Drew.Known() })
	if t := measurements(all, to, measured); !measured || t.Fits(to.Width) {
		return t.Lines(to.Width, to.Painter)
	}
	return measurements(all, to, false).Lines(to.Width, to.Painter)
}

// measurements returns the table, with or without the power that programs drew.
func measurements(all api.Measurements, to term.Screen, power bool) *term.Table {
	name, user := 10, 4
	if power {
		name, user = 0, 0 // the column DREW is not worth cutting names
	}
	t := &term.Table{Columns: []term.Column{
		{Title: "NAME", Least: name}, {Title: "USER", Least: user}, {Title: "RUNS", Right: true}, {Title: "ASKED", Right: true}, {Title: "USED", Right: true},
		{Title: "OF IT", Right: true}, {Title: "NEXT", Right: true}, {Title: "TAKES", Right: true}, {Title: "LAST", Right: true},
	}}
	if power {
		t.Columns = append(t.Columns, term.Column{Title: "DREW", Right: true})
	}
	for _, m := range all.Measurements {
		t.Add(term.Text(term.Clean(m.Name+given(" / ", m.Step))), term.Text(term.Clean(m.User)), term.Text(strconv.Itoa(m.Runs)), term.Text(orDash(m.Asked)), term.Text(orDash(m.Peak)),
			shareCell(m), term.Text(orDash(m.Next)), term.Text(Took(seconds(m.Seconds))), term.Text(words.Age(to.Now.Sub(m.Last))+" ago"), term.Text(optional(m.Drew, "%.0f W")))
	}
	return t
}

func orDash(m gpu.MiB) string {
	if m == 0 {
		return "-"
	}
	return m.InGiB()
}

// shareCell writes how much of the request was used: too much is a mistake, and little
// is waste.
func shareCell(m api.Measured) term.Cell {
	if m.Asked == 0 || m.Peak == 0 {
		return term.Text("-")
	}
	percent := float64(m.Peak) * 100 / float64(m.Asked)
	c := term.Text(fmt.Sprintf("%.0f %%", percent))
	switch {
	case percent > 100:
		c.Colour = term.Red
	case percent < 50:
		c.Colour = term.Yellow
	}
	return c
}

// Took says how long a run took. Fractions of a second matter only for short
// runs.
func Took(d time.Duration) string {
	if d < 10*time.Second {
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return words.Age(d)
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
