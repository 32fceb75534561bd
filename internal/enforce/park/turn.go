package park

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// Plan says what to do about the leases on the devices now, so that the waiting requests
// get their turn.
type Plan struct {
	Warn  []Action  // warn the holders that their leases are about to be parked
	Park  []Action  // park these leases, which were warned and whose grace is over, or send their programs away
	Spare []uint64  // fences of leases that were warned but are not parked
	Next  time.Time // when to ask again if nothing changes before; zero if only a change can help
}

// Action is about one lease.
type Action struct {
	placement.Holding
	For placement.Want
}

// Turn decides whose turn it is, by the rules that each lease carries. It serves the
// waiting requests in their order, and finds for each the device that the fewest leases
// have to leave for it. A lease leaves only for a request of the same or a higher
// priority. One that uses its device leaves after it has kept it for Rules.Keep, when its
// time slice is over or the request has waited for Rules.Wait. One that is idle leaves
// after Rules.Keep too, or earlier if the request has waited for Rules.Wait. Turn moves a
// lease only if the request then fits, and never more leases than it takes.
//
// On a device that a request waits for, Turn moves nobody for the requests behind it: the
// book would not grant them what it keeps for the first.
func Turn(now time.Time, p placement.Pressure) Plan {
	t := newTurn(now, p)
	for _, w := range p.Wants {
		t.serve(w)
	}
	for _, h := range p.Holdings {
		if !h.Warned.IsZero() && !h.Leaves && !t.chosen[h.Fence] {
			t.plan.Spare = append(t.plan.Spare, h.Fence)
		}
	}
	return t.plan
}

type turn struct {
	now      time.Time
	holdings map[string][]placement.Holding // by device
	host     gpu.MiB                        // memory of the machine that is still free
	spoken   map[string]bool                // devices that a request before this one waits for
	chosen   map[uint64]bool                // leases, by fence
	plan     Plan
}

func newTurn(now time.Time, p placement.Pressure) turn {
	t := turn{now: now, holdings: map[string][]placement.Holding{}, host: p.Host, spoken: map[string]bool{}, chosen: map[uint64]bool{}}
	for _, h := range p.Holdings {
		t.holdings[h.GPU] = append(t.holdings[h.GPU], h)
	}
	return t
}

// exit says which leases have to leave a device for a request, and when they can.
type exit struct {
	gpu    string
	leaves []placement.Holding
	at     time.Time // zero means now
	moved  gpu.MiB
	host   gpu.MiB // memory of the machine that they take
}

// serve looks for room for a request.
func (t *turn) serve(w placement.Want) {
	var exits []exit
	for _, room := range w.Rooms {
		if t.spoken[room.GPU] {
			continue
		}
		if e, possible := t.exit(w, room); possible {
			exits = append(exits, e)
		}
	}
	devices := max(w.GPUs, 1)
	slices.SortStableFunc(exits, func(a, b exit) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.moved, b.moved), cmp.Compare(len(a.leaves), len(b.leaves)))
	})
	if len(exits) < devices || !exits[devices-1].at.IsZero() {
		for _, room := range w.Rooms {
			t.spoken[room.GPU] = true
		}
		if len(exits) >= devices {
			t.again(exits[devices-1].at)
		}
		return
	}
	var leaves []placement.Holding
	for _, e := range exits[:devices] {
		t.spoken[e.gpu] = true
		leaves = append(leaves, e.leaves...)
		t.host -= e.host
	}
	t.clear(w, leaves)
}

// clear warns the leases that leave for a request, and parks them once the grace of all
// is over.
func (t *turn) clear(w placement.Want, leaves []placement.Holding) {
	var ends time.Time                                                  // of the last grace
	leaves = slices.DeleteFunc(leaves, func(h placement.Holding) bool { // a lease on two devices leaves once
		again := t.chosen[h.Fence]
		t.chosen[h.Fence] = true
		return again
	})
	for _, h := range leaves {
		if h.Warned.IsZero() && h.Rules.Grace > 0 {
			t.plan.Warn = append(t.plan.Warn, Action{h, w})
			h.Warned = t.now
		}
		if end := h.Warned.Add(h.Rules.Grace); !h.Warned.IsZero() && end.After(ends) {
			ends = end
		}
	}
	if ends.After(t.now) {
		t.again(ends)
		return
	}
	for _, h := range leaves {
		t.plan.Park = append(t.plan.Park, Action{h, w})
	}
}

