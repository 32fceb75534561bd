package users

import (
	"strings"
	"time"
)

// Database is a user database other than that of the system. Its functions may take forever.
// An error other than a user.UnknownUserError or a user.UnknownGroupError passes.
type Database struct {
	Name    func(uid int) (string, error)
	Account func(name string) (uid int, groups []int, err error)
	Group   func(name string) (gid int, err error)
}

// Names returns an empty Names of the database. limit is how long Of waits for an answer.
func (d *Database) Names(limit time.Duration) *Names {
	n := New(d.Name, limit)
	n.account = d.Account
	return n
}

// Ask makes n ask a database. It has to be called before n is used.
func (n *Numbers) Ask(d *Database) {
	n.lookup = func(a account) (int, error) {
		kind, name, _ := strings.Cut(string(a), " ")
		if kind == "group" {
			return d.Group(name)
		}
		uid, _, err := d.Account(name)
		return uid, err
	}
}
