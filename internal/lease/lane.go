package lease

import (
	"cmp"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// laneKey identifies a lane. Requests with the same key differ in their place in the
// queue only by age, and in the devices that suit them, and in who may pass, only by size.
type laneKey struct {
	priority int
	user     string
	uid      int
	service  string
	parent   string
	above    uint64 // fence of the parent
	alone    bool   // they are exclusive
	endless  bool
	gpus     int
	where    gpu.Where
	only     string
	share    gpu.Opt[float64] // see SetShares
}

func (b *Book) keyOf(r *Request) laneKey {
	k := laneKey{
		priority: r.Priority, user: r.Holder.User, uid: r.Holder.UID, service: r.Holder.Service,
		parent: r.Parent, above: r.ParentFence, alone: r.Exclusive, endless: r.Endless(), gpus: r.Devices(), where: r.Where,
	}
	if len(r.Only) > 0 {
		k.only = strings.Join(r.Only, " ")
	}
	if share, placed := b.queue.shares[r.Key()]; placed {
		k.share = gpu.Some(share)
	}
	return k
}

// lane keeps the waiters with the same key, the oldest first. A new share of a
// user or a service moves whole lanes in the queue and no waiter in its lane.
type lane struct {
	key     laneKey
	user    *Count
	service *Count
	root    *waiter // nil if the lane is empty
	level   *level
	at      int // index in level.lanes
}

// level has the lanes of one priority, in no order.
type level struct {
	priority int
	lanes    []*lane
}

// A lane is a binary search tree by age. It stays balanced because each waiter
// has a random weight, and none weighs more than the one above it. Each waiter
// keeps sums over itself and those below it.

// older reports whether a waiter comes before another one of its lane.
func (w *waiter) older(than *waiter) bool { return w.compareAge(than) < 0 }

// compareAge compares by the wall alone. Two times with a monotonic reading would compare by
// that, and the order of times with and without one is none.
func (w *waiter) compareAge(other *waiter) int {
	return cmp.Or(cmp.Compare(w.request.Requested.UnixNano(), other.request.Requested.UnixNano()), cmp.Compare(w.request.Arrival, other.request.Arrival))
}

// sum computes the sums of a waiter again, after something below it has changed.
func (w *waiter) sum() {
	w.size, w.least, w.most, w.total = 1, w.request.Load(), w.request.Load(), w.request.Total()
	for _, below := range [...]*waiter{w.left, w.right} {
		if below != nil {
			w.size += below.size
			w.least = w.least.Smaller(below.least)
			w.most = w.most.Larger(below.most)
			w.total = Usage{max(w.total.Memory, below.total.Memory), max(w.total.Slots, below.total.Slots)}
		}
	}
}

func (l *lane) add(w *waiter) {
	w.weight = scatter(w.request.Arrival)
	w.sum()
	older, younger := l.root.split(w)
	l.root = joined(joined(older, w), younger)
}

func (l *lane) remove(w *waiter) {
	l.root = l.root.without(w)
	w.left, w.right = nil, nil
}

// split divides a tree into those older than w and the others.
func (t *waiter) split(w *waiter) (older, others *waiter) {
	switch {
	case t == nil:
		return nil, nil
	case t.older(w):
		t.right, others = t.right.split(w)
		older = t
	default:
		older, t.left = t.left.split(w)
		others = t
	}
	t.sum()
	return older, others
}

// joined makes one tree of two. Everybody in the first is older than everybody in
// the second.
func joined(older, younger *waiter) *waiter {
	switch {
	case older == nil:
		return younger
	case younger == nil:
		return older
	case older.weight > younger.weight:
		older.right = joined(older.right, younger)
		older.sum()
		return older
	}
	younger.left = joined(older, younger.left)
	younger.sum()
	return younger
}

func (t *waiter) without(w *waiter) *waiter {
	switch {
	case t == w:
		return joined(t.left, t.right)
	case w.older(t):
		t.left = t.left.without(w)
	default:
		t.right = t.right.without(w)
	}
	t.sum()
	return t
}

// next returns the oldest waiter that is younger than after and whose load is within most
// and differs from but; nil if there is none. A nil after means any age.
func (t *waiter) next(after *waiter, most, but Load) *waiter {
	if t == nil || !t.least.Within(most) || t.least == but && t.most == but {
		return nil
	}
	if after == nil || after.older(t) {
		if found := t.left.next(after, most, but); found != nil {
			return found
		}
		if l := t.request.Load(); l.Within(most) && l != but {
			return t
		}
		after = nil // everybody to the right is younger
	}
	return t.right.next(after, most, but)
}

// list appends all waiters of a tree to list, the oldest first.
func (t *waiter) list(list []*waiter) []*waiter {
	if t == nil {
		return list
	}
	return t.right.list(append(t.left.list(list), t))
}

// countOlder counts the waiters of a tree that are older than w.
func (t *waiter) countOlder(w *waiter) int {
	n := 0
	for t != nil {
		if !t.older(w) {
			t = t.left
			continue
		}
		if n++; t.left != nil {
			n += t.left.size
		}
		t = t.right
	}
	return n
}

// scatter turns a number that counts up into one that looks random.
func scatter(n uint64) uint32 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return uint32(n >> 32)
}
