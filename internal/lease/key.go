package lease

import (
	"cmp"
	"strings"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/text/words"
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

// OwnerOf returns the owner of the leases of an actor.
func OwnerOf(a *access.Actor) Owner { return ownerOf(a.UID, a.User) }

func ownerOf(uid int, user string) Owner {
	if uid != NoUID {
		return Owner{UID: uid}
	}
	if !words.Plain(user) { // the name as Lease.clean cleans it
		user = gpu.Printable(user, gpu.Whole)
	}
	return Owner{UID: NoUID, User: user}
}

// Owner returns the user of the holder.
func (h Holder) Owner() Owner { return ownerOf(h.UID, h.User) }

// Key returns the key that identifies the lease in the book.
func (l *Lease) Key() Key { return Key{l.Holder.Owner(), l.ID} }

// Key returns the key that identifies the request among those that wait.
func (r *Request) Key() Key { return Key{r.Holder.Owner(), r.ID} }

// compare orders keys by id, and equal ids by owner.
func (k Key) compare(other Key) int {
	return cmp.Or(strings.Compare(k.ID, other.ID), cmp.Compare(k.UID, other.UID), strings.Compare(k.User, other.User))
}

// shelf finds leases, or requests, by id and owner. Nearly every id has one owner, so a
// look-up costs as much as in a map of ids. Values with the same id form a chain.
type shelf[T any, P shelved[T]] struct {
	first map[string]*T
	count int
}

// shelved is a pointer to something with a node in it.
type shelved[T any] interface {
	*T
	chain() *node[T]
}

// node is the place of something on a shelf.
type node[T any] struct {
	key        Key
	prev, next *T // with the same id, of other owners
}

func (n *node[T]) chain() *node[T] { return n }

func newShelf[T any, P shelved[T]]() shelf[T, P] { return shelf[T, P]{first: make(map[string]*T)} }

// get returns the value with a key; nil if there is none.
func (s *shelf[T, P]) get(k Key) *T {
	for x := s.first[k.ID]; x != nil; {
		n := P(x).chain()
		if n.key.Owner == k.Owner {
			return x
		}
		x = n.next
	}
	return nil
}

// put adds x under a key that nothing on the shelf has. It reports whether
// another owner has something with the same id.
func (s *shelf[T, P]) put(x *T, k Key) (shared bool) {
	n := P(x).chain()
	n.key, n.next = k, s.first[k.ID]
	if n.next != nil {
		P(n.next).chain().prev = x
	}
	s.first[k.ID] = x
	s.count++
	return n.next != nil
}

// remove takes x off the shelf.
func (s *shelf[T, P]) remove(x *T) {
	n := P(x).chain()
	if n.next != nil {
		P(n.next).chain().prev = n.prev
	}
	switch {
	case n.prev != nil:
		P(n.prev).chain().next = n.next
	case n.next != nil:
		s.first[n.key.ID] = n.next
	default:
		delete(s.first, n.key.ID)
	}
	n.prev, n.next = nil, nil
	s.count--
}

// all yields everything on the shelf, in no order.
func (s *shelf[T, P]) all(yield func(*T) bool) {
	for id := range s.first {
		for x := range s.called(id) {
			if !yield(x) {
				return
			}
		}
	}
}

// called yields everything that has an id.
func (s *shelf[T, P]) called(id string) func(yield func(*T) bool) {
	return func(yield func(*T) bool) {
		for x := s.first[id]; x != nil; x = P(x).chain().next {
			if !yield(x) {
				return
			}
		}
	}
}
