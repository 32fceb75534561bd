package tui

import (
	"fmt"
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
	return columnsOf(s.services, view.ServiceColumns(s.indexes(), s.Now), itself, []column[api.Service]{
		{title: "SERVICE", name: "SERVICES " + s.count(len(s.services), len(s.allServices())), least: 14, first: true, tone: strong},
		{title: "STATE", least: 9, most: 9},
		{title: "FOR", least: 6, most: 6, drop: 5},
		{title: "GPU", least: 4, most: 8},
		{title: "GiB", least: 5, most: 6, drop: 3},
		{title: "OPEN", least: 4, most: 5},
		{title: "WAIT", least: 4, most: 5, drop: 1},
		{title: "COMES", least: 6, most: 6, drop: 6},
		{title: "WHY", least: 16, most: 400, drop: 7, tone: faint},
	})
}

// chosenService returns the chosen service, or nil if none is chosen.
func (s *State) chosenService() *api.Service {
	key := s.chosenKey(Services)
	return find(s.allServices(), func(one *api.Service) bool { return key != "" && one.Name == key })
}

// serviceDetail writes everything about a service.
func (s *State) serviceDetail(one api.Service, width int) []line {
	said := (&view.Service{Service: one, Indexes: s.indexes()}).Lines(term.Screen{Width: width - 3, Now: s.Now})
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
