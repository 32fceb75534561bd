package tui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/words"
)

// queueColumns returns the columns for the waiting requests, and why they wait.
func (s *State) queueColumns() []column[api.Waiting] {
	return columnsOf(s.queue, view.QueueColumns(s.Now), itself, []column[api.Waiting]{
		{title: "#", least: 3, most: 3},
		{title: "ID", name: "WAITING " + s.count(len(s.queue), len(s.waiting())), least: 12, first: true, tone: strong},
		{title: "USER", least: 7, most: 12, drop: 4},
		{title: "ASKS FOR", least: 11, most: 20, drop: 3, cell: func(w api.Waiting, _ int) line { return text(asksFor(w), ordinary) }},
		{title: "WAITS", least: 6, most: 6, drop: 5},
		{title: "STARTS", least: 8, most: 8, right: true, drop: 2},
		{title: "WHY", least: 26, most: 400, drop: 1, cell: func(w api.Waiting, _ int) line { return text(s.shortReason(w), faint) }},
	})
}

// waiting returns the requests that wait.
func (s *machine) waiting() []api.Waiting {
	if s.facts.Leases == nil {
		return nil
	}
	return s.facts.Leases.Waiting
}

// shortReason says in a few words why a request waits: the limit that keeps it, or the
// obstacle on the device that comes nearest to having room. Of a request that the daemon
// has not explained yet, it says what the list tells.
func (s *machine) shortReason(w api.Waiting) string {
	e, known := s.reasons[requestOf(w).Key()]
	switch {
	case e.Limit != "":
		first, _, _ := strings.Cut(e.Text, ". ")
		return plain(view.LimitWords(e.Limit) + ": " + words.LowerFirst(strings.TrimSuffix(first, ".")))
	case w.Limit != "" && !known:
		return view.LimitWords(w.Limit)
	case !known && w.Estimate != nil && w.Estimate.Unknown != "":
		return plain(w.Estimate.Unknown)
	case !known:
		return "waits for a GPU"
	}
	why := e.Text
	if asked, obstacle, found := strings.Cut(why, ": "); found && strings.HasPrefix(asked, "Place ") {
		why = obstacle // the column beside this one has what it asks for
	}
	said := why
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
	if n := len(e.Devices); n > 1 && why != said {
		why += fmt.Sprintf("; %s", words.Form(n-1, "1 other GPU does not fit either", fmt.Sprintf("%d other GPUs do not fit either", n-1)))
	}
	if n := len(e.Behind); n > 0 {
		why += "; after " + words.Few(e.Behind, 2)
	}
	return plain(why)
}

// asksFor describes what a request waits for, in a column that has little room.
func asksFor(w api.Waiting) string { return strings.Replace(view.AsksFor(w), " and ", ", ", 1) }

// drawEvents writes the events, newest first.
func (s *State) drawEvents(a area, k look) []string {
	head := rule(line{{"  EVENTS " + s.count(len(s.news), len(s.events)), s.headTone(Events)}}, a.width, faint)
	return s.fill(a, head, len(s.news), s.none(len(s.events), "event", "Nothing happened yet."), k, func(i int) line { return s.eventLine(s.news[i]) })
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
