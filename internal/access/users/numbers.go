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
// may be on a server that does not answer: a caller waits only for a moment, a few lookups
// run side by side so that one that hangs does not keep the others from their answers, and
// Numbers keeps an answer that comes late.
type Numbers struct {
	Limit time.Duration // how long Find waits

	// lookup asks the database; nil means that of the system. Tests have one that hangs.
	lookup func(a account) (int, error)

	mu      sync.Mutex // guards what follows; nobody waits while holding it
	known   map[account]int
	asking  map[account]chan struct{} // closed when the lookup ends; of the names in queue, and of those under way
	queue   []account
	workers int // goroutines that look up what is in queue
}

// maxNumberLookups limits the lookups of Numbers under way, each of which may take a thread
// of the operating system for as long as it hangs.
const maxNumberLookups = 16

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
	enough := time.After(n.Limit)
	for _, answered := range n.ask(wanted) {
		select {
		case <-answered:
			continue
		case <-enough:
		}
		break
	}
	for _, a := range n.unknown(all) {
		missing = append(missing, string(a))
	}
	return missing
}

// ask begins to look up names, unless their lookups are under way already. It returns
// channels that are closed when they end.
func (n *Numbers) ask(names []account) (answered []<-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range names {
		if n.asking[a] == nil {
			if n.asking == nil {
				n.asking = map[account]chan struct{}{}
			}
			n.asking[a] = make(chan struct{})
			n.queue = append(n.queue, a)
		}
		answered = append(answered, n.asking[a])
	}
	for range min(len(n.queue), maxNumberLookups-n.workers) {
		n.workers++
		go n.work()
	}
	return answered
}

// work looks up names until none is left in the queue.
func (n *Numbers) work() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.queue) > 0 {
		a := n.queue[0]
		n.queue = n.queue[1:]
		lookup := n.lookup
		if lookup == nil {
			lookup = lookUpID
		}
		n.mu.Unlock()
		id, err := lookup(a)
		n.mu.Lock()
		n.note(a, id, err)
		close(n.asking[a])
		delete(n.asking, a)
	}
	n.workers--
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

// note keeps an answer, and the last one if there is none now. The caller holds mu.
func (n *Numbers) note(a account, id int, err error) {
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

// Known returns the ids that were found, each by "user NAME" or "group NAME".
func (n *Numbers) Known() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[string]int{}
	for a, id := range n.known {
		all[string(a)] = id
	}
	return all
}

// Recall takes over the ids that Known returned in an earlier daemon. They hold until the
// database says otherwise.
func (n *Numbers) Recall(all map[string]int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		n.known = map[account]int{}
	}
	for a, id := range all {
		n.known[account(a)] = id
	}
}

// User returns the id of a user that Find found.
func (n *Numbers) User(name string) (int, bool) { return n.get(userAccount(name)) }

// Group returns the id of a group that Find found.
func (n *Numbers) Group(name string) (int, bool) { return n.get(groupAccount(name)) }
