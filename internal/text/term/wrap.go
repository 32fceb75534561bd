package term

import (
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// Wrap breaks a text into lines of at most width columns. A word that is longer
// than a line stays whole, so that it can be copied, and so do a number and its
// unit, and what stands between two dots of a list.
func Wrap(text string, width int) []string { return hang("", "", text, width) }

// hang wraps a text: lead stands before its first line, and indent before every
// other.
func hang(lead, indent, text string, width int) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n") {
		lines = fill(lines, lead, indent, parts(paragraph, width-Columns(indent)), width)
		lead = indent
	}
	return lines
}

// Paragraph wraps a text as one paragraph, whatever lines it has: lead stands before its
// first line, and indent before every other. It may break after every word.
func Paragraph(lead, indent, text string, width int) []string {
	return fill(nil, lead, indent, strings.Fields(text), width)
}

// fill appends lines with as many words as fit, but at least one.
func fill(lines []string, lead, indent string, words []string, width int) []string {
	line, empty := lead, true
	for _, word := range words {
		if !empty && Columns(line)+1+Columns(word) > width {
			lines = append(lines, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return append(lines, line)
}

// parts returns the parts of a text that may end a line of at most width columns: where
// dots separate what it lists, each of those with its dot, unless that is longer than a line.
func parts(text string, width int) (list []string) {
	const dot = " ·"
	for part := range strings.SplitAfterSeq(text, dot+" ") {
		part = strings.TrimSpace(part)
		if strings.Contains(text, dot+" ") && Columns(part) <= width {
			list = append(list, part)
			continue
		}
		words := pieces(strings.TrimSuffix(part, dot))
		if n := len(words); n > 0 && strings.HasSuffix(part, dot) {
			words[n-1] += dot
		}
		list = append(list, words...)
	}
	return list
}

// pieces returns the parts of a text that may end a line.
func pieces(text string) []string {
	const longestUnit = 4
	var list []string
	for _, word := range strings.Fields(text) {
		if n := len(list); n > 0 && endsInDigit(list[n-1]) && Columns(word) <= longestUnit {
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

// fold breaks a text into lines of at most width columns: after blanks, arrows and
// underscores. It breaks a word that is longer than a line anywhere.
func fold(text string, width int) []string {
	if Columns(text) <= width && !strings.Contains(text, "\n") { // as most do, and the rest is slow
		return []string{strings.TrimRight(text, " ")}
	}
	var lines []string
	line := ""
	for piece := range strings.SplitSeq(strings.NewReplacer(" ", " \n", "→", "→\n", "_", "_\n").Replace(text), "\n") {
		if line != "" && Columns(line+strings.TrimRight(piece, " ")) > width {
			lines, line = append(lines, strings.TrimRight(line, " ")), ""
		}
		for line += piece; Columns(strings.TrimRight(line, " ")) > width; {
			head := displaywidth.TruncateString(line, width, "")
			lines, line = append(lines, head), line[len(head):]
		}
	}
	return append(lines, strings.TrimRight(line, " "))
}
