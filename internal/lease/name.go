package lease

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Name names a lease or a waiting request as people do: by its id, and optionally by its
// user.
type Name struct {
	User string // login name, uid, token:NAME or cert:NAME; may be empty
	ID   string
}

// String returns USER/ID, or the id alone.
func (n Name) String() string {
	if n.User == "" {
		return n.ID
	}
	return n.User + "/" + n.ID
}

// Name returns the key as a name, with the user id if there is one.
func (k Key) Name() Name {
	if k.UID != NoUID {
		return Name{strconv.Itoa(k.UID), k.ID}
	}
	return Name{k.User, k.ID}
}

// ErrAmbiguous refuses an id that several users use.
var ErrAmbiguous = errors.New("several users have a lease or a request with this id")

// AmbiguousError refuses a name that fits leases or requests of several users. It
// matches ErrAmbiguous.
type AmbiguousError struct {
	Name  Name
	Names []Name // those that it fits; each of them fits only one
}

func (e *AmbiguousError) Error() string {
	texts := make([]string, len(e.Names))
	for i, n := range e.Names {
		texts[i] = n.String()
	}
	return fmt.Sprintf("%s: %v: %s", e.Name, ErrAmbiguous, strings.Join(texts, ", "))
}

// Is reports whether target is ErrAmbiguous.
func (e *AmbiguousError) Is(target error) bool { return target == ErrAmbiguous }

// Seek returns the key of the lease or request that an actor names and wants to act on:
//
//   - with a user, that of this user;
//   - with the id alone, the actor's own;
//   - if the actor has none, the only one there is.
//
// A fence chooses among several. An actor who may not act on the things of others finds
// only their own, so that no refusal tells what others have. With the id alone, Seek may
// return a key that nothing has: the change that uses the key says so.
func (b *Book) Seek(by *access.Actor, v access.Verb, n Name, fence uint64) (Key, error) {
	own := b.called(OwnerOf(by), n.ID, fence)
	others := access.May(*by, v, access.Everything())
	switch {
	case n.User != "" && isCalled(n.User, own.Owner, by.User):
		return own, nil
	case n.User != "" && others != nil:
		if why := access.May(*by, v, access.Named(access.Held, n.User)); why != nil {
			others = why // it names the user
		}
		return own, fmt.Errorf("%s %s: %w", v, n, others)
	case n.User == "" && (others != nil || b.has(own, fence)):
		return own, nil
	}
	found := b.fitting(n, fence)
	for _, f := range found {
		if fence != 0 && f.fence == fence {
			return f.key, nil
		}
	}
	switch {
	case n.User == "" && (len(found) == 0 || b.has(own, 0)):
		return own, nil
	case len(found) == 1:
		return found[0].key, nil
	case fence != 0 && fence <= b.fence:
		return own, fmt.Errorf("%s %s: %w: the lease with fence %d has ended", v, n, ErrStaleFence, fence)
	case len(found) > 1:
		return own, &AmbiguousError{Name: n, Names: names(found)}
	}
	return own, fmt.Errorf("%s %s: %w", v, n, ErrUnknown)
}

// Unknown returns the error for a key that neither a lease nor a request has. It suggests
// an id that was probably meant, among those that the actor may act on, so that it does not
// tell what others have.
func (b *Book) Unknown(by *access.Actor, v access.Verb, k Key) error {
	e := &unknownError{verb: v, id: k.ID, own: access.May(*by, v, access.Everything()) != nil}
	add := func(h *Holder, id string) {
		if len(e.ids) < mostNear && (!e.own || h.Owner() == k.Owner) {
			e.ids = append(e.ids, id)
		}
	}
	for held := range b.grants.all {
		add(&held.lease.Holder, held.lease.ID)
	}
	for w := range b.waiting.all {
		add(&w.request.Holder, w.request.ID)
	}
	return e
}

