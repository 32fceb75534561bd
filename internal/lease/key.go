package lease

import (
	"cmp"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

// Owner is the user that a lease or a request belongs to.
type Owner struct {
	UID  int
	User string // the name, only if UID is NoUID
}

// Key identifies a lease or a waiting request. Ids are per user: two users may
// use the same id, and one user uses it once at a time.
type Key struct {
	Owner
	ID string
}

// OwnerOf returns an actor as the owner of leases.
func OwnerOf(a *access.Actor) Owner { return ownerOf(a.UID, a.User) }

func ownerOf(uid int, user string) Owner {
	if uid != NoUID {
		return Owner{UID: uid}
	}
	if !plain(user) {
		user = gpu.Printable(user, gpu.Whole) // as Lease.clean does
	}
	return Owner{UID: NoUID, User: user}
}

// Owner returns the user that a holder is.
func (h Holder) Owner() Owner { return ownerOf(h.UID, h.User) }

// Key returns what identifies the lease among those that stand.
func (l *Lease) Key() Key { return Key{l.Holder.Owner(), l.ID} }

// Key returns what identifies the request among those that wait.
func (r *Request) Key() Key { return Key{r.Holder.Owner(), r.ID} }

// compare orders keys by id, and equal ids by owner.
func (k Key) compare(other Key) int {
	return cmp.Or(strings.Compare(k.ID, other.ID), cmp.Compare(k.UID, other.UID), strings.Compare(k.User, other.User))
}

// keyed is a pointer to something that has a key and can be on a shelf.
type keyed[T any] interface {
	*T
	holder() *Holder
	id() string
	link() **T // the next one with the same id
}

// shelf finds leases, or requests, by id and owner. Nearly always an id has one
// owner, so that a look-up costs as much as one in a map of ids. Those with the
// same id form a chain.
type shelf[T any, P keyed[T]] struct {
	first map[string]*T
	count int
}

func newShelf[T any, P keyed[T]]() shelf[T, P] { return shelf[T, P]{first: make(map[string]*T)} }

// get returns what has a key; nil if nothing has.
func (s *shelf[T, P]) get(k Key) *T {
	x := s.first[k.ID]
	for x != nil && P(x).holder().Owner() != k.Owner {
		x = *P(x).link()
	}
	return x
}

// put adds x, whose key nothing on the shelf has.
func (s *shelf[T, P]) put(x *T) {
	id := P(x).id()
	*P(x).link() = s.first[id]
	s.first[id] = x
	s.count++
}

// remove takes x off the shelf.
func (s *shelf[T, P]) remove(x *T) {
	id, next := P(x).id(), *P(x).link()
	*P(x).link() = nil
	s.count--
	first := s.first[id]
	switch {
	case first == x && next == nil:
		delete(s.first, id)
		return
	case first == x:
		s.first[id] = next
		return
	}
	for *P(first).link() != x {
		first = *P(first).link()
	}
	*P(first).link() = next
}

// all yields everything on the shelf, in no order.
func (s *shelf[T, P]) all(yield func(*T) bool) {
	for _, x := range s.first {
		for ; x != nil; x = *P(x).link() {
			if !yield(x) {
				return
			}
		}
	}
}

// called yields what has an id.
func (s *shelf[T, P]) called(id string) func(yield func(*T) bool) {
	return func(yield func(*T) bool) {
		for x := s.first[id]; x != nil; x = *P(x).link() {
			if !yield(x) {
				return
			}
		}
	}
}

func (e *entry) holder() *Holder { return &e.lease.Holder }
func (e *entry) id() string      { return e.lease.ID }
func (e *entry) link() **entry   { return &e.next }

func (w *waiter) holder() *Holder { return &w.request.Holder }
func (w *waiter) id() string      { return w.request.ID }
func (w *waiter) link() **waiter  { return &w.next }
