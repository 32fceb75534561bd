package users

import (
	"os/user"
	"strconv"
	"time"
)

// Account returns the id of a user and the groups that the user database names, nil if it
// names none in time. It returns false for a user that the database does not know, or
// does not find in time. The rights of a process never depend on Account: the kernel says
// which groups a process is in.
func (n *Names) Account(name string) (uid int, groups []int, known bool) {
	type account struct {
		uid    int
		groups []int
		err    error
	}
	enough := time.After(n.limit)
	select {
	case n.slots <- struct{}{}:
	case <-enough:
		return 0, nil, false
	}
	found := make(chan account, 1)
	go func() {
		defer func() { <-n.slots }()
		var a account
		u, err := user.Lookup(name)
		if err == nil {
			a.uid, err = strconv.Atoi(u.Uid)
		}
		if a.err = err; err == nil {
			ids, _ := u.GroupIds() // nil if they are not known
			for _, id := range ids {
				if gid, err := strconv.Atoi(id); err == nil {
					a.groups = append(a.groups, gid)
				}
			}
		}
		found <- a
	}()
	select {
	case a := <-found:
		return a.uid, a.groups, a.err == nil
	case <-enough:
		return 0, nil, false
	}
}
