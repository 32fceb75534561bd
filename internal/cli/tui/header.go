package tui

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/words"
)

// header names the machine, and what needs a person.
func (s *State) header() []line {
	lines := []line{s.titleLine()}
	if s.lost != nil {
		since := s.lost.since.In(s.Now.Location()).Format(time.TimeOnly)
		return append(lines, line{{" ✗ No answer from the daemon since " + since + " (" + words.Age(s.Now.Sub(s.lost.since)) + "); what you see is older. " + plain(s.lost.why), bad}})
	}
	if s.Local {
		lines = append(lines, line{{" ! No daemon runs (start one: berth serve): local GPUs, only to look at.", warning}})
	}
	if age := s.Now.Sub(s.facts.At); s.facts.Status != nil && age > 3*s.Interval+3*time.Second {
		lines = append(lines, line{{" ! The daemon takes its time: what you see is " + words.Age(age) + " old.", warning}})
	}
	needs := s.needs()
	most := max(1, s.Height/14)
	switch {
	case s.facts.Status == nil:
		return append(lines, line{{" asking the daemon …", faint}})
	case len(needs) == 0 && len(lines) == 1:
		return append(lines, line{{" ✓ ", good}, {"Nothing needs a person.", faint}})
	}
	for i, n := range needs {
		l := line{{" " + n.mark() + " ", n.tone}, {n.text, n.tone}}
		if i == most-1 && len(needs) > most {
			more := line{{fmt.Sprintf("  and %d more: !", len(needs)-most), strong}}
			return append(lines, join(l.fit(max(0, s.Width-more.columns())), more))
		}
		lines = append(lines, l)
	}
	return lines
}

// titleLine names the machine, and shows its time.
func (s *State) titleLine() line {
	left := line{{" berth top ", chosen}}
	version := s.Version
	if all := s.facts.Status; all != nil {
		version = cmp.Or(plain(all.Version), version)
		left = append(left, span{plain(all.Host), strong}, span{"  " + version, faint})
		left = append(left, span{"  " + s.summary(), ordinary})
	}
	right := line{{s.Now.Format(time.TimeOnly) + " ", strong}}
	return join(left.fit(max(0, s.Width-right.columns()-1)), line{{" ", ordinary}}, right)
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

// needs returns what the daemon says needs a person, the worst first.
func (s *machine) needs() []need {
	var list []need
	if s.facts.Refused != "" {
		list = append(list, need{warning, "The daemon does not tell the leases: " + plain(s.facts.Refused)})
	}
	if s.facts.Status == nil {
		return list
	}
	for _, n := range s.facts.Status.Needs {
		if n.Kind == "monitoring" && s.Local {
			continue // nobody measures
		}
		t := warning
		if n.Severity == gpu.Serious {
			t = bad
		}
		list = append(list, need{t, plain(view.Need(n, s.Now))})
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
	keys := [][2]string{{"tab", "pane"}, {"↑↓", "move"}, {"enter", "details"}, {"/", "filter"}, {"s", "sort"}, {"r", "release"}, {"p", "park"}, {"u", "resume"}, {"d", "drain"}, {"x", "processes"}, {"z", "zoom"}, {"?", "help"}, {"q", "quit"}}
	if s.detail != nil {
		keys = [][2]string{{"esc", "back"}, {"↑↓", "scroll"}, {"r", "release"}, {"p", "park"}, {"u", "resume"}, {"d", "drain"}, {"?", "help"}}
	}
	if s.help >= 0 {
		keys = [][2]string{{"esc", "back"}, {"↑↓", "scroll"}}
	}
	last := line{}
	switch {
	case s.detail != nil && s.detail.top+s.bodyHeight() < len(s.detailLines(s.Width)), s.help >= 0 && s.help+s.bodyHeight() < len(helpLines(s.Width)):
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
