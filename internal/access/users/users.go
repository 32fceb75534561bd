// Package users keeps the login names of users.
//
// The user database may be on a server that does not answer (NSS, LDAP): a
// caller waits for it only for a moment, and a lookup that hangs holds up
// nothing but itself.
package users

import (
	"cmp"
	"errors"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/berth-gpu/berth/internal/when/later"
)

const (
	// goodFor is how long a name is valid before it is looked up again.
	goodFor = 10 * time.Minute
	// retryAfter is how long after a failure, or after a wait without an answer, a user
	// is looked up or waited for again.
	retryAfter = 30 * time.Second
	// maxLookups limits the lookups under way: each may take a thread of the operating
	// system for as long as it hangs.
	maxLookups = 4
	// lastAnswer is how long the last answer about an account counts while the database
	// does not answer.
	lastAnswer = 24 * time.Hour
	// maxKnown is the maximum number of users to keep.
	maxKnown = 4096
	// maxLength is the length in bytes of the longest valid name.
	maxLength = 256
)

// Names knows users by number.
type Names struct {
	lookup func(uid int) (string, error)
	limit  time.Duration
	slots  chan struct{} // holds a token for each lookup under way
	moved  atomic.Value  // a time.Time, when a lookup last began or ended

	account func(name string) (uid int, groups []int, err error) // asks the user database

	mu       sync.Mutex // guards what follows; nobody waits while holding it
	known    map[int]*entry
	accounts map[string]answered
}

// entry holds what is known about one user.
type entry struct {
	name    string        // empty if not known
	none    bool          // the user database said that there is no such user
	next    time.Time     // the earliest time to look up the name, or to wait for it, again
	pending chan struct{} // closed when the lookup under way ends; nil if there is none
}

// New returns an empty Names. lookup asks the user database; Lookup of this
// package asks that of the system. limit is how long Of waits for an answer.
func New(lookup func(uid int) (string, error), limit time.Duration) *Names {
	return &Names{lookup: lookup, limit: limit, slots: make(chan struct{}, maxLookups), account: lookUpAccount, known: map[int]*entry{}, accounts: map[string]answered{}}
}

// Lookup asks the user database of the system. It may take forever.
func Lookup(uid int) (string, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return "", err
	}
	return u.Username, nil
}

// Of returns the login name of a user, or the number in decimal if there is none. It
// waits for the first answer of the user database, but at most for the limit.
func (n *Names) Of(uid int) string {
	name, pending := n.look(uid)
	if name != "" {
		return name
	}
	enough := time.After(n.limit)
	if pending == nil { // too many lookups are under way
		select {
		case n.slots <- struct{}{}:
			pending = n.begin(uid)
		case <-enough:
			n.postpone(uid)
			return strconv.Itoa(uid)
		}
	}
	select {
	case <-pending:
	case <-enough:
		n.postpone(uid)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.known[uid]; e != nil {
		return e.answer(uid)
	}
	return strconv.Itoa(uid)
}

// Now returns the login name of a user if it is known, or the number in decimal. It never
// waits: it looks up an unknown name in the background.
func (n *Names) Now(uid int) string {
	name, _ := n.look(uid)
	return cmp.Or(name, strconv.Itoa(uid))
}

// Settled reports whether Of answers what the user database has said, and not a number for
// want of an answer. It never waits.
func (n *Names) Settled(uid int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.known[uid]
	return e != nil && (e.name != "" || e.none)
}

// look returns the answer to give at once: a name, or the number if a lookup failed a
// moment ago. If that is empty, pending is closed when the lookup under way ends, or is
// nil if none could begin. look returns an old name and looks it up again in the
// background.
func (n *Names) look(uid int) (name string, pending <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.known[uid]
	if e != nil && time.Now().Before(e.next) {
		return e.answer(uid), nil
	}
	if e == nil || e.pending == nil {
		select {
		case n.slots <- struct{}{}:
			e = n.start(uid)
		default:
		}
	}
	if e == nil {
		return "", nil
	}
	return e.name, e.pending
}

// answer returns the name, or the number.
func (e *entry) answer(uid int) string { return cmp.Or(e.name, strconv.Itoa(uid)) }

// begin looks up a user unless another goroutine did or does. The caller holds a slot,
// which begin passes on or gives back.
func (n *Names) begin(uid int) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.known[uid]
	switch {
	case e != nil && e.pending != nil:
		<-n.slots
		return e.pending
	case e != nil && time.Now().Before(e.next):
		<-n.slots
		over := make(chan struct{})
		close(over)
		return over
	}
	return n.start(uid).pending
}

// start looks up a user in a goroutine. The caller holds mu and a slot, which start gives
// back when the lookup ends.
func (n *Names) start(uid int) *entry {
	e := n.entry(uid)
	pending := make(chan struct{})
	e.pending = pending
	n.move()
	go func() {
		name, err := n.lookup(uid)
		n.mu.Lock()
		defer n.mu.Unlock()
		e.learn(uid, name, err)
		e.pending = nil
		close(pending)
		n.move()
		<-n.slots
	}()
	return e
}

