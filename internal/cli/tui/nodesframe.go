package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Frame writes the screen: exactly Height lines, each exactly Width columns wide.
func (s *Nodes) Frame() []string {
	if s.Width < leastWidth || s.Height < leastHeight {
		return tooSmall(s.Width, s.Height)
	}
	fresh := look{colours: s.Colours}
	lines := make([]string, 0, s.Height)
	for _, l := range s.header() {
		lines = append(lines, fresh.paint(l.fit(s.Width)))
	}
	lines = append(lines, s.body()...)
	for len(lines) < s.Height-1 {
		lines = append(lines, fresh.paint(line{}.fit(s.Width)))
	}
	return append(lines, fresh.paint(s.footer().fit(s.Width)))
}

func (s *Nodes) bodyHeight() int { return max(0, s.Height-len(s.header())-1) }

// header shows the totals, and what needs a person.
func (s *Nodes) header() []line {
	sum := " asking …"
	if !s.at.IsZero() {
		sum = " " + s.sum
	}
	right := line{{s.Now.Format(time.TimeOnly) + " ", strong}}
	left := line{{" berth top ", chosen}, {sum, ordinary}}
	lines := []line{join(left.fit(max(0, s.Width-right.columns()-1)), line{{" ", ordinary}}, right)}
	if s.lost != nil {
		since := s.lost.since.In(s.Now.Location()).Format(time.TimeOnly)
		lines = append(lines, line{{" ✗ Nobody can be asked since " + since + "; what you see is older:", bad}})
		for i, l := range wrapped(words.UpperFirst(plain(s.lost.why))+".", s.Width-4) {
			if i < 2 {
				lines = append(lines, line{{"   " + l, bad}})
			}
		}
		return lines
	}
	if age := s.Now.Sub(s.at); !s.at.IsZero() && age > 3*s.Interval+3*time.Second {
		lines = append(lines, line{{" ! What you see is " + words.Age(age) + " old: " + cmp.Or(plain(s.asking), "asking takes long") + ".", warning}})
	}
	needs, most := s.needs, max(1, s.Height/14)
	if len(needs) == 0 && len(lines) == 1 {
		if s.at.IsZero() {
			return append(lines, line{{" " + plain(s.asking), faint}})
		}
		return append(lines, line{{" ✓ ", good}, {"Nothing needs a person.", faint}})
	}
	for i, n := range needs {
		l := line{{" " + n.mark() + " " + n.text, n.tone}}
		if i == most-1 && len(needs) > most {
			more := line{{fmt.Sprintf("  and %d more: !", len(needs)-most), strong}}
			return append(lines, join(l.fit(max(0, s.Width-more.columns())), more))
		}
		lines = append(lines, l)
	}
	return lines
}

// summary counts the objects on the machines.
func (s *Nodes) summary() string {
	sum := fleet.Add(s.all.Nodes)
	text := words.Count(sum.Nodes, "node")
	if sum.Silent > 0 {
		text += fmt.Sprintf(", %d silent", sum.Silent)
	}
	return fmt.Sprintf("%s · %s · %s · %s/%s GiB leased", text, words.Count(sum.GPUs, "GPU"), words.Count(sum.Leases, "lease"), view.GiB(sum.Leased), view.GiB(sum.Total))
}

// findNeeds returns the needs of the machines, the worst first.
func (s *Nodes) findNeeds() []need {
	var worst, others []need
	add := func(text string, isBad bool) {
		if text == "" {
			return
		}
		if isBad {
			worst = append(worst, need{bad, plain(text)})
		} else {
			others = append(others, need{warning, plain(text)})
		}
	}
	for _, n := range s.all.Nodes {
		add(view.Silence(n, s.Now))
	}
	for _, d := range s.gpus {
		add(view.Complaint(d, s.Now))
	}
	return append(worst, others...)
}

// heights returns the number of lines of each pane.
func (s *Nodes) heights() [2]int {
	height := s.bodyHeight()
	if s.zoomed {
		all := [2]int{}
		all[s.pane] = height
		return all
	}
	devices := 1 + max(1, len(s.devices))
	leases := 1 + max(1, len(s.parts))
	if devices+leases > height {
		devices = min(devices, max(height/2, height-leases))
	}
	return [2]int{devices, height - devices}
}

// rows returns the number of visible rows of a pane.
func (s *Nodes) rows(p Pane) int { return max(1, s.heights()[p]-1) }

