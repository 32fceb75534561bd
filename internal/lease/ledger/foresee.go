package ledger

import (
	"cmp"
	"container/heap"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/when"
)

// Lasts returns how much longer a lease lasts that has lasted for some time. It returns
// false if nobody knows.
type Lasts func(held *lease.Lease, lasted time.Duration) (time.Duration, bool)

// Foreseen says when a waiting request will be granted.
type Foreseen struct {
	At time.Time // zero if that is not known

	// If At is zero: a lease that is in the way, or may be, and of which nobody knows
	// when it ends. It is nil if none is, or if users ask again: then nobody looks for it.
	Because *lease.Lease

	Leaves bool // if At is zero: the request reaches its deadline before

	// Passable says that somebody who asks later may go before the request, because of a
	// smaller share or the priority of a service. Then it may begin later than At.
	Passable bool
}

// The limits of a look ahead, which keep it short.
const (
	mostForeseen = 512  // waiting requests
	mostStanding = 4096 // leases
	mostEnds     = 4096 // leases that end before it gives up
	mostAgain    = 256  // likewise, if users ask again
)

// Demand says who comes during a look ahead.
type Demand int

// The demands.
const (
	Nobody Demand = iota
	Again         // whoever holds leases asks for one like the last of them at once, and for one like each when that ends
)

// Foresee plays the queue forward, with the code that decides, on a copy of the book:
// leases end when lasts says so, requests leave at their deadlines, and whoever fits then
// is granted. Who comes meanwhile takes a place in the queue like everybody. It returns when
// each request that waits now is granted. If too many wait it returns nil.
func (l *Ledger) Foresee(now time.Time, lasts Lasts, come Demand) map[lease.Key]Foreseen {
	copied, pending := l.copy()
	if copied == nil {
		return nil
	}
	return copied.forward(now, lasts, come, pending)
}

// ErrTooMany says that too many leases stand, or too many requests wait, to look ahead.
var ErrTooMany = errors.New("the queue is too long to look ahead")

// ForeseeNew returns when a request would be granted that does not wait yet. It changes
// nothing.
func (l *Ledger) ForeseeNew(now time.Time, r lease.Request, lasts Lasts, come Demand) (Foreseen, error) {
	copied, _ := l.copy()
	if copied == nil {
		return Foreseen{}, ErrTooMany
	}
	now = when.Stored(now)
	if r.ID == "" {
		r.ID = copied.unusedID(r.Holder.Owner())
	}
	if _, err := copied.admit(&r, now); err != nil {
		return Foreseen{}, err
	}
	if _, err := copied.apply(lease.Ask{Request: &r}, now); err != nil {
		return Foreseen{}, err
	}
	return copied.forward(now, lasts, come, map[lease.Key]bool{r.Key(): true})[r.Key()], nil
}

// forward plays a copy forward until each of these requests is granted or has left, if
// that can be known.
func (l *Ledger) forward(now time.Time, lasts Lasts, come Demand, pending map[lease.Key]bool) map[lease.Key]Foreseen {
	now = when.Stored(now)
	p := &play{
		Ledger: l, lasts: lasts, come: come, ending: map[lease.Key]int{},
		pending: pending, passable: map[lease.Key]bool{}, found: make(map[lease.Key]Foreseen, len(pending)),
	}
	for _, s := range p.settings.Services {
		p.priority = max(p.priority, s.Priority)
	}
	p.notePassable()
	last := map[lease.Owner]*lease.Lease{}
	for _, held := range p.book.Leases() { // the oldest first
		p.follow(held, now)
		if p.asksAgain(held) {
			last[held.Holder.Owner()] = held
		}
	}
	for _, held := range slices.SortedFunc(maps.Values(last), func(a, b *lease.Lease) int { return cmp.Compare(a.Fence, b.Fence) }) {
		p.again(held, now)
	}
	p.run(now)
	because := p.endless()
	for k := range p.pending {
		f := Foreseen{Because: because, Passable: p.passable[k]}
		if r := p.book.Request(k); r != nil && come == Nobody { // one to grow leaves with its lease
			f.Because = cmp.Or(p.endlessBefore(r), p.endlessWhere(r), because)
		}
		p.found[k] = f
	}
	return p.found
}

// copy returns a ledger with a copy of the state, which has no journal and which nobody
// runs, and the keys of the requests that wait. It returns nil if too many wait.
func (l *Ledger) copy() (*Ledger, map[lease.Key]bool) {
	c := l.copyState()
	if c == nil {
		return nil, nil
	}
	c.standing = kin{book: c.book, boot: c.boot, settings: &c.settings}
	c.rebuild()
	pending := map[lease.Key]bool{}
	for _, r := range c.book.Waiting() {
		pending[r.Key()] = true
	}
	return c, pending
}

// copyState does the part of copy that needs the lock.
func (l *Ledger) copyState() *Ledger {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if standing, waiting := l.book.Len(); standing > mostStanding || waiting > mostForeseen {
		return nil
	}
	devices := make(map[string]*observed, len(l.devices))
	for uuid, o := range l.devices {
		d := *o
		d.used, d.relatives, d.owned = nil, relatives{}, nil // the book has what was measured of each lease, and frees it with that
		devices[uuid] = &d
	}
	settings := l.settings
	settings.Limits = settings.Limits.Fresh()
	return &Ledger{state: state{
		boot: l.boot, cpus: l.cpus, processes: l.processes, settings: settings, book: l.book.Clone(), devices: devices, waiters: map[*lease.Request]*waiter{},
	}}
}