func (t *turn) again(at time.Time) {
	if t.plan.Next.IsZero() || at.Before(t.plan.Next) {
		t.plan.Next = at
	}
}

// candidate is a lease that may leave its device for a request.
type candidate struct {
	placement.Holding
	ready time.Time // from when
}

// bound is at least what some leases can free together. It tells when they need no closer
// look: one user may have a thousand of them.
type bound struct {
	host   gpu.MiB // memory of the machine that they take
	beside gpu.MiB // memory that they free beyond that
	slots  int
}

func (b *bound) add(h placement.Holding) {
	b.host, b.beside, b.slots = b.host+takes(h), b.beside+max(h.Memory-takes(h), 0), b.slots+h.Slots
}

// exit returns which leases have to leave a device for a request. It returns false if the
// request does not fit even if all leases leave that may ever be moved for it.
func (t *turn) exit(w placement.Want, room placement.Room) (exit, bool) {
	memory, slots := room.Missing, room.MissingSlots
	var may []candidate
	var most bound
	for _, h := range t.holdings[room.GPU] {
		switch {
		case h.Leaves:
			memory, slots = memory-h.Memory, slots-h.Slots
		case h.Parkable && h.Priority <= w.Priority && h.Fence != w.Into && !t.chosen[h.Fence] && takes(h) <= t.host:
			may = append(may, candidate{h, ready(h, w)})
			most.add(h)
		}
	}
	enough := func(b bound) bool { return memory <= b.beside+min(b.host, t.host) && slots <= b.slots }
	switch {
	case memory <= 0 && slots <= 0:
		return exit{gpu: room.GPU}, true
	case !enough(most):
		return exit{}, false
	}
	t.sort(may, w)
	soonest := slices.Clone(may)
	slices.SortStableFunc(soonest, func(a, b candidate) int { return a.ready.Compare(b.ready) })
	most = bound{}
	for i, c := range soonest {
		most.add(c.Holding)
		at := later(c.ready, t.now)
		if i+1 < len(soonest) && !soonest[i+1].ready.After(at) || !enough(most) {
			continue // consider all leases that may leave at one moment together
		}
		leaves, fits := t.choose(may, at, memory, slots)
		if !fits {
			continue
		}
		e := exit{gpu: room.GPU, leaves: leaves}
		for _, h := range leaves {
			e.moved, e.host = e.moved+h.Measured, e.host+takes(h)
		}
		if at.After(t.now) {
			e.at = at
		}
		return e, true
	}
	return exit{}, false
}

// ready returns the time from which a lease may leave for a request.
func ready(h placement.Holding, w placement.Want) time.Time {
	at := due(h, w)
	if idle := h.Idle.Add(h.Rules.IdleAfter); !h.Idle.IsZero() {
		at = earlier(at, later(idle, waited(h, w, h.Since.Add(h.Rules.Keep))))
	}
	return later(at, h.Barred)
}

// due returns the time from which a lease may leave for a request even if it uses its
// device.
func due(h placement.Holding, w placement.Want) time.Time {
	return later(waited(h, w, h.Since.Add(h.Rules.Slice)), h.Since.Add(h.Rules.Keep))
}

