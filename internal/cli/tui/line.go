package tui

import (
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"

	"github.com/berth-gpu/berth/internal/text/term"
)

// tone is the meaning of a text, which decides its look.
type tone int

const (
	ordinary tone = iota
	faint         // less important
	strong        // what to see first
	title         // the heading of a pane
	chosen        // the heading of the pane that keys go to
	good
	warning
	bad
	load
	memory
	power
)

// span is a piece of a line in one tone.
type span struct {
	text string
	tone tone
}

// line is one line of the screen.
type line []span

// text returns a line in one tone.
func text(s string, t tone) line { return line{{s, t}} }

// columns returns the width of a line.
func (l line) columns() int {
	n := 0
	for _, s := range l {
		n += term.Columns(s.text)
	}
	return n
}

// fit cuts a line, or pads it with blanks, to exactly width columns.
func (l line) fit(width int) line {
	width = max(width, 0)
	if l.columns() > width {
		var cut line
		left := width
		for _, s := range l {
			if n := term.Columns(s.text); n < left {
				cut, left = append(cut, s), left-n
				continue
			}
			cut = append(cut, span{term.Cut(s.text+" ", left), s.tone}) // more follows, so it ends in an ellipsis
			break
		}
		l = cut
	}
	if missing := width - l.columns(); missing > 0 {
		l = append(l[:len(l):len(l)], span{strings.Repeat(" ", missing), ordinary})
	}
	return l
}

// trimmed returns a line without the blanks at its end.
func (l line) trimmed() line {
	for len(l) > 0 {
		last := l[len(l)-1]
		if last.text = strings.TrimRight(last.text, " "); last.text != "" {
			return append(l[:len(l)-1:len(l)-1], last)
		}
		l = l[:len(l)-1]
	}
	return l
}

// right pads a line with blanks on its left.
func (l line) right(width int) line {
	if missing := width - l.columns(); missing > 0 {
		return append(line{{strings.Repeat(" ", missing), ordinary}}, l...)
	}
	return l.fit(width)
}

// join concatenates lines.
func join(parts ...line) line {
	var all line
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// plain replaces characters that a terminal would act on, and characters that terminals
// draw in different widths: marks that join others, and characters that change the look
// of the one before.
func plain(s string) string {
	return term.Clean(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc, unicode.Cf), 0x1f1e6 <= r && r <= 0x1f1ff, 0x1f3fb <= r && r <= 0x1f3ff:
			return '?'
		}
		return r
	}, s))
}

// look decides how lines are written: in colours or without, and faint while they are
// old.
type look struct{ colours, old, marked bool }

// paint writes a line for a terminal.
func (k look) paint(l line) string {
	var b strings.Builder
	for _, s := range l {
		if !k.colours || s.text == "" {
			b.WriteString(s.text)
			continue
		}
		b.WriteString(k.style(s.tone).Render(s.text))
	}
	return b.String()
}

// style returns the style of a tone. The colours are those of the user's terminal, so
// that they can be read on every background.
func (k look) style(t tone) lipgloss.Style {
	style := lipgloss.NewStyle()
	if k.marked {
		return style.Reverse(true)
	}
	if k.old {
		return style.Faint(true)
	}
	colour := func(name string) lipgloss.Style { return style.Foreground(lipgloss.Color(name)) }
	switch t {
	case faint:
		return style.Faint(true)
	case strong:
		return style.Bold(true)
	case title:
		return style.Bold(true).Faint(true)
	case chosen:
		return colour("6").Bold(true)
	case good, load:
		return colour("2")
	case warning:
		return colour("3")
	case bad:
		return colour("1").Bold(true)
	case memory:
		return colour("4")
	case power:
		return colour("5")
	}
	return style
}
