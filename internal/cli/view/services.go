package view

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Services shows the services whose programs berth runs.
type Services struct {
	api.Services
	GPUs GPUs
}

// Lines writes the table for a screen, and a sentence for each service that a person should
// know about.
func (s *Services) Lines(to term.Screen) []string {
	all := s.Services.Services
	if len(all) == 0 {
		return []string{to.Hang(term.Plain, "", "There is no service with a command. Give one a command in berth.yaml, under services; berth help models shows how.")}
	}
	lines := s.table(to).Lines(to.Width, to.Painter)
	for _, one := range all {
		if text, colour := serviceNote(one, to.Now); text != "" {
			lines = append(lines, to.Hang(colour, "! ", term.Clean(one.Name+" "+text)))
		}
	}
	return append(lines, "", to.Hang(term.Plain, "", serviceTotals(all)))
}

// table returns the richest table of the services that fits.
func (s *Services) table(to term.Screen) *term.Table {
	poor := []string{"MODELS", "GOES", "COMES", "GiB", "FOR"}
	return richest(to.Width, []layout{{}, {without: poor[:1]}, {without: poor[:3]}, {without: poor, least: map[string]int{"SERVICE": 12}}}, func(l layout) *term.Table {
		return tableIn(l, s.Services.Services, chosen(ServiceColumns(s.GPUs, to.Now), "SERVICE", "STATE", "FOR", "GPU", "GiB", "OPEN", "WAIT", "COMES", "GOES", "MODELS"))
	})
}

// ServiceColumns returns the columns of services, which run on these devices.
func ServiceColumns(x GPUs, now time.Time) []Column[api.Service] {
	return []Column[api.Service]{
		{term.Column{Title: "SERVICE", Fold: true}, func(s api.Service) term.Cell { return term.Text(term.Clean(s.Name)) }},
		{term.Column{Title: "STATE"}, serviceState},
		{term.Column{Title: "FOR", Right: true}, func(s api.Service) term.Cell { return term.Text(serviceAge(s, now)) }},
		{term.Column{Title: "GPU", Right: true}, func(s api.Service) term.Cell { return term.Text(x.indexes(s.Devices)) }},
		{term.Column{Title: "GiB", Right: true}, func(s api.Service) term.Cell {
			if m, known := s.Memory.Get(); known {
				return term.Text(gib(m))
			}
			return term.Text("all")
		}},
		{term.Column{Title: "OPEN", Right: true}, func(s api.Service) term.Cell { return term.Text(strconv.Itoa(s.Open)) }},
		{term.Column{Title: "WAIT", Right: true}, func(s api.Service) term.Cell { return term.Text(strconv.Itoa(s.Waiting)) }},
		{term.Column{Title: "COMES", Right: true}, func(s api.Service) term.Cell { return term.Text(serviceComes(s)) }},
		{term.Column{Title: "GOES", Right: true}, func(s api.Service) term.Cell { return term.Text(serviceGoes(s)) }},
		{term.Column{Title: "MODELS", Least: 8}, func(s api.Service) term.Cell { return term.Text(cmp.Or(term.Clean(strings.Join(s.Models, " ")), "-")) }},
		{term.Column{Title: "WHY"}, func(s api.Service) term.Cell { return term.Text(term.Clean(serviceWhy(s))) }},
	}
}

// serviceWhy says in a few words why a service is as it is.
func serviceWhy(s api.Service) string {
	switch {
	case s.Stopped != nil:
		return Join("by "+s.Stopped.By, s.Stopped.Why)
	case s.State == "failed" && s.Failure != nil:
		return s.Failure.Why
	}
	return s.Why
}

// serviceState returns the state of a service in a colour.
func serviceState(s api.Service) term.Cell {
	text := term.Clean(s.State)
	switch s.State {
	case "ready":
		return term.Painted(text, term.Green)
	case "failed":
		return term.Painted(text, term.Red)
	case "stopped", "waiting", "starting", "closing", "leaving", "returning":
		return term.Painted(text, term.Yellow)
	case "away", "parked", "asleep":
		return term.Painted(text, term.Dim)
	}
	return term.Text(text)
}

