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

// Run says which program of berth's own a lease or a request is for. It is zero for what
// users ask for themselves.
type Run struct {
	Kind   RunKind `json:"kind"`
	Number int64   `json:"number"`         // of the job, or of the instance of the service
	Task   int     `json:"task,omitempty"` // of the job
}

// RunKind is a kind of programs that berth runs.
type RunKind string

// The kinds of runs.
const (
	OfJob     RunKind = "job"
	OfService RunKind = "service"
)

// Key identifies a lease or a waiting request. Ids are per user: two users may use the
// same id, and one user uses it once at a time.
//
// What belongs to a run is known by the run, and the id is for people. So nothing that a
// user asks for has the key of a run, whatever its id.
type Key struct {
	Owner
	ID  string
	Run Run `json:"run,omitzero"`
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
func (l *Lease) Key() Key { return Key{l.Holder.Owner(), l.ID, l.Run} }

// Key returns the key that identifies the request among those that wait.
func (r *Request) Key() Key { return Key{r.Holder.Owner(), r.ID, r.Run} }

// compare orders keys by id, and equal ids by owner.
func (k Key) compare(other Key) int {
	return cmp.Or(strings.Compare(k.ID, other.ID), cmp.Compare(k.UID, other.UID), strings.Compare(k.User, other.User),
		cmp.Compare(k.Run.Kind, other.Run.Kind), cmp.Compare(k.Run.Number, other.Run.Number), cmp.Compare(k.Run.Task, other.Run.Task))
}

// shelf finds leases, or requests, by their keys. Nearly every id is in one key, so a
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
	prev, next *T // with the same id, of other owners and runs
}

func (n *node[T]) chain() *node[T] { return n }

func newShelf[T any, P shelved[T]]() shelf[T, P] { return shelf[T, P]{first: make(map[string]*T)} }

// get returns the value with a key; nil if there is none.
func (s *shelf[T, P]) get(k Key) *T {
	for x := s.first[k.ID]; x != nil; {
		n := P(x).chain()
		if n.key == k {
			return x
		}
		x = n.next
	}
	return nil
}

// put adds x under a key that nothing on the shelf has.
func (s *shelf[T, P]) put(x *T, k Key) {
	n := P(x).chain()
	n.key, n.next = k, s.first[k.ID]
	if n.next != nil {
		P(n.next).chain().prev = x
	}
	s.first[k.ID] = x
	s.count++
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
