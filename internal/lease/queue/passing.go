package queue

import "iter"

// maxSteps is how many steps a Passing takes before it gives up and lets nobody
// pass any more.
const maxSteps = 1 << 12

// Passing answers whether a later request, if granted on a device, could make a
// request ahead of it in the queue wait longer there. Begin prepares one
// for a device; then Add adds the requests ahead, in the order of the queue.
//
// Nobody knows which of the holdings on the device will end, and in which order,
// so Passing considers every outcome: the later request delays one ahead if there
// is a set of holdings beside which the one ahead fits on the device, but no
// longer fits beside the later one too. If there is no such set, then whenever
// the one ahead could start without the later one, it can start with it. Holdings
// are everything that may be on the device by then: the present leases, and the
// other requests ahead, which may be granted first.
//
// So all that matters about the requests ahead is how full the device can get
// with at least one of them on it: Passing keeps the most memory and the most
// slots. A later request that fits beside the most memory and beside the most
// slots delays nobody, and any other request delays somebody. A further request
// ahead can only raise the two, so the answers about many later requests share
// one search. A search that takes too long ends as if the device could get full:
// waiting longer than necessary is fair, passing is not.
type Passing[R any] struct {
	work   *int // see Queue
	room   Load
	ahead  []claim[R]
	memory filling
	slots  filling
	steps  int // left
}

// claim is a request ahead and its load.
type claim[R any] struct {
	request R
	load    Load
}

// Begin prepares p for a device that has this room when it is empty, with no request ahead.
// It adds the steps of p to work.
func (p *Passing[R]) Begin(work *int, room Load, holdings iter.Seq[Load]) {
	clear(p.ahead)
	p.work, p.room, p.ahead, p.steps = work, room, p.ahead[:0], maxSteps
	p.memory.begin(room.memory())
	p.slots.begin(room.slots())
	for l := range holdings {
		if l != (Load{}) {
			p.memory.put(l.memory())
			p.slots.put(l.slots())
		}
	}
	p.memory.sort()
	p.slots.sort()
}

// Add adds a request ahead, behind those that were added before, for a load: Whole if it is
// for all of the device. It reports false if that makes no difference, and no further request
// for as much will make any.
func (p *Passing[R]) Add(r R, l Load) bool {
	at, left := len(p.ahead), p.steps
	p.ahead = append(p.ahead, claim[R]{r, l})
	if l == Whole {
		l = p.room
	}
	p.steps--
	memory := p.memory.add(l.memory(), at, &p.steps)
	slots := p.slots.add(l.slots(), at, &p.steps)
	*p.work += left - p.steps
	return memory || slots
}

// AddAll adds the requests ahead that other has.
func (p *Passing[R]) AddAll(other *Passing[R]) {
	for _, c := range other.ahead {
		p.Add(c.request, c.load)
	}
}

// Allows reports whether a later load delays nobody.
func (p *Passing[R]) Allows(later Load) bool {
	return p.memory.allows(int64(later.Memory)) && p.slots.allows(int64(later.Slots))
}

// Delayed returns a request ahead that a later load would delay, or false if it delays
// none.
func (p *Passing[R]) Delayed(later Load) (r R, delays bool) {
	first := min(p.memory.delayed(int64(later.Memory)), p.slots.delayed(int64(later.Slots)))
	if first == nobody {
		return r, false
	}
	return p.ahead[first].request, true
}
