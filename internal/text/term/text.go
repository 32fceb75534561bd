package term

import (
	"strings"
	"unicode"

	"github.com/clipperhouse/displaywidth"
)

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
