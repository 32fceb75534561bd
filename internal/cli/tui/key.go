package tui

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// Want has the wishes of the user after a key. The zero value has none.
type Want struct {
	Quit    bool
	Suspend bool
	Act     *Act // for the daemon to carry out
}

// Press handles a key, by its name in the terminal library, and returns what the user
// wants.
func (s *State) Press(key string) Want {
	defer s.settle()
	switch {
	case key == "ctrl+c":
		return Want{Quit: true}
	case key == "ctrl+z":
		return Want{Suspend: true}
	case s.typing:
		s.typeFilter(key)
	case s.dialog != nil:
		return s.answer(key)
	case s.help >= 0:
		s.help = scrolled(s.help, key, s.bodyHeight())
		if slices.Contains([]string{"?", "esc", "q", "enter"}, key) {
			s.help = -1
		}
	case s.detail != nil:
		s.pressDetail(key)
	default:
		return s.pressList(key)
	}
	return Want{}
}

// Type handles a pasted character. It goes to the filter, or nowhere: a pasted text
// gives no orders.
func (s *State) Type(character string) {
	if s.typing {
		s.typeFilter(character)
		s.settle()
	}
}

// typeFilter handles a key for the filter.
func (s *State) typeFilter(key string) {
	s.filter, s.typing = typed(s.filter, key)
	s.top = [panes]int{}
}

// typed returns a filter after a key, and whether the next key is for the filter too.
func typed(filter, key string) (string, bool) {
	const longest = 40
	switch key {
	case "enter", "tab", "up", "down":
		return filter, false
	case "esc":
		return "", false
	case "ctrl+u":
		return "", true
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(filter)
		return filter[:len(filter)-size], true
	case "space":
		return filter + " ", true
	}
	if r, size := utf8.DecodeRuneInString(key); size == len(key) && unicode.IsPrint(r) && utf8.RuneCountInString(filter) < longest {
		filter += key
	}
	return filter, true
}

// steps returns how many rows a key moves the cursor in a list that shows page rows,
// and whether the key moves the cursor.
func steps(key string, page int) (by int, moves bool) {
	switch key {
	case "up", "k":
		return -1, true
	case "down", "j":
		return 1, true
	case "pgup", "ctrl+b", "ctrl+u":
		return -page, true
	case "pgdown", "ctrl+f", "ctrl+d", "space":
		return page, true
	case "home", "g":
		return -1 << 30, true
	case "end", "G":
		return 1 << 30, true
	}
	return 0, false
}

// pressList handles a key while the panes are shown.
func (s *State) pressList(key string) Want {
	if by, moves := steps(key, s.rows(s.pane)); moves {
		s.step(by)
		return Want{}
	}
	switch key {
	case "q":
		return Want{Quit: true}
	case "?", "h", "f1":
		s.help = 0
	case "tab", "right", "l":
		s.turn(1)
	case "shift+tab", "left":
		s.turn(-1)
	case "1", "2", "3", "4", "5", "6", "7", "8":
		if p := Pane(key[0] - '1'); s.has(p) {
			s.pane = p
			s.zoomed = s.zoomed || !s.shown(p)
		}
	case "/":
		s.typing = true
	case "esc":
		if s.filter == "" {
			s.zoomed = false
		}
		s.filter, s.said = "", nil
	case "s":
		s.sort()
	case "S":
		s.turned[s.sorted()] = !s.turned[s.sorted()]
	case "x":
		s.tree = !s.tree
	case "z":
		s.zoomed = !s.zoomed
	case "!":
		s.detail = &detail{pane: panes}
	case "enter":
		s.open()
	default:
		s.pressAct(key)
	}
	return Want{}
}

// has reports whether the screen has a pane.
func (s *State) has(p Pane) bool {
	return !s.Several && (p != Services || len(s.allServices()) > 0) && (p != Jobs || len(s.allJobs()) > 0) || p <= Leases
}