// body writes the panes, or the detail or help over them.
func (s *Nodes) body() []string {
	k := look{colours: s.Colours, old: s.lost != nil}
	switch {
	case s.help >= 0:
		return scroll(nodesHelp(s.Width), s.help, s.bodyHeight(), s.Width, look{colours: s.Colours})
	case s.detail != nil:
		return scroll(s.detailLines(s.Width), s.detail.top, s.bodyHeight(), s.Width, k)
	}
	var lines []string
	heights := s.heights()
	if heights[Devices] > 0 {
		by := nodeOrders()[s.order[Devices]].column
		lines = append(lines, list(s, Devices, "NODE", by, s.nodeColumns(), s.devices, s.allDevices(), heights[Devices], k)...)
	}
	if heights[Leases] > 0 {
		by := partOrders()[s.order[Leases]].column
		lines = append(lines, list(s, Leases, "LEASES "+s.count(), by, s.partColumns(), s.parts, len(s.leases), heights[Leases], k)...)
	}
	return lines
}

// count writes the number of leases, and how many match the filter. It counts leases
// because one with several devices has several rows.
func (s *Nodes) count() string {
	all, shown := 0, map[*api.PodLease]bool{}
	for _, p := range s.leases {
		all += bit(p.First)
	}
	if s.filter == "" {
		return fmt.Sprint(all)
	}
	for _, p := range s.parts {
		shown[p.PodLease] = true
	}
	return fmt.Sprintf("%d of %d", len(shown), all)
}

// allDevices returns the number of rows without a filter.
func (s *Nodes) allDevices() int {
	n := len(s.gpus)
	for _, each := range s.all.Nodes {
		if each.Status == nil || len(each.Status.GPUs) == 0 {
			n++
		}
	}
	return n
}

// list writes a pane: its heading and its rows.
func list[T any](s *Nodes, p Pane, name, by string, columns []column[T], rows []T, all, height int, k look) []string {
	head, mark := title, "▼"
	if s.pane == p {
		head = chosen
	}
	if s.turned[p] {
		mark = "▲"
	}
	kept := choose(columns, s.Width-2)
	if by == kept[0].heading {
		name += mark
	}
	kept[0].heading = name
	lines := []string{k.paint(join(line{{"  ", ordinary}}, headings(kept, by, mark, head)).fit(s.Width))}
	marked := -1
	if s.pane == p {
		marked = s.chosen(p)
	}
	for i := s.top[p]; i < len(rows) && len(lines) < height; i++ {
		lines = append(lines, writeRow(cells(kept, rows[i]), i == marked, s.Width, k))
	}
	if len(rows) == 0 && height > 1 {
		lines = append(lines, k.paint(line{{"  " + s.nothing(p, all), faint}}.fit(s.Width)))
	}
	for len(lines) < height {
		lines = append(lines, k.paint(line{}.fit(s.Width)))
	}
	return lines
}

// nothing says why a list is empty.
func (s *Nodes) nothing(p Pane, all int) string {
	switch {
	case s.at.IsZero():
		return "…"
	case all > 0:
		return "Nothing matches the filter; esc clears it."
	case p == Devices:
		return "No node."
	}
	return "Nobody holds a lease."
}

// footer shows the keys, or the filter.
func (s *Nodes) footer() line {
	switch {
	case s.typing:
		return line{{" / ", chosen}, {plain(s.filter), strong}, {"▏", chosen}, {"  enter keeps the filter, esc clears it", faint}}
	case s.said != nil:
		return join(line{{" ", ordinary}}, s.said)
	}
	keys := [][2]string{{"tab", "pane"}, {"↑↓", "move"}, {"enter", "details"}, {"/", "filter"}, {"s", "sort"}, {"z", "zoom"}, {"?", "help"}, {"q", "quit"}}
	if s.detail != nil || s.help >= 0 {
		keys = [][2]string{{"esc", "back"}, {"↑↓", "scroll"}}
	}
	var l line
	for _, k := range keys {
		l = append(l, span{" " + k[0], strong}, span{" " + k[1] + " ", faint})
	}
	switch {
	case s.detail != nil && s.detail.top+s.bodyHeight() < len(s.detailLines(s.Width)):
		l = append(l, span{" more below", warning})
	case s.filter != "" && s.detail == nil && s.help < 0:
		l = append(l, span{" filter: " + plain(s.filter), warning})
	}
	return l
}

// detailLines writes everything about the chosen row.
func (s *Nodes) detailLines(width int) []line {
	gone := []line{{}, {{"  It is not there any more. esc goes back.", warning}}}
	switch s.detail.pane {
	case Devices:
		for _, r := range s.devices {
			if r.key() == s.detail.key {
				return s.nodeDetail(r, width)
			}
		}
		return gone
	case Leases:
		for _, p := range s.parts {
			if partKey(p) == s.detail.key {
				return s.partDetail(p, width)
			}
		}
		return gone
	}
	lines := []line{{{" What needs a person", chosen}}, {}}
	for _, n := range s.needs {
		for i, l := range wrapped(n.text, width-5) {
			mark := "   "
			if i == 0 {
				mark = " " + n.mark() + " "
			}
			lines = append(lines, line{{mark, n.tone}, {l, ordinary}})
		}
	}
	if len(lines) == 2 {
		lines = append(lines, line{{"  Nothing.", faint}})
	}
	return lines
}