// serviceAge returns how long a service is in its state.
func serviceAge(s api.Service, now time.Time) string {
	if s.Since.IsZero() {
		return "-"
	}
	return words.Age(now.Sub(s.Since))
}

// serviceComes returns how long a service takes to come, as measured: from where it is
// now, or from where it would go.
func serviceComes(s api.Service) string {
	way := s.Goes
	switch s.State {
	case "away", "starting", "failed", "stopped":
		way = "stop"
	case "parked":
		way = "park"
	case "asleep":
		way = "sleep"
	}
	_, comes := waysOf(s, way)
	return brief(comes)
}

// serviceGoes returns how a service would go away, and how long that takes.
func serviceGoes(s api.Service) string {
	if s.Goes == "" {
		return "-"
	}
	goes, _ := waysOf(s, s.Goes)
	if goes.Count == 0 {
		return term.Clean(s.Goes)
	}
	return term.Clean(s.Goes) + " " + brief(goes)
}

// waysOf returns how long a service takes to go in a way, and to come back.
func waysOf(s api.Service, way string) (goes, comes api.ServiceTime) {
	switch way {
	case "park":
		return s.Took.Park, s.Took.Resume
	case "sleep":
		return s.Took.Sleep, s.Took.Wake
	}
	return s.Took.Stop, s.Took.Start
}

// brief writes how long something took, in at most six columns.
func brief(t api.ServiceTime) string {
	const minutes = 100
	switch {
	case t.Count == 0:
		return "-"
	case t.Seconds < 10:
		return fmt.Sprintf("%.1f s", t.Seconds)
	case t.Seconds < minutes:
		return fmt.Sprintf("%.0f s", t.Seconds)
	}
	return words.Age(time.Duration(t.Seconds * float64(time.Second)))
}

// serviceNote says what a person should know about a service.
func serviceNote(s api.Service, now time.Time) (string, term.Colour) {
	switch {
	case s.Stopped != nil:
		return stoppedBy(s, now), term.Yellow
	case s.State == "failed" && s.Failure != nil:
		return failureOf(*s.Failure, now), term.Red
	case (s.State == "waiting" || s.State == "returning") && s.Why != "":
		return "waits: " + s.Why, term.Yellow
	}
	return "", term.Plain
}

func stoppedBy(s api.Service, now time.Time) string {
	text := fmt.Sprintf("was stopped by %s %s ago", s.Stopped.By, words.Age(now.Sub(s.Stopped.At)))
	return text + given(": ", strings.TrimSuffix(s.Stopped.Why, ".")) + ". To start it: berth start " + words.Shell(s.Name)
}

// failureOf says how a service failed, and when it is started again.
func failureOf(f api.ServiceFailure, now time.Time) string {
	text := "failed"
	if f.Count > 1 {
		text += fmt.Sprintf(" %d times", f.Count)
	}
	text += ": " + strings.TrimSuffix(f.Why, ".")
	switch {
	case f.Next.IsZero():
	case f.Next.After(now):
		text += ". It starts again in " + words.Age(f.Next.Sub(now)) + ", if somebody asks"
	default:
		text += ". It starts again when somebody asks"
	}
	return text
}

// serviceTotals counts services by state, and their requests.
func serviceTotals(all []api.Service) string {
	counts, open, waiting := map[string]int{}, 0, 0
	for _, s := range all {
		counts[s.State]++
		open, waiting = open+s.Open, waiting+s.Waiting
	}
	parts := append([]string{words.Count(len(all), "service")},
		counted(counts, "ready", "starting", "returning", "waiting", "closing", "leaving", "parked", "asleep", "away", "failed", "stopped")...)
	if open > 0 {
		parts = append(parts, words.Count(open, "open request"))
	}
	if waiting > 0 {
		parts = append(parts, words.Count(waiting, "request")+words.Form(waiting, " waits", " wait"))
	}
	return strings.Join(parts, " · ")
}

