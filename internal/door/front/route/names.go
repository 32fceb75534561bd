package route

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Refusal is an answer that the front gives by itself.
type Refusal struct {
	Status  int
	Code    string
	Message string
	Retry   int // after how many seconds another try makes sense; 0 if not known
}

func (r *Refusal) Error() string { return r.Message }

func refuse(status int, code, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Names are the names by which requests mean a service.
type Names struct {
	Service string
	Models  []string // names of models; * stands for any characters
	Hosts   []string
}

// ByModel returns the service that a model means. An exact name wins, and then the longest
// pattern; among equals, the service that comes first.
func ByModel(services []Names, model string) (service string, ok bool) {
	best := -1
	for _, s := range services {
		if s.Service == model {
			return s.Service, true
		}
		for _, name := range s.Models {
			switch {
			case name == model:
				if best < exact {
					service, best = s.Service, exact
				}
			case len(name) > best && strings.Contains(name, "*") && match(name, model):
				service, best = s.Service, len(name)
			}
		}
	}
	return service, best >= 0
}

// exact is more than the length of any pattern.
const exact = 1 << 30

// ByHost returns the service that a host means.
func ByHost(services []Names, host string) (string, bool) {
	host, _, _ = strings.Cut(host, ":") // no service is named by an address
	for _, s := range services {
		if slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
			return s.Service, true
		}
	}
	return "", false
}

// Listed returns the names of models to list for these services: those without *, or the
// name of the service if it has none.
func Listed(services []Names) []string {
	var names []string
	for _, s := range services {
		own := slices.DeleteFunc(slices.Clone(s.Models), func(name string) bool { return strings.Contains(name, "*") })
		if len(own) == 0 {
			own = []string{s.Service}
		}
		names = append(names, own...)
	}
	slices.SortFunc(names, cmp.Compare)
	return slices.Compact(names)
}

// match reports whether a text matches a pattern in which * stands for any characters.
func match(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[last])
}
