package park

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// Rules say when berth parks a lease by itself.
type Rules struct {
	IdleAfter time.Duration // a lease is idle after it has not used its device for this long
	Grace     time.Duration // from the warning to the parking
	Keep      time.Duration // a lease keeps its device at least this long, after its grant and after each return
	Slice     time.Duration // a lease keeps its device this long while others wait, even if it uses it
}

// Plan says what to do about the leases on the devices now, so that the waiting requests
// get their turn.
type Plan struct {
	Warn  []Action  // warn the holders that their leases are about to be parked
	Park  []Action  // park these leases, which were warned and whose grace is over
	Spare []uint64  // fences of leases that were warned but are not parked
	Next  time.Time // when to ask again if nothing changes before; zero if only a change can help
}

// Action is about one lease.
type Action struct {
	placement.Holding
	For placement.Want
}

// Turn decides whose turn it is. It serves the waiting requests in their order, and finds
// for each the device that the fewest leases have to leave for it. A lease leaves only
// for a request of the same or a higher priority, after it has kept its device for
// Rules.Keep, and if it is idle or its time slice is over. Turn moves a lease only if the
// request then fits, and never more leases than it takes.
//
// On a device that a request waits for, Turn moves nobody for the requests behind it: the
// book would not grant them what it keeps for the first.
func Turn(now time.Time, r Rules, p placement.Pressure) Plan {
	t := turn{now: now, rules: r, pressure: p, host: p.Host, spoken: map[string]bool{}, chosen: map[uint64]bool{}}
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
	rules    Rules
	pressure placement.Pressure
	host     gpu.MiB         // memory of the machine that is still free
	spoken   map[string]bool // devices that a request before this one waits for
	chosen   map[uint64]bool // leases, by fence
	plan     Plan
}

// exit says which leases have to leave a device for a request, and when they can.
type exit struct {
	gpu    string
	leaves []placement.Holding
	at     time.Time // zero means now
	moved  gpu.MiB
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
		t.host -= e.moved
	}
	t.clear(w, leaves)
}

// clear warns the leases that leave for a request, and parks them once the grace of all
// is over.
func (t *turn) clear(w placement.Want, leaves []placement.Holding) {
	var ends time.Time // of the last grace
	for _, h := range leaves {
		t.chosen[h.Fence] = true
		if h.Warned.IsZero() && t.rules.Grace > 0 {
			t.plan.Warn = append(t.plan.Warn, Action{h, w})
			h.Warned = t.now
		}
		if end := h.Warned.Add(t.rules.Grace); !h.Warned.IsZero() && end.After(ends) {
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

// exit returns which leases have to leave a device for a request. It returns false if the
// request does not fit even if all leases leave that may ever be moved for it.
func (t *turn) exit(w placement.Want, room placement.Room) (exit, bool) {
	memory, slots := room.Missing, room.MissingSlots
	var may []placement.Holding
	for _, h := range t.pressure.Holdings {
		switch {
		case h.GPU != room.GPU:
		case h.Leaves:
			memory, slots = memory-h.Memory, slots-h.Slots
		case h.Parkable && h.Priority <= w.Priority && h.Fence != w.Into && !t.chosen[h.Fence]:
			may = append(may, h)
		}
	}
	slices.SortStableFunc(may, func(a, b placement.Holding) int { return t.ready(a).Compare(t.ready(b)) })
	for n := range len(may) + 1 {
		if n > 0 && n < len(may) && !t.ready(may[n]).After(t.now) {
			continue // consider all leases that may leave now together
		}
		leaves, enough := t.choose(may[:n], memory, slots)
		if !enough {
			continue
		}
		e := exit{gpu: room.GPU, leaves: leaves}
		for _, h := range leaves {
			e.moved += h.Measured
		}
		if n > 0 && t.ready(may[n-1]).After(t.now) {
			e.at = t.ready(may[n-1])
		}
		return e, true
	}
	return exit{}, false
}

// ready returns the time from which a lease may be parked.
func (t *turn) ready(h placement.Holding) time.Time {
	at := t.sliceEnd(h)
	if idle := h.Idle.Add(t.rules.IdleAfter); !h.Idle.IsZero() && idle.Before(at) {
		at = idle
	}
	for _, earliest := range []time.Time{h.Since.Add(t.rules.Keep), h.Barred} {
		if earliest.After(at) {
			at = earliest
		}
	}
	return at
}

func (t *turn) sliceEnd(h placement.Holding) time.Time { return h.Since.Add(t.rules.Slice) }

// choose returns some of the leases whose leaving frees this much, and false if all of
// them free less. It prefers lower priorities, then leases whose time slice is over, and
// idle ones among them, then leases that were already warned, and then those with the
// least to move.
func (t *turn) choose(may []placement.Holding, memory gpu.MiB, slots int) ([]placement.Holding, bool) {
	order := slices.Clone(may)
	slices.SortStableFunc(order, func(a, b placement.Holding) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(t.rank(a), t.rank(b)),
			compareBool(a.Warned.IsZero(), b.Warned.IsZero()), cmp.Compare(a.Measured, b.Measured), a.Since.Compare(b.Since), cmp.Compare(a.Fence, b.Fence))
	})
	host := t.host
	var leaves []placement.Holding
	for _, h := range order {
		if memory <= 0 && slots <= 0 {
			break
		}
		if h.Measured > host || !(memory > 0 && h.Memory > 0 || slots > 0 && h.Slots > 0) {
			continue // it cannot leave, or that would help nobody
		}
		leaves = append(leaves, h)
		host, memory, slots = host-h.Measured, memory-h.Memory, slots-h.Slots
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
func (t *turn) rank(h placement.Holding) int {
	over := !t.now.Before(t.sliceEnd(h))
	switch {
	case over && !h.Idle.IsZero():
		return 0
	case over:
		return 1
	}
	return 2
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Yields reports whether a parked lease lets others go first, instead of already waiting
// for its turn in the queue: a request of its priority or a higher one has waited longer
// for the same device, and gets it within a turn because others are parked for it.
//
// The queue goes by the shares of users before it goes by age. Without Yields, a service
// whose user has something else would wait forever while two others take turns: the one
// that was parked last would always be ahead of it.
func Yields(now time.Time, r Rules, p placement.Pressure, parked placement.Holding) bool {
	return slices.ContainsFunc(p.Wants, func(w placement.Want) bool {
		if w.Into == parked.Fence || w.Priority < parked.Priority || !w.Since.Before(parked.Since) {
			return false
		}
		t := turn{now: now, rules: r, pressure: p, host: p.Host}
		return slices.ContainsFunc(w.Rooms, func(room placement.Room) bool {
			if room.GPU != parked.GPU || room.Missing <= 0 && room.MissingSlots <= 0 {
				return false
			}
			e, possible := t.exit(w, room)
			return possible && !e.at.After(now.Add(r.Keep+r.Slice))
		})
	})
}
