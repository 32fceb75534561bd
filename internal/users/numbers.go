package users

import (
	"os/user"
	"strconv"
	"sync"
	"time"
)

// Numbers finds the ids of the users and groups that a configuration names. It
// asks the database of the system once for each name, and waits for all of them
// together only for a moment.
type Numbers struct {
	Limit time.Duration

	mu            sync.Mutex
	users, groups map[string]int
}

// Find looks up names that are not known yet, and returns those that nobody has
// or for which the database did not answer in time. A number is its own name.
func (n *Numbers) Find(users, groups []string) (missing []string) {
	type asked struct {
		what, name string
		kept       map[string]int
	}
	type answer struct {
		asked
		id  int
		err error
	}
	var unknown []asked
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.users == nil {
		n.users, n.groups = map[string]int{}, map[string]int{}
	}
	answers, open := make(chan answer, len(users)+len(groups)), 0
	var ask []func()
	each := func(what string, names []string, kept map[string]int, lookup func(string) (int, error)) {
		for _, name := range names {
			if _, known := kept[name]; known {
				continue
			}
			if id, err := strconv.Atoi(name); err == nil && id >= 0 {
				kept[name] = id
				continue
			}
			unknown, open = append(unknown, asked{what, name, kept}), open+1
			ask = append(ask, func() {
				id, err := lookup(name)
				answers <- answer{asked{what, name, kept}, id, err}
			})
		}
	}
	each("user", users, n.users, func(name string) (int, error) {
		u, err := user.Lookup(name)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(u.Uid)
	})
	each("group", groups, n.groups, func(name string) (int, error) {
		g, err := user.LookupGroup(name)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(g.Gid)
	})
	if open == 0 {
		return nil
	}
	go func() { // one after the other: each may hang in a thread of its own
		for _, f := range ask {
			f()
		}
	}()
	late := time.NewTimer(n.Limit)
	defer late.Stop()
	for ; open > 0; open-- {
		select {
		case a := <-answers:
			if a.err == nil {
				a.kept[a.name] = a.id
			}
		case <-late.C:
			open = 1
		}
	}
	for _, u := range unknown {
		if _, found := u.kept[u.name]; !found {
			missing = append(missing, u.what+" "+u.name)
		}
	}
	return missing
}

// User returns the id of a user that Find found.
func (n *Numbers) User(name string) (int, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, known := n.users[name]
	return id, known
}

// Group returns the id of a group that Find found.
func (n *Numbers) Group(name string) (int, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, known := n.groups[name]
	return id, known
}