// waited returns at, or when a request has waited long enough for a lease if that is
// earlier.
func waited(h placement.Holding, w placement.Want, at time.Time) time.Time {
	if h.Rules.Wait == 0 {
		return at
	}
	return earlier(at, w.Since.Add(h.Rules.Wait))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// takes returns how much memory of the machine a lease takes when it leaves. A program
// that berth runs can always leave without any.
func takes(h placement.Holding) gpu.MiB {
	if h.Program {
		return 0
	}
	return h.Measured
}

// sort puts those first that leave first: lower priorities, then leases whose time slice is
// over, and idle ones among them, then leases that were already warned, and then those with
// the least to move.
func (t *turn) sort(may []candidate, w placement.Want) {
	never := time.Time{}
	slices.SortFunc(may, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(t.rank(a.Holding, w), t.rank(b.Holding, w)),
			b.Warned.Compare(never)-a.Warned.Compare(never), cmp.Compare(a.Measured, b.Measured), a.Since.Compare(b.Since), cmp.Compare(a.Fence, b.Fence))
	})
}

// choose returns some of the leases that may leave by a time, the first of them where it
// can, whose leaving frees this much, and false if all of them free less.
func (t *turn) choose(may []candidate, by time.Time, memory gpu.MiB, slots int) ([]placement.Holding, bool) {
	host := t.host
	var leaves []placement.Holding
	for i := range may {
		h := &may[i]
		if h.ready.After(by) || takes(h.Holding) > host || !(memory > 0 && h.Memory > 0 || slots > 0 && h.Slots > 0) {
			continue // it cannot leave, or that would help nobody
		}
		leaves = append(leaves, h.Holding)
		host, memory, slots = host-takes(h.Holding), memory-h.Memory, slots-h.Slots
	}
	if memory > 0 || slots > 0 {
		return nil, false
	}
	for i := len(leaves) - 1; i >= 0; i-- { // the later ones may free enough without the earlier ones
		if h := leaves[i]; memory+h.Memory <= 0 && slots+h.Slots <= 0 {
			memory, slots = memory+h.Memory, slots+h.Slots
			leaves = slices.Delete(leaves, i, i+1)
		}
	}
	return leaves, true
}

// rank orders leases of one priority: those that leave first come first.
func (t *turn) rank(h placement.Holding, w placement.Want) int {
	over := !t.now.Before(due(h, w))
	switch {
	case over && !h.Idle.IsZero():
		return 0
	case over:
		return 1
	}
	return 2
}

// Yielding decides which parked leases let others go first, at one moment. It judges each
// waiting request once.
type Yielding struct {
	first map[string][]placement.Want // by device: requests that get it within a turn, the oldest first
}

// NewYielding returns the Yielding of a moment.
func NewYielding(now time.Time, p placement.Pressure) *Yielding {
	t, y := newTurn(now, p), &Yielding{first: map[string][]placement.Want{}}
	wants := slices.Clone(p.Wants)
	slices.SortStableFunc(wants, func(a, b placement.Want) int { return a.Since.Compare(b.Since) })
	for _, w := range wants {
		for _, room := range w.Rooms {
			before := 0 // older ones of its priority or a higher one: two go before whoever it goes before
			for _, first := range y.first[room.GPU] {
				if first.Priority >= w.Priority {
					before++
				}
			}
			if before < 2 && (room.Missing > 0 || room.MissingSlots > 0) && t.soon(w, room) {
				y.first[room.GPU] = append(y.first[room.GPU], w)
			}
		}
	}
	return y
}

// soon reports whether a request gets a device within a turn.
func (t *turn) soon(w placement.Want, room placement.Room) bool {
	e, possible := t.exit(w, room)
	turn := time.Duration(0)
	for _, h := range e.leaves {
		turn = max(turn, h.Rules.Keep+h.Rules.Slice)
	}
	return possible && !e.at.After(t.now.Add(turn))
}

// Yields reports whether a parked lease lets others go first, instead of already waiting
// for its turn in the queue: a request of its priority or a higher one has waited longer
// for the same device, and gets it within a turn because others are parked for it.
//
// The queue goes by the shares of users before it goes by age. Without Yields, a service
// whose user has something else would wait forever while two others take turns: the one
// that was parked last would always be ahead of it.
func (y *Yielding) Yields(parked placement.Holding) bool {
	return slices.ContainsFunc(y.first[parked.GPU], func(w placement.Want) bool {
		return w.Into != parked.Fence && w.Priority >= parked.Priority && w.Since.Before(parked.Since)
	})
}
