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
	"unicode"

	"github.com/clipperhouse/displaywidth"
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

// Columns returns the number of columns that a text takes on a terminal. The condition is
// fixed, so that a table looks the same under every locale.
func Columns(s string) int {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return displaywidth.String(s)
		}
	}
	return len(s)
}

// Cut shortens a text to at most width columns.
func Cut(s string, width int) string {
	if Columns(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	return displaywidth.TruncateString(s, width, "…")
}

// Clean replaces characters that a terminal would act on, because names of devices and
// processes come from outside and may hold anything. It separates a text from the blanks
// around it if the two would merge, for example because the text begins with an accent.
func Clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if Columns(" "+s+" ") != Columns(s)+2 {
		return "?" + s + "?"
	}
	return s
}

// CleanLines cleans a text of several lines.
func CleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Clean(strings.ReplaceAll(line, "\t", "  "))
	}
	return strings.Join(lines, "\n")
}