// Service shows everything about one service.
type Service struct {
	api.Service
	Indexes GPUs
}

// Lines writes the service for a screen.
func (s *Service) Lines(to term.Screen) []string {
	state := serviceState(s.Service)
	since := ""
	if !s.Since.IsZero() {
		since = " for " + serviceAge(s.Service, to.Now)
	}
	lines := []string{to.Paint(term.Bold, term.Clean(s.Name)) + "  " + to.Paint(state.Colour, state.Text+since)}
	lines = append(lines, factLines(s.facts(to), 11, to)...)
	if s.Failure != nil && len(s.Failure.Log) > 0 {
		lines = append(lines, "", to.Paint(term.Dim, "  the last lines of its log:"))
		for _, line := range s.Failure.Log {
			lines = append(lines, to.Hang(term.Dim, "  | ", term.Clean(line)))
		}
	}
	return lines
}

func (s *Service) facts(to term.Screen) []fact {
	stopped, failed, last, port := "", "", "nothing since the front began", ""
	if s.Stopped != nil {
		stopped = stoppedBy(s.Service, to.Now)
	}
	if s.Failure != nil {
		failed = words.Age(to.Now.Sub(s.Failure.At)) + " ago, " + strings.TrimPrefix(failureOf(*s.Failure, to.Now), "failed ")
		failed = strings.ReplaceAll(failed, "ago, failed: ", "ago: ")
	}
	if !s.LastAnswer.IsZero() {
		last = moment(&s.LastAnswer, to.Now)
	}
	if s.Port > 0 {
		port = "127.0.0.1:" + strconv.Itoa(s.Port)
	}
	return []fact{
		{"why", s.Why},
		{"stopped", stopped},
		{"failed", failed},
		{"models", strings.Join(s.Models, ", ")},
		{"user", s.User},
		{"GPUs", s.devices()},
		{"memory", s.memory()},
		{"requests", s.requests()},
		{"callers", s.callers()},
		{"tokens", s.tokens()},
		{"answered", last},
		{"starts", startWord(s.Start)},
		{"goes", s.goes()},
		{"took", s.took()},
		{"switches", strconv.FormatUint(s.Switches, 10)},
		{"command", ShellLine(s.Command)},
		{"folder", s.Directory},
		{"log", s.Log},
		{"listens on", port},
		{"lease", s.Lease},
		{"minder", pidWord(s.PID)},
	}
}

func (s *Service) devices() string {
	var names []string
	for _, uuid := range s.Service.Devices {
		names = append(names, s.Indexes.Name(uuid))
	}
	if len(names) == 0 {
		return ""
	}
	return words.And(names)
}

func (s *Service) memory() string {
	m, known := s.Memory.Get()
	switch {
	case !known:
		return "a whole GPU, until berth has learned how much it uses"
	case s.Learned:
		return m.String() + ", learned from earlier runs"
	}
	return m.String()
}

func (s *Service) requests() string {
	parts := []string{fmt.Sprintf("%d since the start of the daemon", s.Requests)}
	for _, c := range []struct {
		n    uint64
		word string
	}{{s.Service.Failed, "failed"}, {s.Refused, "refused"}, {uint64(s.Open), "open"}, {uint64(s.Waiting), "waiting"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.word))
		}
	}
	return strings.Join(parts, ", ")
}

// callers says who has requests, and what they have used of the machine through services.
func (s *Service) callers() string {
	var list []string
	for _, c := range s.Callers {
		var has []string
		if c.Open > 0 {
			has = append(has, fmt.Sprintf("%d open", c.Open))
		}
		if c.Waiting > 0 {
			has = append(has, fmt.Sprintf("%d waiting", c.Waiting))
		}
		list = append(list, fmt.Sprintf("%s %s (used %.0f %% of the machine)", cmp.Or(c.User, "others"), strings.Join(has, ", "), 100*c.Used))
	}
	return strings.Join(list, "; ")
}