// nodeDetail writes a device and its machine.
func (s *Nodes) nodeDetail(r nodeRow, width int) []line {
	n := r.node
	heard := ""
	if !n.At.IsZero() {
		heard = n.At.In(s.Now.Location()).Format(time.DateTime) + ", " + words.Age(s.Now.Sub(n.At)) + " ago"
	}
	list := []fact{{"node", n.Name}, {"down", n.Down}, {"driver", n.Driver}, {"heard", heard}}
	if n.Status != nil {
		list = append(list, fact{"daemon", n.Status.Version}, fact{"host", n.Status.Host}, fact{"note", n.Status.Note})
	}
	if r.gpu == nil {
		return facts(" Node "+plain(view.Short(n.Name)), list, width)
	}
	d := *r.gpu
	m := view.MeasuredOn(d)
	used := "-"
	if v, known := m.MemoryUsed.Get(); known {
		used = view.GiB(fleet.Amount(v))
	}
	problem, _ := view.Complaint(d, s.Now)
	list = append(list, fact{"", " "}, fact{"GPU", d.Device.Name}, fact{"UUID", d.Device.UUID}, fact{"state", view.DeviceState(d)}, fact{"problem", problem},
		fact{"load", view.Number(m.Utilization, "%.0f%%")}, fact{"memory", fmt.Sprintf("%s of %s GiB used, %s GiB leased", used, view.GiB(fleet.Amount(m.MemoryTotal.Or(0))), view.GiB(d.Leased))},
		fact{"temperature", view.Number(m.Temperature, "%.0f°C")}, fact{"power", view.Number(m.Power, "%.0f W")},
		fact{"slots", fmt.Sprintf("%d of %d in use", d.Slots.Active, d.Slots.Capacity)}, fact{"", " "})
	for _, l := range d.Leases {
		list = append(list, fact{"held by", strings.Join(view.HeldBy(fleet.GPU{Leases: []*api.PodLease{l}}), ", ") + ", " + view.LeaseOf(l)})
	}
	return facts(fmt.Sprintf(" %s GPU %d", plain(view.Short(n.Name)), d.Device.Index), list, width)
}

// partDetail writes a lease.
func (s *Nodes) partDetail(p fleet.Part, width int) []line {
	var holds []string
	for _, each := range p.Parts {
		used := "not measured"
		if v, known := each.Measured.Get(); known {
			used = view.GiB(fleet.Amount(v)) + " GiB used"
		}
		holds = append(holds, fmt.Sprintf("%s GiB and %s on %s, %s", view.GiB(fleet.Amount(each.Memory)), words.Count(each.Slots, "slot"), each.GPU, used))
	}
	return facts(" "+plain(view.LeaseOf(p.PodLease))+" on "+plain(view.Short(p.Node)), []fact{
		{"node", p.Node}, {"pods", strings.Join(fleet.Pods(p.PodLease), ", ")}, {"claim", p.Claim}, {"lease", p.ID}, {"fence", fmt.Sprint(p.Fence)}, {"state", p.State},
		{"user", p.Holder.User}, {"service", p.Holder.Service}, {"name", p.Holder.Name}, {"holds", strings.Join(holds, "; ")},
		{"age", words.Age(s.Now.Sub(p.Granted)) + ", since " + p.Granted.In(s.Now.Location()).Format(time.DateTime)},
		{"enforced by", p.EnforcedBy}, {"scope", strings.Join(p.Scope, ", ")}, {"note", p.Note},
	}, width)
}

// nodesHelp explains the keys and the columns.
func nodesHelp(width int) []line {
	return facts(" Keys and columns; on several machines berth top only looks", []fact{
		{"tab, 1, 2", "go to the other pane, to the GPUs, or to the leases"},
		{"↑ ↓ j k", "move; pgup, pgdown, g and G move far"},
		{"enter", "show everything about what is chosen; esc goes back"},
		{"/", "show only GPUs and leases with this text in them: a node, a pod, gpu 2; esc clears it"},
		{"s, S", "sort the pane by another column; turn the order round"},
		{"z", "give the pane the whole screen, and back"},
		{"!", "list all that needs a person"},
		{"q, ctrl+c", "quit"},
		{"", " "},
		{"MEMORY bar", "█ used, ▒ leased beyond that, ░ free"},
		{"LEASED", "GiB that leases hold there"},
		{"(old)", "the daemon there does not answer: this is what it said last"},
		{"MEMORY GiB", "of a lease: used/leased; red: it uses more than it leased"},
	}, width)
}
