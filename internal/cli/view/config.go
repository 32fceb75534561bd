package view

import (
	"fmt"
	"strconv"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
)

// ConfigFields shows every field of the configuration with its value and the source of
// the value, in a table of at most width columns.
func ConfigFields(fields []api.ConfigField, width int, p term.Painter) []string {
	t := &term.Table{Columns: []term.Column{{Title: "FIELD"}, {Title: "VALUE", Least: 12}, {Title: "FROM"}}}
	for _, f := range fields {
		from := term.Text(term.Clean(f.Source))
		if f.Source == "default" {
			from.Colour = term.Dim
		}
		t.Add(term.Text(term.Clean(f.Field)), term.Text(withUnit(f)), from)
	}
	return t.Lines(width, p)
}

// ConfigDocs adds the documentation of each field below its line.
func ConfigDocs(lines []string, fields []api.ConfigField, to term.Screen) []string {
	out := lines[:1:1]
	for i, f := range fields {
		out = append(out, lines[i+1], to.Hang(term.Plain, "    ", term.Clean(f.Doc)))
	}
	return out
}

// withUnit writes a value for people. Words such as "all of it" need no unit.
func withUnit(f api.ConfigField) string {
	if _, err := strconv.ParseFloat(f.Value, 64); err != nil || f.Unit == "" {
		return term.Clean(f.Value)
	}
	return f.Value + " " + term.Clean(f.Unit)
}

// Reloaded says what a reload of the configuration changed, and what it could not
// change.
func Reloaded(done api.ConfigReload, _ term.Screen) []string {
	var lines []string
	for _, change := range done.Changed {
		lines = append(lines, term.Clean(change))
	}
	if len(done.Changed) == 0 {
		lines = append(lines, "nothing has changed")
	}
	for _, o := range done.Overridden {
		line := fmt.Sprintf("%s stays %s (%s), although %s says %s", o.Field, o.Value, o.Source, o.File, o.InFile)
		if o.AtRunTime {
			line += ": berth config unset " + o.Field
		}
		lines = append(lines, term.Clean(line))
	}
	return lines
}