// learn stores the answer of the user database. A known name stays if the database fails,
// and goes if the user is gone.
func (e *entry) learn(uid int, name string, err error) {
	unknown := user.UnknownUserIdError(0)
	switch {
	case err == nil && believable(uid, name):
		e.name, e.next = name, time.Now().Add(goodFor)
		return
	case err == nil, errors.As(err, &unknown):
		e.name, e.none = "", true
	}
	e.next = time.Now().Add(retryAfter)
}

// believable reports whether a name can be shown and compared. A number is valid only as
// the name of the user with that id: another user would pass for that one.
func believable(uid int, name string) bool {
	if name == "" || len(name) > maxLength || !utf8.ValidString(name) || strings.TrimSpace(name) != name ||
		strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return false
	}
	number := strings.Trim(name, "0123456789") == ""
	return !number || name == strconv.Itoa(uid)
}

// postpone records that a wait for a user was in vain, so that the next callers
// do not wait as well.
func (n *Names) postpone(uid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.entry(uid); e.name == "" {
		e.next = time.Now().Add(retryAfter)
	}
}

// entry returns the entry of a user, and makes it if there is none. The caller
// holds mu.
func (n *Names) entry(uid int) *entry {
	e := n.known[uid]
	if e == nil {
		n.makeRoom()
		e = &entry{}
		n.known[uid] = e
	}
	return e
}

// someKnown is among how many users the one to forget is chosen. They are more than the
// lookups under way.
const someKnown = 4 * maxLookups

// makeRoom forgets a user, if too many are known: of some, which are others each time, the
// one who is due soonest. To look at all of them would cost each newcomer more than the
// lookup itself. Users whose lookup is under way stay. The caller holds mu.
func (n *Names) makeRoom() {
	if len(n.known) < maxKnown {
		return
	}
	first, found, looked := 0, false, 0
	for uid, e := range n.known {
		if e.pending == nil && (!found || e.next.Before(n.known[first].next)) {
			first, found = uid, true
		}
		if looked++; looked == someKnown {
			break
		}
	}
	delete(n.known, first)
}

// Account returns the id of a user and the groups that the user database names, nil if it
// names none in time. It returns false where AccountOf returns an error.
func (n *Names) Account(name string) (uid int, groups []int, known bool) {
	uid, groups, err := n.AccountOf(name)
	return uid, groups, err == nil
}

// answered is what the user database last said about a name.
type answered struct {
	uid    int
	groups []int
	err    error     // a user.UnknownUserError if nobody has the name
	asked  time.Time // when it was asked
}

// AccountOf returns the id of a user and the groups that the user database names, nil if
// it names none. While the database does not answer, its last answer counts, for a day. The
// error passes if there is none; else nobody has the name. The rights of a process never
// depend on AccountOf: the kernel says which groups a process is in.
func (n *Names) AccountOf(name string) (uid int, groups []int, err error) {
	now, _ := Ask(n, n.limit, func() answered {
		a := answered{asked: time.Now()}
		a.uid, a.groups, a.err = n.account(name)
		n.note(name, a)
		return a
	})
	if gone := user.UnknownUserError(""); now.asked.IsZero() || now.err != nil && !errors.As(now.err, &gone) {
		n.mu.Lock()
		last, known := n.accounts[name]
		n.mu.Unlock()
		if !known || time.Since(last.asked) > lastAnswer {
			return 0, nil, later.Because(errors.Join(errors.New("the user database does not answer"), now.err), retryAfter)
		}
		now = last
	}
	return now.uid, now.groups, now.err
}

// note remembers an answer of the user database, unless a later question was answered
// before: what the database took away stays taken away.
func (n *Names) note(name string, a answered) {
	if gone := user.UnknownUserError(""); a.err != nil && !errors.As(a.err, &gone) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	last, known := n.accounts[name]
	if known && last.asked.After(a.asked) {
		return
	}
	if !known && len(n.accounts) >= maxKnown {
		for other := range n.accounts { // any one
			delete(n.accounts, other)
			break
		}
	}
	n.accounts[name] = a
}

// lookUpAccount asks the user database of the system. It may take forever.
func lookUpAccount(name string) (uid int, groups []int, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, nil, err
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, nil, err
	}
	ids, _ := u.GroupIds() // nil if they are not known
	for _, id := range ids {
		if gid, err := strconv.Atoi(id); err == nil {
			groups = append(groups, gid)
		}
	}
	return uid, groups, nil
}

func (n *Names) move() { n.moved.Store(time.Now()) }

// hangs reports whether the user database has answered none of as many lookups as there may
// be for so long. One more would wait in vain.
func (n *Names) hangs(limit time.Duration) bool {
	moved, _ := n.moved.Load().(time.Time)
	return len(n.slots) == cap(n.slots) && time.Since(moved) >= limit
}

// Ask asks the user database something, and waits for the answer for a limited time. It
// returns false if there is none by then, and at once while the database hangs.
func Ask[T any](n *Names, limit time.Duration, ask func() T) (answer T, answered bool) {
	if n.hangs(limit) {
		return answer, false
	}
	enough := time.After(limit)
	select {
	case n.slots <- struct{}{}:
	case <-enough:
		return answer, false
	}
	n.move()
	found := make(chan T, 1)
	go func() {
		defer func() { n.move(); <-n.slots }()
		found <- ask()
	}()
	select {
	case answer = <-found:
		return answer, true
	case <-enough:
		return answer, false
	}
}
