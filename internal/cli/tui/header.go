package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/words"
)

// header names the machine, and what needs a person.
func (s *State) header() []line {
	lines := []line{s.titleLine()}
	if s.lost != nil {
		return append(lines, s.lostLines()...)
	}
	if s.Local {
		lines = append(lines, line{{" ! No daemon runs (start one: berth serve): local GPUs, only to look at.", warning}})
	}
	if age := s.Now.Sub(s.facts.At); !s.facts.At.IsZero() && age > 3*s.Interval+3*time.Second {
		late := " ! The daemon takes its time: what you see is " + words.Age(age) + " old."
		if s.Several {
			late = " ! What you see is " + words.Age(age) + " old: " + cmp.Or(plain(s.Asking), "asking takes long") + "."
		}
		lines = append(lines, line{{late, warning}})
	}
	most := max(1, s.Height/14)
	switch {
	case s.facts.At.IsZero():
		return append(lines, line{{" " + cmp.Or(plain(s.Asking), "asking the daemon …"), faint}})
	case len(s.needs) == 0 && len(lines) == 1:
		return append(lines, line{{" ✓ ", good}, {"Nothing needs a person.", faint}})
	}
	for i, n := range s.needs {
		l := line{{" " + n.mark() + " ", n.tone}, {n.text, n.tone}}
		if i == most-1 && len(s.needs) > most {
			more := line{{fmt.Sprintf("  and %d more: !", len(s.needs)-most), strong}}
			return append(lines, join(l.fit(max(0, s.Width-more.columns())), more))
		}
		lines = append(lines, l)
	}
	return lines
}

// lostLines says since when nobody answers, and why.
func (s *State) lostLines() []line {
	since := s.lost.since.In(s.Now.Location()).Format(time.TimeOnly)
	if !s.Several {
		return []line{{{" ✗ No answer from the daemon since " + since + " (" + words.Age(s.Now.Sub(s.lost.since)) + "); what you see is older. " + plain(s.lost.why), bad}}}
	}
	lines := []line{{{" ✗ Nobody can be asked since " + since + "; what you see is older:", bad}}}
	for i, l := range wrapped(words.UpperFirst(plain(s.lost.why))+".", s.Width-4) {
		if i < 2 {
			lines = append(lines, line{{"   " + l, bad}})
		}
	}
	return lines
}

// titleLine names the machine, and shows its time.
func (s *State) titleLine() line {
	left := line{{" berth top ", chosen}}
	switch all := s.facts.Status; {
	case s.Several && s.facts.At.IsZero():
		left = append(left, span{" asking …", ordinary})
	case s.Several:
		left = append(left, span{" " + s.nodes.sum, ordinary})
	case all != nil:
		version := cmp.Or(plain(all.Version), s.Version)
		left = append(left, span{plain(all.Host), strong}, span{"  " + version, faint}, span{"  " + s.summary(), ordinary})
	}
	right := line{{s.Now.Format(time.TimeOnly) + " ", strong}}
	if all := s.facts.Status; all != nil && all.Machine != nil {
		host := span{fmt.Sprintf(" · load %.1f on %s, %s of memory free", all.Machine.Load, words.Count(all.Machine.CPUs, "CPU"), all.Machine.Available), faint}
		if more := append(left[:len(left):len(left)], host); more.columns()+right.columns() < s.Width-20 { // there is room for a hint too
			left = more
		}
	}
	if fresh, t := s.fresh(); fresh > 0 {
		right = join(line{{words.Count(fresh, "new event") + " ", t}}, right)
	}
	return join(left.fit(max(0, s.Width-right.columns()-1)), line{{" ", ordinary}}, right)
}

// fresh returns the number of events that the screen has not shown, and the tone of the
// worst of them.
func (s *State) fresh() (n int, t tone) {
	t = strong
	for _, e := range slices.Backward(s.events) {
		if e.ID <= s.seen {
			break
		}
		n++
		switch {
		case e.Severity == gpu.Serious:
			t = bad
		case e.Severity == gpu.Warning && t != bad:
			t = warning
		}
	}
	return n, t
}

// summary counts the objects on the machine.
func (s *machine) summary() string {
	text := words.Count(len(s.devices()), "GPU")
	var drawn gpu.Watts
	for _, d := range s.devices() {
		if d.Sample != nil && d.State != gpu.Unavailable && d.Device.Parent == "" {
			drawn += d.Sample.Power.Or(0)
		}
	}
	text += fmt.Sprintf(" · %.0f W", float64(drawn))
	if l := s.facts.Leases; l != nil {
		text += " · " + words.Count(len(l.Leases), "lease")
		if n := len(l.Waiting); n > 0 {
			text += fmt.Sprintf(" · %d waiting", n)
		}
	}
	return text
}

