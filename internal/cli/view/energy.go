package view

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

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
		t.Add(priced(e, []term.Cell{
			term.Text(strconv.Itoa(d.Index)), term.Text(shortName(d.Name)), term.Text(words.Age(now.Sub(d.Since))), term.Text(d.Total.String()),
			term.Text(part(d.Leases, d.Total)), term.Text(part(d.Others, d.Total)), term.Text(part(d.Idle, d.Total)), term.Text(cost(e, d.Total)),
		})...)
	}
	return t
}

func usedEnergy(e *api.Energy) *term.Table {
	t := &term.Table{Columns: priced(e, []term.Column{
		{Title: "USER", Least: 6}, {Title: "SERVICE", Least: 7}, {Title: "PROGRAM", Least: 8}, {Title: "ENERGY", Right: true}, {Title: "COST", Right: true},
	})}
	for _, u := range e.Used[:min(len(e.Used), mostUses)] {
		t.Add(priced(e, []term.Cell{
			term.Text(term.Clean(cmp.Or(u.User, "(others)"))), term.Text(term.Clean(cmp.Or(u.Service, "-"))), term.Text(term.Clean(cmp.Or(u.Name, "-"))),
			term.Text(u.Energy.String()), term.Text(cost(e, u.Energy)),
		})...)
	}
	return t
}

// priced omits the last column if no price is set.
func priced[T any](e *api.Energy, all []T) []T {
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
		return j.String()
	}
	return "-"
}
