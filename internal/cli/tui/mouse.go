package tui

// Click chooses the row that was clicked on, and gives its pane the keys. A click on the
// row that is chosen shows everything about it. It answers no question, because a click
// is quickly made.
func (s *State) Click(x, y int) {
	defer s.settle()
	if s.typing || s.dialog != nil || s.help >= 0 || s.detail != nil {
		return
	}
	a, under := s.under(x, y)
	if !under {
		return
	}
	again := s.pane == a.pane
	s.pane = a.pane
	at := s.rowAt(a, x, y)
	if at < 0 || at >= len(s.keys[a.pane]) {
		return
	}
	if again && at == s.at(a.pane) {
		s.open()
		return
	}
	s.cursor[a.pane] = s.keys[a.pane][at]
}

// Wheel moves the choice of the pane under the pointer, or the text that is shown, by
// some lines.
func (s *State) Wheel(x, y, by int) {
	defer s.settle()
	const lines = 3 // of a notch
	switch {
	case s.typing || s.dialog != nil:
	case s.help >= 0:
		s.help = max(0, s.help+lines*by)
	case s.detail != nil:
		s.detail.top = max(0, s.detail.top+lines*by)
	default:
		if a, under := s.under(x, y); under {
			s.pane = a.pane
			s.step(lines * by)
		}
	}
}

// under returns the pane at a place of the screen.
func (s *State) under(x, y int) (area, bool) {
	y -= len(s.header())
	for _, a := range s.layout() {
		if x >= a.x && x < a.x+a.width && y >= a.y && y < a.y+a.height {
			return a, true
		}
	}
	return area{}, false
}

// rowAt returns the index of the row of a pane at a place of the screen. It is negative
// for the heading, and may be beyond the last row.
func (s *State) rowAt(a area, x, y int) int {
	line := y - len(s.header()) - a.y - 1
	if line < 0 {
		return -1
	}
	if a.pane == Devices && !s.Several {
		if c := s.cards(a.width, a.height); c.curves > 0 {
			return line/c.height*c.across + min((x-a.x)*c.across/max(1, a.width), c.across-1)
		}
	}
	return s.top[a.pane] + line
}