// need is something that needs the attention of a person.
type need struct {
	tone tone
	text string
}

func (n need) mark() string {
	if n.tone == bad {
		return "✗"
	}
	return "!"
}

// findNeeds returns what needs a person, the worst first: on one machine, the daemon
// says so.
func (s *machine) findNeeds() []need {
	var list []need
	add := func(isBad bool, text string) {
		switch {
		case isBad:
			list = append(list, need{bad, plain(text)})
		case text != "":
			list = append(list, need{warning, plain(text)})
		}
	}
	if s.facts.Refused != "" {
		add(false, "The daemon does not tell the leases: "+s.facts.Refused)
	}
	if s.facts.Status != nil {
		for _, n := range s.facts.Status.Needs {
			if n.Kind != "monitoring" || !s.Local { // with no daemon, nobody measures
				add(n.Severity == gpu.Serious, view.Need(n, s.Now))
			}
		}
	}
	for _, n := range s.nodes.all {
		text, isBad := view.Silence(n, s.Now)
		add(isBad, text)
	}
	for _, r := range s.nodes.rows {
		if r.GPU != nil {
			text, isBad := view.Complaint(*r.GPU, s.Now)
			add(isBad, text)
		}
	}
	slices.SortStableFunc(list, func(a, b need) int { return cmp.Compare(b.tone, a.tone) })
	return list
}

// footer shows the keys, the last result, or the filter.
func (s *State) footer() line {
	switch {
	case s.typing:
		return line{{" / ", chosen}, {plain(s.filter), strong}, {"▏", chosen}, {"  enter keeps the filter, esc clears it", faint}}
	case s.working != "":
		return line{{" … " + plain(s.working), warning}}
	case s.said != nil && s.dialog == nil:
		return join(line{{" ", ordinary}}, s.said)
	}
	keys := [][2]string{{"tab", "pane"}, {"↑↓", "move"}, {"enter", "details"}, {"/", "filter"}, {"s", "sort"}, {"c", "cancel"}, {"7", "processes"}, {"8", "users"}, {"r", "release"}, {"p", "park"}, {"u", "resume"}, {"d", "drain"}, {"x", "tree"}, {"z", "zoom"}, {"?", "help"}, {"q", "quit"}}
	switch {
	case s.help >= 0:
		keys = [][2]string{{"esc", "back"}, {"↑↓", "scroll"}}
	case s.detail != nil:
		keys = [][2]string{{"esc", "back"}, {"↑↓", "scroll"}, {"c", "cancel"}, {"r", "release"}, {"p", "park"}, {"u", "resume"}, {"d", "drain"}, {"?", "help"}}
	}
	if s.pane == Services && s.detail == nil || s.detail != nil && s.detail.pane == Services {
		keys = slices.DeleteFunc(keys, func(k [2]string) bool { return strings.Contains("psdx", k[0]) })
		for i, k := range keys {
			switch k[0] {
			case "c":
				keys[i][1] = "stop"
			case "r":
				keys[i][1] = "restart"
			case "u":
				keys[i][1] = "start"
			}
		}
	}
	if s.Several { // there is nothing to act on
		keys = slices.DeleteFunc(keys, func(k [2]string) bool { return strings.Contains("crpudx78", k[0]) })
	}
	last := line{}
	switch {
	case s.detail != nil && s.detail.top+s.bodyHeight() < len(s.detailLines(s.Width)), s.help >= 0 && s.help+s.bodyHeight() < len(s.helpLines(s.Width)):
		last = line{{"more below ", warning}}
	case s.detail == nil && s.help < 0 && s.filter != "":
		last = line{{"  filter: " + plain(s.filter) + " ", warning}}
	}
	room := s.Width - last.columns()
	keep := keys
	for {
		l := line{}
		for _, k := range keep {
			l = append(l, span{" " + k[0], strong}, span{" " + k[1] + " ", faint})
		}
		if l.columns() <= room || len(keep) < 3 {
			return join(l.fit(max(0, room)), last)
		}
		// Help and quit stay: help names the others.
		keep = append(keep[:len(keep)-3:len(keep)-3], keep[len(keep)-2:]...)
	}
}
