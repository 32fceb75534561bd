package lease

import (
	"cmp"
	"slices"

	"github.com/berth-gpu/berth/gpu"
)

// Load is the memory and the slots that a lease or a request takes of one device.
type Load struct {
	Memory gpu.MiB
	Slots  int
}

func (l Load) plus(m Load) Load { return Load{l.Memory + m.Memory, l.Slots + m.Slots} }

func (l Load) within(room Load) bool { return l.Memory <= room.Memory && l.Slots <= room.Slots }

// maxSteps is how many sets of holdings Delays looks at before it gives up and
// answers that the later request delays the one ahead.
const maxSteps = 1 << 12

// Delays reports whether a later request, if granted on a device, could make a
// request ahead of it in the queue wait longer there.
//
// Nobody knows which of the holdings on the device will end, and in which order,
// so Delays considers every outcome: the later request delays the one ahead if
// there is a set of holdings beside which the one ahead fits on the device, but
// no longer fits beside the later one too. If there is no such set, then whenever
// the one ahead could start without the later one, it can start with it. Holdings
// are everything that may be on the device by then: the present leases, and the
// other requests ahead, which may be granted first. Room is what the empty device
// has.
//
// There are 2^n sets, but equal holdings count as one, and Delays leaves a branch
// in which nothing can be too much. After maxSteps sets it answers true: waiting
// longer than necessary is fair, passing is not.
func Delays(room, ahead, later Load, holdings []Load) bool {
	p := passing{room: room, steps: maxSteps}
	p.sorted = append(p.sorted, holdings...)
	p.sort()
	return p.delays(ahead, later, p.sorted)
}

// passing is one question of Delays. It keeps its slices for the next question.
type passing struct {
	room   Load
	need   Load // ahead
	both   Load // ahead and later
	sorted []Load
	ahead  []*Request
	others []Load // sorted, without the one ahead
	list   []Load // holdings beside the one ahead
	rest   []Load // rest[i] is the sum of list[i:]
	steps  int    // left
}

// sort puts equal holdings together and large ones first, where they close
// branches early.
func (p *passing) sort() {
	slices.SortFunc(p.sorted, func(a, b Load) int {
		return cmp.Or(cmp.Compare(b.Memory, a.Memory), cmp.Compare(b.Slots, a.Slots))
	})
}

func (p *passing) delays(ahead, later Load, holdings []Load) bool {
	p.need, p.both, p.list = ahead, ahead.plus(later), holdings
	p.rest = append(p.rest[:0], make([]Load, len(holdings)+1)...)
	for i := len(holdings) - 1; i >= 0; i-- {
		p.rest[i] = p.rest[i+1].plus(holdings[i])
	}
	return ahead.within(p.room) && p.tooMuch(0, Load{})
}

// tooMuch reports whether some of the holdings from i on, together with those
// already taken, leave room for the one ahead but not for both.
func (p *passing) tooMuch(i int, taken Load) bool {
	if p.steps--; p.steps < 0 || !taken.plus(p.both).within(p.room) {
		return true
	}
	for i < len(p.list) {
		if taken.plus(p.rest[i]).plus(p.both).within(p.room) {
			return false
		}
		with := taken.plus(p.list[i])
		if with.plus(p.need).within(p.room) && p.tooMuch(i+1, with) {
			return true
		}
		for skipped := p.list[i]; i < len(p.list) && p.list[i] == skipped; {
			i++
		}
	}
	return false
}

// Devices knows which devices suit a request.
type Devices interface {
	// Could reports whether a device would suit a request if the device were
	// empty and healthy.
	Could(uuid string, r *Request) bool
}

// Delayed returns the first request ahead that a later load would delay on a
// device; nil if it delays none. It ignores requests ahead that this device never
// suits. It counts as holdings what throttling and processes under no lease take
// from the device, because that may be gone when the ledger looks at the one
// ahead again.
func (b *Book) Delayed(uuid string, later Load, ahead []*Request, devices Devices) *Request {
	d := b.devices[uuid]
	if d == nil || len(ahead) == 0 {
		return nil
	}
	p := &b.passing
	p.room, p.steps = Load{d.Ceiling(), d.MaxPipelines}, maxSteps
	p.sorted, p.ahead = d.holdings(p.sorted[:0]), p.ahead[:0]
	for _, r := range ahead {
		if !devices.Could(uuid, r) {
			continue
		}
		// The empty set comes first and often decides. It needs no sorting.
		if need := r.Load(); need.within(p.room) && !need.plus(later).within(p.room) {
			return r
		}
		p.ahead = append(p.ahead, r)
		p.sorted = append(p.sorted, r.Load())
	}
	p.sort()
	for _, r := range p.ahead {
		at := slices.Index(p.sorted, r.Load())
		p.others = append(append(p.others[:0], p.sorted[:at]...), p.sorted[at+1:]...)
		if p.delays(r.Load(), later, p.others) {
			return r
		}
	}
	return nil
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
