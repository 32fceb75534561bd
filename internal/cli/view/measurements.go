package view

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

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
		title := m.Name
		if m.Step != "" {
			title += " / " + m.Step
		}
		row := []term.Cell{term.Text(term.Clean(title)), term.Text(term.Clean(m.User)), term.Text(strconv.Itoa(m.Runs)), term.Text(orDash(m.Asked)), term.Text(orDash(m.Peak)),
			shareCell(m), term.Text(orDash(m.Next)), term.Text(Took(seconds(m.Seconds))), term.Text(words.Age(to.Now.Sub(m.Last)) + " ago")}
		if power {
			row = append(row, term.Text(optional(m.Drew, "%.0f W")))
		}
		t.Add(row...)
	}
	return t
}

func orDash(m gpu.MiB) string {
	if m == 0 {
		return "-"
	}
	return m.String()
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
