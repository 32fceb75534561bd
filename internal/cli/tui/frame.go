package tui

import (
	"fmt"
	"strings"

	"github.com/berth-gpu/berth/internal/text/term"
)

// The smallest terminal that shows something useful, and the smallest width for panes
// side by side.
const (
	leastWidth  = 60
	leastHeight = 15
	wideFrom    = 150
)

// area is the place of a pane on the screen.
type area struct {
	pane          Pane
	x, y          int
	width, height int
}

// Frame writes the screen: exactly Height lines, each exactly Width columns wide.
func (s *State) Frame() []string {
	if s.Width < leastWidth || s.Height < leastHeight {
		return tooSmall(s.Width, s.Height)
	}
	lines := make([]string, 0, s.Height)
	fresh := look{colours: s.Colours}
	for _, l := range s.header() {
		lines = append(lines, fresh.paint(l.fit(s.Width)))
	}
	body := s.body()
	for len(body) < s.bodyHeight() {
		body = append(body, fresh.paint(line{}.fit(s.Width)))
	}
	if s.dialog != nil {
		s.over(body[:s.bodyHeight()])
	}
	lines = append(lines, body[:s.bodyHeight()]...)
	return append(lines, fresh.paint(s.footer().fit(s.Width)))
}

// tooSmall says that there is no room.
func tooSmall(width, height int) []string {
	lines := make([]string, max(height, 0))
	said := term.Wrap(fmt.Sprintf("The terminal is too small: %d×%d, and berth top needs %d×%d. berth status needs less. q quits.", width, height, leastWidth, leastHeight), width)
	for i := range lines {
		text := ""
		if i < len(said) {
			text = said[i]
		}
		lines[i] = look{}.paint(line{{text, ordinary}}.fit(width))
	}
	return lines
}

// bodyHeight returns the number of lines between the header and the footer.
func (s *State) bodyHeight() int { return max(0, s.Height-len(s.header())-1) }

// body writes the lines between the header and the footer.
func (s *State) body() []string {
	k := look{colours: s.Colours, old: s.lost != nil}
	if s.help >= 0 {
		return scroll(s.helpLines(s.Width), s.help, s.bodyHeight(), s.Width, look{colours: s.Colours})
	}
	if s.detail != nil {
		return scroll(s.detailLines(s.Width), s.detail.top, s.bodyHeight(), s.Width, k)
	}
	// Panes that stand side by side share a line of the screen.
	type piece struct {
		x    int
		text string
	}
	rows := make([][]piece, s.bodyHeight())
	edges := map[int]int{} // where each pane begins that is not at the left
	for _, a := range s.layout() {
		for i, text := range s.draw(a, k) {
			if i < a.height && a.y+i < len(rows) {
				rows[a.y+i] = append(rows[a.y+i], piece{a.x, text})
				edges[a.y+i] += a.width
			}
		}
	}
	lines := make([]string, len(rows))
	for i, pieces := range rows {
		for n, p := range pieces {
			if n > 0 {
				lines[i] += k.paint(line{{" │ ", faint}})
			}
			lines[i] += p.text
		}
		if len(pieces) > 1 {
			continue
		}
		lines[i] += strings.Repeat(" ", max(0, s.Width-edges[i]))
	}
	return lines
}

// scroll returns the visible part of a text.
func scroll(all []line, top, height, width int, k look) []string {
	var lines []string
	for _, l := range all[min(top, len(all)):min(top+height, len(all))] {
		lines = append(lines, k.paint(l.fit(width)))
	}
	return lines
}

// draw writes a pane: its heading and its rows.
func (s *State) draw(a area, k look) []string {
	by := s.sortedBy(a.pane)
	switch a.pane {
	case Devices:
		return s.drawDevices(a, k)
	case Leases:
		return list(s, a, s.leaseColumns(), s.leases, by, s.noLeases(), k)
	case Services:
		return list(s, a, s.serviceColumns(), s.services, by, s.none(len(s.allServices()), "service", "No service has a command."), k)
	case Queue:
		return list(s, a, s.queueColumns(), s.queue, by, s.none(len(s.waiting()), "request", "Nobody waits."), k)
	case Jobs:
		return list(s, a, s.jobColumns(), s.jobs, by, s.none(len(s.allJobs()), "job", "No job runs, waits or has just ended. berth submit -- COMMAND makes one."), k)
	case Processes:
		return list(s, a, s.processColumns(), s.processes, by, s.none(len(s.allProcesses()), "process", "No process uses a GPU."), k)
	case Users:
		return list(s, a, s.userColumns(), s.users, by, s.none(len(s.allUsers()), "user", "Nobody has anything."), k)
	}
	return s.drawEvents(a, k)
}

// none says why a list is empty: nothing of all matches the filter, or there is nothing.
func (s *State) none(all int, what, nothing string) string {
	if all > 0 {
		return "No " + what + " matches the filter; esc clears it."
	}
	return nothing
}

// sortedBy returns the title of the column that a pane is sorted by, or "" if it has one
// order.
func (s *State) sortedBy(p Pane) string {
	switch {
	case p == Leases:
		return s.leaseOrders()[s.order[p]].column
	case p == Processes:
		return s.processOrders()[s.order[p]].column
	case p == Devices && s.Several:
		return gpuOrders()[s.order[p]].column
	}
	return ""
}

// list writes a pane with columns. The text none stands in the place of rows if there are
// none.
func list[T any](s *State, a area, columns []column[T], rows []T, by, none string, k look) []string {
	kept := choose(columns, a.width-2)
	mark := "▼"
	if s.turned[a.pane] {
		mark = "▲"
	}
	head := join(line{{"  ", ordinary}}, headings(kept, by, mark, s.headTone(a.pane)))
	return s.fill(a, head, len(rows), none, k, func(i int) line { return cells(kept, rows[i]) })
}

// fill writes a heading and, as far as there is room, rows, and marks the chosen one.
func (s *State) fill(a area, head line, rows int, none string, k look, row func(i int) line) []string {
	lines := []string{k.paint(head.fit(a.width))}
	for i := s.top[a.pane]; i < rows && len(lines) < a.height; i++ {
		l := row(i)
		if below := rows - i - 1; below > 0 && len(lines) == a.height-1 {
			more := line{{fmt.Sprintf(" ▾ %d more below", below), warning}}
			l = join(l.trimmed().fit(max(0, a.width-2-more.columns())), more)
		}
		lines = append(lines, writeRow(l, i == s.marked(a.pane), a.width, k))
	}
	if rows == 0 && a.height > 1 {
		lines = append(lines, k.paint(line{{"  " + none, faint}}.fit(a.width)))
	}
	for len(lines) < a.height {
		lines = append(lines, k.paint(line{}.fit(a.width)))
	}
	return lines
}

// marked returns the index of the marked row of a pane. It returns -1 if keys go to
// another pane.
func (s *State) marked(p Pane) int {
	if s.pane != p {
		return -1
	}
	return s.at(p)
}

// writeRow writes a row, and marks it if it is chosen.
func writeRow(l line, chosen bool, width int, k look) string {
	mark := "  "
	if chosen {
		mark, k.marked = "▸ ", true
	}
	return k.paint(join(line{{mark, ordinary}}, l).fit(width))
}

// headTone returns the tone of a pane's heading.
func (s *State) headTone(p Pane) tone {
	if s.pane == p {
		return chosen
	}
	return title
}

// count writes how many rows a pane has, and how many match the filter.
func (s *State) count(shown, all int) string {
	if s.filter != "" {
		return fmt.Sprintf("%d of %d", shown, all)
	}
	return fmt.Sprint(all)
}
