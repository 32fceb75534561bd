package view

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

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
		energy := "-"
		if used, known := d.Energy.Get(); known {
			energy = used.String()
		}
		index := "-"
		if i, known := d.Index.Get(); known {
			index = strconv.Itoa(i)
		}
		all := float64(d.Total) * d.Measured / 3600
		t.Add(term.Text(index), term.Text(shortName(term.Clean(cmp.Or(d.Name, d.GPU)))), term.Text(optional(d.Utilization, "%.0f%%")), term.Text(optional(d.Hottest, "%.0f°C")),
			term.Text(ratio(d.Leased, all)), term.Text(ratio(d.Used, all)), term.Text(spent(d.Idle)),
			term.Text(spent(d.States[gpu.Throttled]+d.States[gpu.Critical])), term.Text(energy))
	}
	return t
}

func periodHolders(list []api.HolderPeriod) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Title: "NAME", Least: 8}, {Title: "HELD", Right: true}, {Title: "LEASED GiB·h", Right: true}, {Title: "NOT USED", Right: true}, {Title: "WAITED", Right: true}, {Title: "ENERGY", Right: true},
	}}
	for _, h := range list[:min(len(list), mostListed)] {
		t.Add(term.Text(term.Clean(cmp.Or(h.Name, "(none)"))), term.Text(spent(h.Leases*3600)), term.Text(fmt.Sprintf("%.1f", h.Leased/1024)),
			term.Text(ratio(max(h.Measured-h.Used, 0), h.Measured)), term.Text(spent(h.Waiting*3600)), term.Text(optionalText(h.Energy)))
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
			term.Text(fmt.Sprintf("%.1f", p.Leased/1024)), term.Text(ratio(max(p.Measured-p.Used, 0), p.Measured)), term.Text(optionalText(p.Energy)))
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

func optionalText(j gpu.Opt[gpu.Joules]) string {
	if used, known := j.Get(); known {
		return used.String()
	}
	return "-"
}
