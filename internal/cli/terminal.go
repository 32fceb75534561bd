package cli

import (
	"strconv"
	"strings"
	"time"
)

// usualWidth is for output that is no terminal.
const usualWidth = 80

// width is how many columns there are to fill.
func (a *app) width() int {
	if w, ok := a.Terminal(); ok && w > 0 {
		return w
	}
	if w, err := strconv.Atoi(a.Getenv("COLUMNS")); err == nil && w > 0 {
		return w
	}
	return usualWidth
}

func (a *app) isTerminal() bool {
	_, ok := a.Terminal()
	return ok
}

// errTerminal is the width of the terminal that Err is, and false where it is
// none that can be written over.
func (a *app) errTerminal() (width int, ok bool) {
	if a.ErrTerminal == nil || a.Getenv("TERM") == "dumb" {
		return 0, false
	}
	return a.ErrTerminal()
}

// colour is the code of a terminal for a way to write.
type colour string

const (
	plain  colour = ""
	bold   colour = "1"
	dim    colour = "2"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

// painter writes in colours, or not.
type painter bool

func (a *app) painter() painter {
	return painter(a.isTerminal() && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb")
}

func (p painter) paint(c colour, s string) string {
	if !p || c == plain || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// screen is what is written on, and when.
type screen struct {
	painter
	width int
	now   time.Time
}

func (a *app) screen() screen {
	return screen{painter: a.painter(), width: a.width(), now: a.Now()}
}

// hang writes a text beside its lead, line under line.
func (s screen) hang(c colour, lead, text string) string {
	const narrowest = 20 // below it, lines that run over read better
	indent := columns(lead)
	lines := wrap(text, max(s.width-indent, narrowest))
	return s.paint(c, lead) + strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}
