// Package labels keeps the names of users and services that metrics show.
//
// A name keeps its label until the daemon restarts, and there are at most 50
// labels of each kind: every name beyond them is "other". So nobody can fill
// the memory of a Prometheus by making up names, and no counter ever moves from
// one label to another.
package labels

import (
	"maps"
	"slices"
	"sync"
)

// The limits.
const (
	most = 50 // labels of users, and of services
	// mostInvented is how many labels one user can take for services that the
	// configuration does not know: otherwise one user could take them all.
	mostInvented = 10
)

// Other is the label of every name that came too late.
const Other = "other"

// Keeper keeps the labels. Its zero value has none.
type Keeper struct {
	mu       sync.Mutex // guards what follows
	users    map[string]bool
	services map[string]bool
	invented map[string]int // by user: labels of services that are not configured
}

// Reserve gives each service of the configuration a label of its own, in the
// order of their names, for as long as there are any.
func (k *Keeper) Reserve(services []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range slices.Sorted(slices.Values(services)) {
		take(&k.services, name)
	}
}

// User returns the label of a user.
func (k *Keeper) User(name string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !take(&k.users, name) {
		return Other
	}
	return name
}

// Service returns the label of a service that a user names. Work under no
// service has the empty label.
func (k *Keeper) Service(name, user string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if name == "" || k.services[name] {
		return name
	}
	if k.invented[user] >= mostInvented || !take(&k.services, name) {
		return Other
	}
	if k.invented == nil {
		k.invented = map[string]int{}
	}
	k.invented[user]++
	return name
}

// take reports whether a name has a label, and gives it one if there is any
// left.
func take(names *map[string]bool, name string) bool {
	switch {
	case (*names)[name]:
		return true
	case len(*names) >= most:
		return false
	case *names == nil:
		*names = map[string]bool{}
	}
	(*names)[name] = true
	return true
}

// Users returns the users that have a label, in order.
func (k *Keeper) Users() []string { return k.list(&k.users) }

// Services returns the services that have a label, in order.
func (k *Keeper) Services() []string { return k.list(&k.services) }

func (k *Keeper) list(names *map[string]bool) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(*names))
}
