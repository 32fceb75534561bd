package console

import (
	"math"
	"strconv"

	"github.com/berth-gpu/berth/internal/text/term"
)

// usualWidth is the default width of output that is not a terminal.
const usualWidth = 80

// width returns the number of columns to fill.
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

// LiveWidth returns the width of the terminal that is Err. It returns false if Err is
// not a terminal that can be overwritten.
func (c *Console) LiveWidth() (width int, ok bool) {
	if c.ErrTerminal == nil || c.Getenv("TERM") == "dumb" {
		return 0, false
	}
	return c.ErrTerminal()
}

// Screen returns the screen that views are written for: Out in its present size.
func (c *Console) Screen() term.Screen {
	colours := c.isTerminal() && c.Getenv("NO_COLOR") == "" && c.Getenv("TERM") != "dumb"
	return term.Screen{Painter: term.Painter(colours), Width: c.width(), Now: c.Now()}
}

// Uncut returns the screen without a right edge if Out is not a terminal, so that
// programs get whole lines.
func (c *Console) Uncut() term.Screen {
	to := c.Screen()
	if !c.isTerminal() {
		to.Width = math.MaxInt
	}
	return to
}
