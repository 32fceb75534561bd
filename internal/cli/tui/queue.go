package tui

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/words"
)

// drawQueue writes the waiting requests, and why they wait.
func (s *State) drawQueue(a area) (head line, rows []line) {
	all := s.queue
	total := 0
	if s.facts.Leases != nil {
		total = len(s.facts.Leases.Waiting)
	}
	columns := choose(s.queueColumns(), a.width-2)
	columns[1].heading = "WAITING " + s.count(len(all), total)
	head = join(line{{"  ", ordinary}}, headings(columns, "", "", s.headTone(Queue)))
	for i := s.top[Queue]; i < len(all) && len(rows) < a.height-1; i++ {
		rows = append(rows, cells(columns, all[i]))
	}
	if len(all) == 0 {
		none := "Nobody waits."
		if total > 0 {
			none = "No request matches the filter; esc clears it."
		}
		rows = append(rows, line{{none, faint}})
	}
	return head, rows
}

func (s *machine) queueColumns() []column[api.Waiting] {
	return []column[api.Waiting]{
		{heading: "#", least: 3, most: 3, right: true, cell: func(w api.Waiting, _ int) line { return text(strconv.Itoa(w.Position), ordinary) }},
		{heading: "WAITING", least: 12, most: 24, cell: func(w api.Waiting, _ int) line { return text(plain(w.ID), strong) }},
		{heading: "USER", least: 7, most: 12, drop: 4, cell: func(w api.Waiting, _ int) line { return text(plain(w.Holder.User), ordinary) }},
		{heading: "ASKS FOR", least: 11, most: 20, drop: 1, cell: func(w api.Waiting, _ int) line { return text(asksFor(w), ordinary) }},
		{heading: "WAITS", least: 6, most: 6, right: true, drop: 3, cell: func(w api.Waiting, _ int) line { return text(words.Age(s.Now.Sub(w.Since)), ordinary) }},
		{heading: "WHY", least: 30, most: 400, drop: 2, cell: func(w api.Waiting, _ int) line { return text(s.shortReason(w), faint) }},
	}
}

// shortReason says in a few words why a request waits: the obstacle on the device that
// comes nearest to having room.
func (s *machine) shortReason(w api.Waiting) string {
	e, known := s.reasons[requestOf(w).Key()]
	if !known {
		return ""
	}
	why := e.Text
	best, room := "", gpu.MiB(math.MinInt64)
	for _, r := range e.Ranking {
		if r.Available > room {
			best, room = r.GPU, r.Available
		}
	}
	for _, o := range e.Devices {
		if o.GPU == best {
			why = s.name(o.GPU) + " " + o.Text
		}
	}
	if n := len(e.Devices); n > 1 && why != e.Text {
		why += fmt.Sprintf("; %s", words.Form(n-1, "1 other GPU does not fit either", fmt.Sprintf("%d other GPUs do not fit either", n-1)))
	}
	if n := len(e.Behind); n > 0 {
		why = "after " + words.Few(e.Behind, 2) + "; " + why
	}
	return plain(why)
}

// asksFor describes what a request waits for.
func asksFor(w api.Waiting) string {
	asks := view.Amount(w.Memory, w.Slots)
	if w.Memory > 0 && w.Slots > 0 {
		asks = w.Memory.String() + ", " + words.Count(w.Slots, "slot")
	}
	switch {
	case w.For == "resume":
		return asks + ", to return"
	case w.For == "resize":
		return asks + " more"
	case w.GPUs > 1:
		return fmt.Sprintf("%d × %s", w.GPUs, asks)
	}
	return asks
}

// drawEvents writes the events, newest first.
func (s *State) drawEvents(a area) (head line, rows []line) {
	all := s.news
	head = line{{"  EVENTS " + s.count(len(all), len(s.events)), s.headTone(Events)}}
	head = rule(head, a.width, faint)
	for i := s.top[Events]; i < len(all) && len(rows) < a.height-1; i++ {
		rows = append(rows, s.eventLine(all[i]))
	}
	switch {
	case len(all) == 0 && len(s.events) > 0:
		rows = append(rows, line{{"No event matches the filter; esc clears it.", faint}})
	case len(all) == 0:
		rows = append(rows, line{{"Nothing happened yet.", faint}})
	}
	return head, rows
}

func (s *machine) eventLine(e gpu.Event) line {
	mark, t := "  ", ordinary
	switch e.Severity {
	case gpu.Warning:
		mark, t = "! ", warning
	case gpu.Serious:
		mark, t = "✗ ", bad
	}
	at := e.Time.In(s.Now.Location())
	clock := at.Format(time.TimeOnly)
	if s.Now.Sub(at) > 20*time.Hour {
		clock = at.Format("Jan _2  ")
	}
	return line{{clock + " ", faint}, {mark, t}, {string(e.Code) + " ", t}, {plain(e.Text), ordinary}}
}
