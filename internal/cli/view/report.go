package view

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
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
		text := a.Text
		if a.Command != "" {
			text += " Next: " + a.Command
		}
		lines = append(lines, to.Hang(term.Yellow, "! ", term.Clean(text)))
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
