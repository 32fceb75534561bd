package view

import (
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Quota shows the limits of a user in a table, and how much of each is used. Limits
// that are used up are red.
type Quota struct{ api.Quota }

// Answer returns the answer of the daemon.
func (q *Quota) Answer() any { return q.Quota }

// Lines writes the table for a screen.
func (q *Quota) Lines(to term.Screen) []string {
	head := term.Clean(q.User)
	if q.Role != "" {
		head += ", " + term.Clean(q.Role)
	}
	if len(q.Limits) == 0 {
		return []string{head + ": no limits."}
	}
	t := &term.Table{Columns: []term.Column{
		{Title: "LIMIT ON", Least: 12}, {Title: "USED", Right: true}, {Title: "OF", Right: true}, {Title: "FROM", Least: 8},
	}}
	for _, l := range q.Limits {
		what := limited(l.Name)
		if l.Group != "" {
			what += " of group " + l.Group
		}
		used := term.Text("-")
		if l.Used.Known() {
			used.Text = amountOf(l.Name, l.Used)
		}
		if most, is := l.Limit.Get(); is && l.Used.Or(0) >= most && l.Used.Known() && most > 0 {
			used.Colour = term.Red
		}
		t.Add(term.Text(term.Clean(what)), used, term.Text(amountOf(l.Name, l.Limit)), term.Text(term.Clean(l.Source)))
	}
	lines := append([]string{head, ""}, t.Lines(to.Width, to.Painter)...)
	if q.Service != "" {
		lines = append(lines, "", to.Hang(term.Plain, "", term.Clean("Requests that name no service belong to "+q.Service+".")))
	}
	return lines
}

// limited says what a limit applies to. An unknown setting goes by its name.
func limited(setting string) string {
	name, known := map[string]string{
		"memory_mb": "memory", "waiting": "waiting requests", "calls_per_second": "calls a second", "streams": "event streams",
		"longest_wait_seconds": "longest wait", "longest_ttl_seconds": "longest ttl", "longest_time_seconds": "longest time",
	}[setting]
	if known {
		return name
	}
	return strings.ReplaceAll(setting, "_", " ")
}

// amountOf writes an amount in the unit of a setting. An absent amount means no limit.
func amountOf(setting string, amount gpu.Opt[float64]) string {
	n, known := amount.Get()
	switch {
	case setting == "named_leases" && amount.Or(1) == 0:
		return "no"
	case setting == "named_leases":
		return "yes"
	case !known:
		return "unlimited"
	case strings.HasSuffix(setting, "_mb"):
		return gpu.MiB(n).String()
	case strings.HasSuffix(setting, "_seconds") && n == 0:
		return "0 s"
	case strings.HasSuffix(setting, "_seconds"):
		return words.Duration(time.Duration(n * float64(time.Second)))
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}
