package tui

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// serviceRows returns the services that match the filter.
func (s *State) serviceRows() []api.Service {
	var list []api.Service
	for _, one := range s.allServices() {
		if s.matches(append([]string{one.Name, one.User, one.State}, one.Models...)...) {
			list = append(list, one)
		}
	}
	return list
}

// allServices returns the services whose programs the daemon runs.
func (s *machine) allServices() []api.Service {
	if s.facts.Services == nil {
		return nil
	}
	return s.facts.Services.Services
}

func (s *State) serviceColumns() []column[api.Service] {
	return []column[api.Service]{
		{heading: "SERVICE", name: "SERVICES " + s.count(len(s.services), len(s.allServices())), least: 14, most: idWidth(s.services, 14, func(one api.Service) string { return one.Name }), first: true, cell: func(one api.Service, _ int) line { return text(plain(one.Name), strong) }},
		{heading: "STATE", least: 9, most: 9, cell: func(one api.Service, _ int) line { return text(plain(one.State), serviceTone(one)) }},
		{heading: "FOR", least: 6, most: 6, right: true, drop: 5, cell: func(one api.Service, _ int) line { return text(view.ServiceAge(one, s.Now), ordinary) }},
		{heading: "GPU", least: 4, most: 8, cell: func(one api.Service, _ int) line { return text(s.devicesIn(one.Devices), ordinary) }},
		{heading: "GiB", least: 5, most: 6, right: true, drop: 3, cell: func(one api.Service, _ int) line { return text(view.ServiceMemory(one), ordinary) }},
		{heading: "OPEN", least: 4, most: 5, right: true, cell: func(one api.Service, _ int) line { return text(strconv.Itoa(one.Open), ordinary) }},
		{heading: "WAIT", least: 4, most: 5, right: true, drop: 1, cell: func(one api.Service, _ int) line { return text(strconv.Itoa(one.Waiting), ordinary) }},
		{heading: "COMES", least: 6, most: 6, right: true, drop: 6, cell: func(one api.Service, _ int) line { return text(view.ServiceComes(one), ordinary) }},
		{heading: "WHY", least: 16, most: 400, drop: 7, cell: func(one api.Service, _ int) line { return text(serviceWhy(one), faint) }},
	}
}

func serviceTone(one api.Service) tone {
	switch one.State {
	case "ready":
		return good
	case "failed":
		return bad
	case "away", "parked", "asleep":
		return faint
	}
	return warning
}

// serviceWhy says in a few words why a service is as it is.
func serviceWhy(one api.Service) string {
	switch {
	case one.Stopped != nil:
		return plain(view.Join("by "+one.Stopped.By, one.Stopped.Why))
	case one.State == "failed" && one.Failure != nil:
		return plain(one.Failure.Why)
	}
	return plain(one.Why)
}

// noServices says why the list is empty.
func (s *State) noServices() string {
	if len(s.allServices()) > 0 {
		return "No service matches the filter; esc clears it."
	}
	return "No service has a command."
}

// chosenService returns the chosen service, or nil if none is chosen.
func (s *State) chosenService() *api.Service {
	key := ""
	if d := s.detail; d != nil {
		if d.pane != Services {
			return nil
		}
		key = d.key
	} else if at := s.at(Services); s.pane == Services && at >= 0 {
		key = s.keys[Services][at]
	}
	all := s.allServices()
	for i := range all {
		if all[i].Name == key {
			return &all[i]
		}
	}
	return nil
}

// serviceDetail writes everything about a service.
func (s *State) serviceDetail(one api.Service, width int) []line {
	shown := view.Service{Service: one}
	if s.facts.Status != nil {
		shown.Indexes = view.GPUsOf(*s.facts.Status)
	}
	said := shown.Lines(term.Screen{Width: width - 3, Now: s.Now})
	return append([]line{{{" Service " + plain(one.Name), chosen}}, {}}, block(said)...)
}

// askService asks whether to start, stop or restart a service.
func (s *State) askService(key string, one *api.Service) {
	name := plain(one.Name)
	verb := map[string]string{"u": "start", "c": "stop", "r": "restart"}[key]
	requests := ""
	if one.Open > 0 {
		requests = fmt.Sprintf(" %s %s first.", words.Count(one.Open, "open request"), words.Form(one.Open, "ends", "end"))
	}
	text := ""
	switch {
	case verb == "":
		s.say(warning, "That is not for services. u starts one, c stops it, r restarts it.")
		return
	case verb == "start" && one.Stopped == nil && one.State == "ready":
		s.say(warning, name+" is ready already.")
		return
	case verb == "stop" && one.Stopped != nil:
		s.say(warning, name+" is stopped already.")
		return
	case verb == "start":
		text = "It starts as soon as there is room. Requests for it wait until it is ready."
	case verb == "stop":
		text = "Its program ends, and requests for it are refused until somebody starts it, also after a restart of the daemon." + requests
	case verb == "restart":
		text = "Its program ends and starts again. Requests for it wait meanwhile." + requests
	}
	s.dialog = &dialog{title: strings.ToUpper(verb[:1]) + verb[1:] + " " + name + "?", act: &Act{Verb: verb, Service: one.Name, About: name},
		text: []string{text, "The same: berth " + verb + " " + plain(words.Shell(one.Name))}}
}
