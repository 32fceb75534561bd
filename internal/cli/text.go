package cli

import (
	"strings"
	"time"
	"unicode"

	"github.com/mattn/go-runewidth"

	"github.com/berth-gpu/berth/internal/words"
)

// columns counts how many columns a text takes on a terminal. The condition is
// fixed, so that a table looks the same under every locale.
func columns(s string) int { return plainWidth().StringWidth(s) }

// cut shortens a text to so many columns.
func cut(s string, width int) string {
	if columns(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	return plainWidth().Truncate(s, width, "…")
}

func plainWidth() *runewidth.Condition {
	return &runewidth.Condition{StrictEmojiNeutral: true}
}

// clean takes out what a terminal would act on: names of devices and processes
// come from outside and may hold anything. A text that would melt into the
// blanks around it, as one that begins with an accent does, is fenced off.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if columns(" "+s+" ") != columns(s)+2 {
		return "?" + s + "?"
	}
	return s
}

// cleanLines is clean for a text of several lines.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = clean(strings.ReplaceAll(line, "\t", "  "))
	}
	return strings.Join(lines, "\n")
}

// wrap breaks a text into lines of at most width columns. A word that is longer
// than a line stays whole, so that it can be copied, and so do a number and its
// unit.
func wrap(text string, width int) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n") {
		lines = append(lines, wrapOne(paragraph, width)...)
	}
	return lines
}

func wrapOne(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range unbroken(text) {
		switch {
		case line == "":
			line = word
		case columns(line)+1+columns(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// unbroken returns the parts of a text that may stand at the end of a line.
func unbroken(text string) []string {
	const longestUnit = 4
	var list []string
	for _, word := range strings.Fields(text) {
		if n := len(list); n > 0 && endsInDigit(list[n-1]) && columns(word) <= longestUnit {
			list[n-1] += " " + word
			continue
		}
		list = append(list, word)
	}
	return list
}

func endsInDigit(s string) bool {
	last := s[len(s)-1]
	return '0' <= last && last <= '9'
}

// span says how long something has lasted so far.
func span(d time.Duration) string { return words.Age(d) }

// plural writes a number with its noun.
func plural(n int, noun string) string { return words.Count(n, noun) }
