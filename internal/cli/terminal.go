package cli

import (
	"math"
	"strconv"

	"github.com/berth-gpu/berth/internal/term"
)

// usualWidth is for output that is no terminal.
const usualWidth = 80

// width returns how many columns there are to fill.
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

// errTerminal returns the width of the terminal that Err is, and false where it
// is none that can be written over.
func (a *app) errTerminal() (width int, ok bool) {
	if a.ErrTerminal == nil || a.Getenv("TERM") == "dumb" {
		return 0, false
	}
	return a.ErrTerminal()
}

// screen returns what a view is written for: Out as it is now.
func (a *app) screen() term.Screen {
	colours := a.isTerminal() && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
	return term.Screen{Painter: term.Painter(colours), Width: a.width(), Now: a.Now()}
}

// uncut returns the screen without a right edge if Out is no terminal. Programs
// then find each line whole.
func (a *app) uncut() term.Screen {
	to := a.screen()
	if !a.isTerminal() {
		to.Width = math.MaxInt
	}
	return to
}
