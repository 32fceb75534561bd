// Package term writes for terminals: tables, bars, wrapped text, colours and
// lines that are drawn again and again.
//
// It asks no terminal anything: callers give it a writer, the width, and
// whether there are colours.
//
// Pure: no clock, no I/O.
package term

import (
	"strings"
	"time"
)

// Colour is the code that makes a terminal change colour or weight.
type Colour string

// The colours, and two weights of writing.
const (
	Plain  Colour = ""
	Bold   Colour = "1"
	Dim    Colour = "2"
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
)

// Painter writes in colour if it is true.
type Painter bool

// Paint returns the text in a colour.
func (p Painter) Paint(c Colour, text string) string {
	if !p || c == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Screen describes the screen of a view: its colours, its width in columns, and the
// present time.
type Screen struct {
	Painter
	Width int
	Now   time.Time
}

// Hang writes a text beside its lead, with its lines aligned.
func (s Screen) Hang(c Colour, lead, text string) string {
	const narrowest = 20 // columns for the text; below that, lines that wrap read better
	indent := Columns(lead)
	lines := hang(lead, strings.Repeat(" ", indent), text, max(s.Width, indent+narrowest))
	lines[0] = s.Paint(c, lead) + lines[0][len(lead):]
	return strings.Join(lines, "\n")
}
