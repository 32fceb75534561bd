package users

import (
	"errors"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Numbers finds the ids of the users and groups that a configuration names. The database
// may be on a server that does not answer: a caller waits only for a moment, all lookups
// that hang share one goroutine, and Numbers keeps an answer that comes late.
type Numbers struct {
	Limit time.Duration // how long Find waits

	// lookup asks the database; nil means that of the system. Tests have one that hangs.
	lookup func(a account) (int, error)

	mu     sync.Mutex // guards what follows; nobody waits while holding it
	known  map[account]int
	asking chan struct{} // closed when the lookups under way end; nil if there are none
}

// account is a name in the database: "user alice" or "group staff".
type account string

func userAccount(name string) account  { return account("user " + name) }
func groupAccount(name string) account { return account("group " + name) }

// Find looks up the names that are not known yet or, with again, all of them: somebody
// else may have the id of an account that was removed. It returns those that are unknown:
// nobody has them, or the database has not answered. A number is its own id.
func (n *Numbers) Find(users, groups []string, again bool) (missing []string) {
	var all []account
	for _, name := range users {
		all = append(all, userAccount(name))
	}
	for _, name := range groups {
		all = append(all, groupAccount(name))
	}
	wanted := n.unknown(all)
	if again {
		wanted = slices.DeleteFunc(slices.Clone(all), isNumber)
	}
	if asking := n.ask(wanted); asking != nil {
		select {
		case <-asking:
		case <-time.After(n.Limit):
		}
	}
	for _, a := range n.unknown(all) {
		missing = append(missing, string(a))
	}
	return missing
}

// ask begins to look up names, unless lookups are under way already. It returns a channel
// that is closed when they end, or nil if there is nothing to look up.
func (n *Numbers) ask(names []account) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asking != nil || len(names) == 0 {
		return n.asking
	}
	lookup := n.lookup
	if lookup == nil {
		lookup = lookUpID
	}
	ended := make(chan struct{})
	n.asking = ended
	go func() {
		defer func() {
			n.mu.Lock()
			n.asking = nil
			n.mu.Unlock()
			close(ended)
		}()
		for _, a := range names {
			n.note(a, lookup)
		}
	}()
	return ended
}

// lookUpID asks the database of the system for an id. It may take forever.
func lookUpID(a account) (int, error) {
	kind, name, _ := strings.Cut(string(a), " ")
	if kind == "group" {
		g, err := user.LookupGroup(name)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(g.Gid)
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Uid)
}

// note asks for the id of a name. It keeps the last answer if there is none now.
func (n *Numbers) note(a account, lookup func(account) (int, error)) {
	id, err := lookup(a)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err == nil:
		if n.known == nil {
			n.known = map[account]int{}
		}
		n.known[a] = id
	case errors.As(err, new(user.UnknownUserError)) || errors.As(err, new(user.UnknownGroupError)):
		delete(n.known, a)
	}
}

// unknown returns the names that have no id yet.
func (n *Numbers) unknown(names []account) (missing []account) {
	for _, a := range names {
		if _, known := n.get(a); !known {
			missing = append(missing, a)
		}
	}
	return missing
}

func isNumber(a account) bool {
	_, is := a.number()
	return is
}

// number returns the id that a name is.
func (a account) number() (int, bool) {
	_, name, _ := strings.Cut(string(a), " ")
	id, err := strconv.Atoi(name)
	return id, err == nil && id >= 0
}

func (n *Numbers) get(a account) (int, bool) {
	if id, is := a.number(); is {
		return id, true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	id, known := n.known[a]
	return id, known
}

// User returns the id of a user that Find found.
func (n *Numbers) User(name string) (int, bool) { return n.get(userAccount(name)) }

// Group returns the id of a group that Find found.
func (n *Numbers) Group(name string) (int, bool) { return n.get(groupAccount(name)) }
