package console

import (
	"math"
	"strconv"

	"github.com/berth-gpu/berth/internal/text/term"
)

// usualWidth is for output that is no terminal.
const usualWidth = 80

// width returns how many columns there are to fill.
func (c *Console) width() int {
	if w, ok := c.Terminal(); ok && w > 0 {
		return w
	}
	if w, err := strconv.Atoi(c.Getenv("COLUMNS")); err == nil && w > 0 {
		return w
	}
	return usualWidth
}

func (c *Console) isTerminal() bool {
	_, ok := c.Terminal()
	return ok
}

// LiveWidth returns the width of the terminal that Err is, and false where it
// is none that can be written over.
func (c *Console) LiveWidth() (width int, ok bool) {
	if c.ErrTerminal == nil || c.Getenv("TERM") == "dumb" {
		return 0, false
	}
	return c.ErrTerminal()
}

// Screen returns what a view is written for: Out as it is now.
func (c *Console) Screen() term.Screen {
	colours := c.isTerminal() && c.Getenv("NO_COLOR") == "" && c.Getenv("TERM") != "dumb"
	return term.Screen{Painter: term.Painter(colours), Width: c.width(), Now: c.Now()}
}

// Uncut returns the screen without a right edge if Out is no terminal. Programs
// then find each line whole.
func (c *Console) Uncut() term.Screen {
	to := c.Screen()
	if !c.isTerminal() {
		to.Width = math.MaxInt
	}
	return to
}