// sorted returns the pane that the keys for sorting are for: on one machine, only leases
// and processes can be sorted.
func (s *State) sorted() Pane {
	if s.Several || s.pane == Processes {
		return s.pane
	}
	return Leases
}

// sort sorts a pane by its next order.
func (s *State) sort() {
	p := s.sorted()
	s.turned[p] = false
	orders := map[Pane]int{Devices: len(gpuOrders()), Leases: len(s.leaseOrders()), Processes: len(s.processOrders())}[p]
	if s.order[p] = (s.order[p] + 1) % orders; p == Leases && !s.Several {
		s.say(ordinary, "Leases are sorted by "+s.sortedBy(p)+". S turns the order round.")
	}
}

// pressDetail handles a key while a detail is shown.
func (s *State) pressDetail(key string) {
	switch key {
	case "esc", "q", "enter", "backspace", "left":
		s.detail = nil
	case "?":
		s.help = 0
	case "tab":
		s.detail = nil
		s.turn(1)
	default:
		if to := scrolled(s.detail.top, key, s.bodyHeight()); to != s.detail.top {
			s.detail.top = to
		} else {
			s.pressAct(key)
		}
	}
}

// scrolled returns the offset of a text after a key; settle limits it to the end.
func scrolled(top int, key string, page int) int {
	by, _ := steps(key, page)
	return max(0, top+by)
}

// turn gives the keys to the next visible pane.
func (s *State) turn(by int) {
	at := slices.Index(downward[:], s.pane)
	for range panes {
		at = (at + len(downward) + by) % len(downward)
		s.pane = downward[at]
		if s.has(s.pane) && (s.zoomed || s.shown(s.pane)) {
			return
		}
	}
}

// step moves the choice by rows, as far as there are any.
func (s *State) step(by int) {
	keys := s.keys[s.pane]
	if len(keys) == 0 {
		return
	}
	s.cursor[s.pane] = keys[min(max(s.at(s.pane)+by, 0), len(keys)-1)]
}

// open shows everything about the chosen row.
func (s *State) open() {
	at := s.at(s.pane)
	if at < 0 {
		return
	}
	key := s.keys[s.pane][at]
	if s.pane == Leases && s.leases[at].process != nil {
		key = leaseKey(s.leases[at].lease)
	}
	s.detail = &detail{pane: s.pane, key: key}
}

// settle scrolls each pane so that its choice is visible, and ends states that are no
// longer possible. The choice of the first event stays on the first row: new events
// move under it.
func (s *State) settle() {
	s.sift()
	for p := range panes {
		keys := s.keys[p]
		at, height, all := s.at(p), s.rows(p), len(keys)
		switch {
		case at < 0:
			s.cursor[p], s.place[p] = "", 0
		case p == Events && at == 0:
			s.cursor[p], s.place[p] = "", 0
		case s.cursor[p] != "":
			s.cursor[p], s.place[p] = keys[at], at
		}
		s.top[p] = max(0, min(s.top[p], all-height))
		if at >= 0 {
			s.top[p] = min(s.top[p], at)
			s.top[p] = max(s.top[p], min(at+1, all-1)-height+1) // the last row may say how many follow
			s.top[p] = min(s.top[p], at)
		}
	}
	if newest := len(s.events); newest > 0 && s.news != nil && s.top[Events] == 0 && s.detail == nil && s.help < 0 && s.shown(Events) {
		s.seen = max(s.seen, s.events[newest-1].ID)
	}
	if !s.zoomed && !s.shown(s.pane) {
		s.pane = Leases
	}
	if s.detail != nil {
		s.detail.top = max(0, min(s.detail.top, len(s.detailLines(s.Width))-s.bodyHeight()))
	}
	if s.help >= 0 {
		s.help = max(0, min(s.help, len(s.helpLines(s.Width))-s.bodyHeight()))
	}
}