// unknownError is the error of Unknown. It looks for the id that was meant when somebody
// reads it: that takes long, and everybody waits for the book meanwhile.
type unknownError struct {
	verb access.Verb
	id   string
	own  bool     // the actor may act on nothing of others
	ids  []string // among which to look
}

func (e *unknownError) Error() string {
	among := ""
	if e.own {
		among = " among yours"
	}
	if near, ok := words.Nearest(e.id, words.Unlike(e.id, e.ids)); ok {
		among += ": did you mean " + near + "?"
	}
	return fmt.Sprintf("%s %s: %v%s", e.verb, e.id, ErrUnknown, among)
}

func (e *unknownError) Unwrap() error { return ErrUnknown }

// mostNear limits the ids among which Unknown looks for the one that was meant.
const mostNear = 500

// Held returns the lease that an actor names and wants to act on. It refuses an actor who
// may not.
func (b *Book) Held(by *access.Actor, v access.Verb, n Name) (*Lease, error) {
	k, err := b.Seek(by, v, n, 0)
	if err != nil {
		return nil, err
	}
	return b.Find(v, k, 0, by)
}

// Find returns a lease that an actor wants to act on, and refuses an actor who may not. A
// fence of zero means any.
func (b *Book) Find(v access.Verb, k Key, fence uint64, by *access.Actor) (*Lease, error) {
	e, err := b.find(v, k, fence, by)
	if err != nil {
		return nil, err
	}
	return e.lease, nil
}

// has reports whether a lease or a request has a key. With a fence, it reports whether a
// lease has both.
func (b *Book) has(k Key, fence uint64) bool {
	if e := b.leases.get(k); e != nil {
		return fence == 0 || e.lease.Fence == fence
	}
	return fence == 0 && b.waiting.get(k) != nil
}

// named is a lease or a request that a name fits.
type named struct {
	key   Key
	user  string
	fence uint64 // zero for a request
}

// called returns the key that an owner means by an id and a fence, of which zero means any:
// that of what is for no run, unless only something of a run has the id.
func (b *Book) called(o Owner, id string, fence uint64) Key {
	plain := Key{Owner: o, ID: id}
	if e := b.standing(plain, fence); e != nil {
		return e.key
	}
	if b.waiting.get(plain) == nil {
		for w := range b.waiting.called(id) {
			if w.key.Owner == o {
				return w.key
			}
		}
	}
	return plain
}

// fitting lists what a name fits, ordered by user. Each user means one thing by an id.
func (b *Book) fitting(n Name, fence uint64) []named {
	var list []named
	add := func(h *Holder, k Key, its uint64) {
		if n.User != "" && !isCalled(n.User, k.Owner, h.User) || k != b.called(k.Owner, n.ID, fence) {
			return
		}
		list = append(list, named{k, h.User, its})
	}
	for e := range b.leases.called(n.ID) {
		add(&e.lease.Holder, e.key, e.lease.Fence)
	}
	for w := range b.waiting.called(n.ID) {
		if w.request.Into == 0 { // otherwise its lease is there
			add(&w.request.Holder, w.key, 0)
		}
	}
	slices.SortFunc(list, func(a, b named) int { return cmp.Or(strings.Compare(a.user, b.user), a.key.compare(b.key)) })
	return list
}

// isCalled reports whether name is the login name of an owner or the owner's user id.
func isCalled(name string, o Owner, login string) bool {
	return name == login || o.UID != NoUID && name == strconv.Itoa(o.UID)
}

// names returns names that tell leases and requests apart, with user ids where several
// users have the same login name.
func names(list []named) []Name {
	all := make([]Name, len(list))
	for i, n := range list {
		all[i] = Name{n.user, n.key.ID}
		same := func(other named) bool { return other.user == n.user && other.key != n.key }
		if n.key.UID != NoUID && slices.ContainsFunc(list, same) {
			all[i].User = strconv.Itoa(n.key.UID)
		}
	}
	return all
}
