package lease

import "github.com/berth-gpu/berth/gpu"

// Load is the memory and the slots that a lease or a request takes of one device.
type Load struct {
	Memory gpu.MiB
	Slots  int
}

// Whole is a load that leaves no room on any device.
var Whole = Load{Memory: 1 << 40, Slots: 1 << 30}

// memory returns the load as amounts, with memory as the respect that counts.
func (l Load) memory() amounts { return amounts{this: int64(l.Memory), other: int64(l.Slots)} }

// slots returns the load as amounts, with slots as the respect that counts.
func (l Load) slots() amounts { return amounts{this: int64(l.Slots), other: int64(l.Memory)} }

// Within reports whether the load fits into a room.
func (l Load) Within(room Load) bool { return l.Memory <= room.Memory && l.Slots <= room.Slots }

// Smaller returns the smaller memory and the smaller slots of two loads.
func (l Load) Smaller(m Load) Load { return Load{min(l.Memory, m.Memory), min(l.Slots, m.Slots)} }

// Larger returns the larger memory and the larger slots of two loads.
func (l Load) Larger(m Load) Load { return Load{max(l.Memory, m.Memory), max(l.Slots, m.Slots)} }

// maxSteps is how many steps a Passing takes before it gives up and lets nobody
// pass any more.
const maxSteps = 1 << 12

// Passing answers whether a later request, if granted on a device, could make a
// request ahead of it in the queue wait longer there. Book.Passing prepares one
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
type Passing struct {
	queue  *queue // counts the work; may be nil
	ahead  []*Request
	memory filling
	slots  filling
	steps  int // left
	list   []Load
}

// Passing prepares p for a device, with no request ahead. It counts as holdings
// what throttling and processes under no lease take from the device, because that
// may be gone when the ledger looks at the ones ahead again.
func (b *Book) Passing(p *Passing, uuid string) {
	d := b.devices[uuid]
	p.queue = &b.queue
	if d == nil {
		p.begin(Load{-1, -1}, nil)
		return
	}
	p.list = d.holdings(p.list[:0])
	p.begin(Load{d.Ceiling(), d.MaxPipelines}, p.list)
}

// begin prepares p for a device that has this room when it is empty.
func (p *Passing) begin(room Load, holdings []Load) {
	clear(p.ahead)
	p.ahead, p.steps = p.ahead[:0], maxSteps
	p.memory.begin(room.memory())
	p.slots.begin(room.slots())
	for _, l := range holdings {
		p.memory.put(l.memory())
		p.slots.put(l.slots())
	}
	p.memory.sort()
	p.slots.sort()
}

// Add adds a request ahead, behind those that were added before. It reports false
// if that makes no difference, and no further request for as much will make any.
func (p *Passing) Add(r *Request) bool {
	l, at, left := r.Load(), len(p.ahead), p.steps
	if r.Exclusive {
		l = Load{gpu.MiB(p.memory.room.this), int(p.slots.room.this)}
	}
	p.ahead = append(p.ahead, r)
	p.steps--
	memory := p.memory.add(l.memory(), at, &p.steps)
	slots := p.slots.add(l.slots(), at, &p.steps)
	if p.queue != nil {
		p.queue.work += left - p.steps
	}
	return memory || slots
}

// AddAll adds the requests ahead that other has.
func (p *Passing) AddAll(other *Passing) {
	for _, r := range other.ahead {
		p.Add(r)
	}
}

// Allows reports whether a later load delays nobody.
func (p *Passing) Allows(later Load) bool {
	return p.memory.allows(int64(later.Memory)) && p.slots.allows(int64(later.Slots))
}

// Delayed returns a request ahead that a later load would delay; nil if it delays
// none.
func (p *Passing) Delayed(later Load) *Request {
	first := min(p.memory.delayed(int64(later.Memory)), p.slots.delayed(int64(later.Slots)))
	if first == nobody {
		return nil
	}
	return p.ahead[first]
}

// holdings appends the load of everything on the device to list.
func (d *device) holdings(list []Load) []Load {
	add := func(l Load) {
		if l != (Load{}) {
			list = append(list, l)
		}
	}
	for _, s := range d.spots {
		leased, overuse, slots := s.entry.counted(s.part, &s.entry.lease.Parts[s.part])
		add(Load{leased + overuse, slots})
	}
	add(Load{Memory: d.Foreign})
	add(Load{Slots: max(d.MaxPipelines-d.Usable, 0)})
	return list
}