func (s *Service) tokens() string {
	if s.TokensIn+s.TokensOut == 0 {
		return ""
	}
	return fmt.Sprintf("%d read, %d written", s.TokensIn, s.TokensOut)
}

// startWord says when a service is started.
func startWord(start string) string {
	return cmp.Or(map[string]string{
		"on_demand": "when somebody asks for it", "always": "as soon as there is room", "never": "when a person starts it",
	}[start], start)
}

// goes says how a service is sent away.
func (s *Service) goes() string {
	switch {
	case s.Away == "auto" && s.Goes != "":
		return fmt.Sprintf("%s, chosen by berth%s", wayWord(s.Goes), given(": ", strings.TrimSuffix(s.GoesWhy, ".")))
	case s.Away == "auto":
		return "the way that berth finds shortest"
	case s.Goes != "" && s.Goes != s.Away:
		return fmt.Sprintf("%s instead of %s%s", wayWord(s.Goes), wayWord(s.Away), given(": ", strings.TrimSuffix(s.GoesWhy, ".")))
	}
	return wayWord(s.Away)
}

// wayWord says how a service goes away.
func wayWord(way string) string {
	return cmp.Or(map[string]string{"park": "parked", "sleep": "put to sleep", "stop": "stopped"}[way], way)
}

// took says how long its comings and goings took.
func (s *Service) took() string {
	var parts []string
	for _, t := range []struct {
		what string
		api.ServiceTime
	}{
		{"start", s.Took.Start}, {"stop", s.Took.Stop}, {"park", s.Took.Park}, {"resume", s.Took.Resume},
		{"sleep", s.Took.Sleep}, {"wake", s.Took.Wake},
	} {
		if t.Count > 0 {
			parts = append(parts, fmt.Sprintf("%s %s (%d×, last %.1f s)", t.what, brief(t.ServiceTime), t.Count, t.Last))
		}
	}
	return strings.Join(parts, ", ")
}

// ServiceStarted says what becomes of a service that a person starts.
func ServiceStarted(s api.Service, _ term.Screen) string {
	name := term.Clean(s.Name)
	switch s.State {
	case "ready":
		return name + " is ready"
	case "closing", "leaving":
		return fmt.Sprintf("%s is on its way out, and comes back when it is gone and there is room; to see how far it is: berth services %s --watch", name, words.Shell(name))
	case "waiting":
		return fmt.Sprintf("%s waits for room%s; to see how far it is: berth services %s --watch", name, given(": ", term.Clean(strings.TrimSuffix(s.Why, "."))), words.Shell(name))
	case "starting", "returning":
		return fmt.Sprintf("%s is on its way; to see how far it is: berth services %s --watch", name, words.Shell(name))
	case "away", "failed", "stopped", "parked", "asleep":
		return fmt.Sprintf("%s starts as soon as there is room; to see how far it is: berth services %s --watch", name, words.Shell(name))
	}
	return fmt.Sprintf("%s is %s; to see how far it is: berth services %s --watch", name, serviceState(s).Text, words.Shell(name))
}

// ServiceStopped says what becomes of a service that a person stops.
func ServiceStopped(s api.Service, _ term.Screen) string {
	name := term.Clean(s.Name)
	return name + " is stopped" + afterRequests(s) + ". Requests for it are refused until berth start " + words.Shell(name)
}

// ServiceRestarted says what becomes of a service that a person restarts.
func ServiceRestarted(s api.Service, _ term.Screen) string {
	return term.Clean(s.Name) + " is started again" + afterRequests(s)
}

// ServiceMoved says what becomes of a service that a person moves to a device.
func ServiceMoved(s api.Service, to string) string {
	return term.Clean(s.Name) + " goes to " + to + afterRequests(s)
}

// afterRequests says that open requests come first.
func afterRequests(s api.Service) string {
	if s.Open == 0 {
		return ""
	}
	return " when its " + words.Count(s.Open, "open request") + words.Form(s.Open, " has ended", " have ended")
}
