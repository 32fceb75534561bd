package tui

import (
	"strings"

	"github.com/berth-gpu/berth/internal/text/term"
)

// over draws the dialog over the middle of the lines of the body.
func (s *State) over(body []string) {
	k := look{colours: s.Colours}
	width := min(s.Width-4, 72)
	box := s.box(width)
	if len(box) > len(body) {
		box = append(box[:len(body)-1:len(body)-1], box[len(box)-1])
	}
	top, left := (len(body)-len(box))/2, (s.Width-width)/2
	for i, l := range box {
		body[top+i] = strings.Repeat(" ", left) + k.paint(l.fit(width)) + strings.Repeat(" ", s.Width-left-width)
	}
}

// box writes the dialog with its border.
func (s *State) box(width int) []line {
	d, t := s.dialog, chosen
	if d.bad {
		t = bad
	}
	name := " " + term.Cut(d.title, width-6) + " "
	lines := []line{{{"╭─", t}, {name, strong}, {strings.Repeat("─", max(0, width-3-term.Columns(name))) + "╮", t}}}
	inside := func(l line) { lines = append(lines, join(line{{"│ ", t}}, l.fit(width-4), line{{" │", t}})) }
	for _, paragraph := range d.text {
		for _, l := range wrapped(paragraph, width-4) {
			inside(line{{l, ordinary}})
		}
	}
	inside(nil)
	if d.act == nil {
		inside(line{{"any key", strong}, {" goes on", faint}})
	} else {
		inside(line{{"y", strong}, {" " + d.act.Verb + "   ", ordinary}, {"n", strong}, {" change nothing", ordinary}})
	}
	return append(lines, line{{"╰" + strings.Repeat("─", width-2) + "╯", t}})
}

// helpLines explains the keys and the columns.
func (s *State) helpLines(width int) []line {
	const moving, all, zoom, needs = "move; pgup, pgdown, g and G move far", "show everything about what is chosen; esc goes back", "give the pane the whole screen, and back", "list all that needs a person"
	if s.Several {
		return facts(" Keys and columns; on several machines berth top only looks", []fact{
			{"tab, 1, 2", "go to the other pane, to the GPUs, or to the leases"}, {"↑ ↓ j k", moving}, {"enter", all},
			{"/", "show only GPUs and leases with this text in them: a node, a pod, gpu 2; esc clears it"},
			{"s, S", "sort the pane by another column; turn the order round"}, {"z", zoom}, {"!", needs}, {"q, ctrl+c", "quit"}, {"", " "},
			{"MEMORY bar", "█ used, ▒ leased beyond that, ░ free"}, {"LEASED", "GiB that leases hold there"},
			{"(old)", "the daemon there does not answer: this is what it said last"},
			{"MEMORY GiB", "of a lease: used/leased; red: it uses more than it leased"},
		}, width)
	}
	list := []fact{
		{"tab, 1 … 8", "go to the next pane, or to GPUs, leases, queue, events, services, jobs, processes, users; one without a place gets the whole screen, and esc goes back"},
		{"↑ ↓ j k", moving},
		{"enter", all},
		{"mouse", "a click chooses, a click on what is chosen opens it, the wheel moves"},
		{"/", "show only leases, requests, services, jobs, processes, users and events with this text in them; esc clears it"},
		{"s, S", "sort leases, or processes, by another column; turn the order round"},
		{"x", "show the processes under their leases"},
		{"z", zoom},
		{"!", needs},
		{"r", "release the lease that is chosen, or withdraw the request"},
		{"c", "cancel it: end its programs, and the lease with them; of a job its command"},
		{"p, u", "park a lease: move its memory to the machine's; resume it"},
		{"d", "drain the GPU that is chosen, or use it again"},
		{"u, c, r", "of a service: start it, stop it until somebody starts it, restart it"},
		{"q, ctrl+c", "quit"},
		{"", " "},
		{"MEMORY bar", "█ used, ▒ leased beyond that, ░ free"},
		{"MEMORY GiB", "used/asked for; red: it uses more than it asked for"},
		{"USED", "which part of what it asked for a lease uses; yellow: less than a quarter"},
		{"STATE", "of a lease: active, idle, parking, parked, resuming, or the share that it is held to"},
		{"(no lease)", "a process that uses a GPU under no lease: an orphan had one, a foreign one never did"},
		{"UNTIL", "what ends the lease: a time, the end of a process, or only a release"},
		{"OPEN, WAIT", "of a service: requests that it answers, and that wait for it"},
		{"COMES", "how long a service takes until it answers, as measured"},
		{"CPU, RAM", "what a process takes of this machine: percent of one processor, and resident memory; - for what the daemon or the machine does not tell"},
		{"JOBS", "of a user: those that run + those that wait"},
		{"ENFORCED", "what keeps the lease to its memory"},
	}
	return facts(" Keys and columns; each change is confirmed before it is made", list, width)
}