// play is a look ahead under way.
type play struct {
	*Ledger
	lasts    Lasts
	come     Demand
	priority int // the highest one that anybody may ask for
	ends     ends
	ending   map[lease.Key]int // how many of ends are of a lease
	pending  map[lease.Key]bool
	passable map[lease.Key]bool // of pending
	found    map[lease.Key]Foreseen

	unending *lease.Lease // what endless found
	looked   bool         // endless has looked since a lease began or ended
}

// run plays until every request of the beginning was granted, has left, or waits for
// something of which nobody knows the end.
func (p *play) run(now time.Time) {
	most := mostEnds
	if p.come == Again {
		most = mostAgain
	}
	for range most {
		p.grant(now)
		if len(p.pending) == 0 {
			return
		}
		late := p.nextDeadline()
		switch {
		case late != nil && (len(p.ends) == 0 || late.Deadline.Before(p.ends[0].at)):
			now = latest(now, late.Deadline)
			because := p.endless()
			p.found[late.Key()] = Foreseen{Because: because, Leaves: because == nil, Passable: p.passable[late.Key()]}
			delete(p.pending, late.Key())
			_, _ = p.apply(lease.Withdraw{Key: late.Key(), By: access.Daemon()}, now)
		case len(p.ends) == 0:
			return
		default:
			next := heap.Pop(&p.ends).(end)
			p.ending[next.key]--
			p.looked = false
			now = latest(now, next.at)
			if held := p.book.Lease(next.key); held != nil && held.Fence == next.fence && held.State != lease.Parked {
				comes := p.asksAgain(held)
				_, _ = p.apply(lease.Release{Key: next.key, Fence: next.fence, By: access.Daemon()}, now)
				if comes {
					p.again(held, now)
				}
			}
		}
	}
}

// grant grants what fits, and notes it.
func (p *play) grant(now time.Time) {
	p.dirty = true
	for p.serve(now) {
	}
	for _, e := range p.effects {
		granted := e.After
		if granted == nil {
			continue
		}
		if k := granted.Key(); p.pending[k] && p.book.Request(k) == nil {
			p.found[k] = Foreseen{At: now, Passable: p.passable[k]}
			delete(p.pending, k)
		}
		p.follow(granted, now)
	}
	if len(p.effects) > 0 { // shares have grown
		p.notePassable()
	}
	p.effects = p.effects[:0]
}

// asksAgain reports whether the user of a lease is taken to ask for another one like it.
func (p *play) asksAgain(held *lease.Lease) bool {
	return p.come == Again && held.Parent == "" && held.State != lease.Parked && held.Run.Kind != lease.OfService && len(held.Parts) > 0
}

// again asks for another lease like one that is or was held.
func (p *play) again(held *lease.Lease, now time.Time) {
	r := held.Alike()
	r.ID, r.By, r.Requested, r.Since, r.Deadline = p.unusedID(held.Holder.Owner()), held.By, now, now, now.Add(lease.MaxWait)
	_, _ = p.apply(lease.Ask{Request: &r}, now) // if nobody could ask for that, nobody does
}

// notePassable notes which requests somebody who asks later may pass by now.
func (p *play) notePassable() {
	for k := range p.pending {
		if r := p.book.Request(k); !p.passable[k] && r != nil && (r.Priority < p.priority || p.book.Passable(r)) {
			p.passable[k] = true
		}
	}
}

// follow notes when a lease ends, if that is known.
func (p *play) follow(held *lease.Lease, now time.Time) {
	p.looked = false
	if held.State == lease.Parked {
		return
	}
	lasted := max(now.Sub(held.Granted)-held.Paused, 0)
	if more, known := p.lasts(held, lasted); known {
		heap.Push(&p.ends, end{now.Add(max(more, 0)), held.Key(), held.Fence})
		p.ending[held.Key()]++
	}
}

// nextDeadline returns the pending request that leaves the queue first; nil if none does.
// One that may wait for as long as anybody may waits for as long as it takes: nobody said
// when it shall leave.
func (p *play) nextDeadline() (first *lease.Request) {
	for k := range p.pending {
		if r := p.book.Request(k); r != nil && !r.Patient() && (first == nil || r.Deadline.Before(first.Deadline)) {
			first = r
		}
	}
	return first
}

// endlessWhere returns the oldest lease of which nobody knows the end on a device that a
// request could have; nil if there is none.
func (p *play) endlessWhere(r *lease.Request) (found *lease.Lease) {
	for uuid := range p.devices {
		if !p.snapshot.Could(uuid, r) {
			continue
		}
		for h := range p.book.On(uuid) {
			if l := h.Lease; l.State != lease.Parked && p.ending[l.Key()] == 0 && (found == nil || l.Fence < found.Fence) {
				found = l
			}
		}
	}
	return found
}

// endless returns a lease of which nobody knows the end, the oldest first; nil if there is
// none.
func (p *play) endless() *lease.Lease {
	if p.looked {
		return p.unending
	}
	p.unending, p.looked = nil, true
	if p.come == Again {
		return nil
	}
	for _, held := range p.book.Leases() {
		if held.State != lease.Parked && p.ending[held.Key()] == 0 {
			p.unending = held
			break
		}
	}
	return p.unending
}

// end is the expected end of a lease.
type end struct {
	at    time.Time
	key   lease.Key
	fence uint64
}

// ends is a heap of ends, the next one first. It implements heap.Interface.
type ends []end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
