package promexport

import (
	"maps"
	"slices"
	"sync"
)

const (
	mostNames = 50 // labels of users, and of services
	// mostInvented limits the labels that one user can take for services that are not
	// in the configuration: otherwise one user could take them all.
	mostInvented = 10
)

// otherName is the label of every name that came too late.
const otherName = "other"

// Names keeps the names of users and services that metrics show. Its zero value has
// none.
//
// A name keeps its label until the daemon restarts. There are at most 50 labels of each
// kind, and every name beyond them is "other". So nobody can fill the memory of a
// Prometheus by making up names, and no counter ever moves from one label to another.
type Names struct {
	mu       sync.Mutex // guards what follows
	users    map[string]bool
	services map[string]bool
	invented map[string]int // by user: labels of services that are not configured
}

// Reserve gives each service of the configuration its own label, in the order of their
// names, while labels are left.
func (n *Names) Reserve(services []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range slices.Sorted(slices.Values(services)) {
		takeLabel(&n.services, name)
	}
}

// User returns the label of a user.
func (n *Names) User(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !takeLabel(&n.users, name) {
		return otherName
	}
	return name
}

// Service returns the label of a service that a user names. Work without a service has
// the empty label.
func (n *Names) Service(name, user string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name == "" || n.services[name] {
		return name
	}
	if n.invented[user] >= mostInvented || !takeLabel(&n.services, name) {
		return otherName
	}
	if n.invented == nil {
		n.invented = map[string]int{}
	}
	n.invented[user]++
	return name
}

// takeLabel reports whether a name has a label, and gives it one if any is left.
func takeLabel(names *map[string]bool, name string) bool {
	switch {
	case (*names)[name]:
		return true
	case len(*names) >= mostNames:
		return false
	case *names == nil:
		*names = map[string]bool{}
	}
	(*names)[name] = true
	return true
}

// Users returns the users that have a label, in order.
func (n *Names) Users() []string { return n.list(&n.users) }

// Services returns the services that have a label, in order.
func (n *Names) Services() []string { return n.list(&n.services) }

func (n *Names) list(names *map[string]bool) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(*names))
}
