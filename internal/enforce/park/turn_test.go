package park_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

var rules = placement.Rules{IdleAfter: 60 * time.Second, Grace: 5 * time.Second, Keep: 60 * time.Second, Slice: 300 * time.Second}

var start = time.Unix(1e9, 0)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// holding returns a lease with a fence that took its device at a time.
func holding(fence uint64, memory gpu.MiB, since int, change ...func(*placement.Holding)) placement.Holding {
	h := placement.Holding{Fence: fence, GPU: "A", Memory: memory, Measured: memory, Slots: 1, Parkable: true, Since: at(since), Rules: rules}
	for _, c := range change {
		c(&h)
	}
	return h
}

func idle(since int) func(*placement.Holding) {
	return func(h *placement.Holding) { h.Idle = at(since) }
}
func warned(when int) func(*placement.Holding) {
	return func(h *placement.Holding) { h.Warned = at(when) }
}
func on(gpu string) func(*placement.Holding) { return func(h *placement.Holding) { h.GPU = gpu } }
func ranks(priority int) func(*placement.Holding) {
	return func(h *placement.Holding) { h.Priority = priority }
}
func measured(memory gpu.MiB) func(*placement.Holding) {
	return func(h *placement.Holding) { h.Measured = memory }
}
func slots(n int) func(*placement.Holding) { return func(h *placement.Holding) { h.Slots = n } }
func leaves(h *placement.Holding)          { h.Leaves = true }
func fixed(h *placement.Holding)           { h.Parkable = false }

// want returns a request that lacks memory on devices.
func want(id string, rooms ...placement.Room) placement.Want {
	return placement.Want{Key: lease.Key{ID: id}, GPUs: 1, Rooms: rooms}
}

func lacks(gpu string, memory gpu.MiB) placement.Room {
	return placement.Room{GPU: gpu, Missing: memory}
}

func fences(list []park.Action) (all []uint64) {
	for _, a := range list {
		all = append(all, a.Fence)
	}
	slices.Sort(all)
	return all
}

func TestTurn(t *testing.T) {
	holdings := func(list ...placement.Holding) []placement.Holding { return list }
	wants := func(list ...placement.Want) []placement.Want { return list }
	none := []uint64(nil)
	for _, x := range []struct {
		name     string
		now      int
		holdings []placement.Holding
		wants    []placement.Want
		host     gpu.MiB // zero: plenty
		warn     []uint64
		park     []uint64
		spare    []uint64
		next     int // zero: never
	}{
		{"nobody waits", 1000, holdings(holding(1, 100, 0)), nil, 0, none, none, none, 0},
		{"its slice is over: it is warned", 300, holdings(holding(1, 100, 0)), wants(want("w", lacks("A", 50))), 0, []uint64{1}, none, none, 305},
		{"its grace runs", 303, holdings(holding(1, 100, 0, warned(300))), wants(want("w", lacks("A", 50))), 0, none, none, none, 305},
		{"its grace is over", 305, holdings(holding(1, 100, 0, warned(300))), wants(want("w", lacks("A", 50))), 0, none, []uint64{1}, none, 0},
		{"its slice runs", 100, holdings(holding(1, 100, 0)), wants(want("w", lacks("A", 50))), 0, none, none, none, 300},
		{"it is idle", 100, holdings(holding(1, 100, 0, idle(40))), wants(want("w", lacks("A", 50))), 0, []uint64{1}, none, none, 105},
		{"it is not idle for long enough", 90, holdings(holding(1, 100, 0, idle(40))), wants(want("w", lacks("A", 50))), 0, none, none, none, 100},
		{"it keeps its device for a while, also if idle", 30, holdings(holding(1, 100, 10, idle(-60))), wants(want("w", lacks("A", 50))), 0, none, none, none, 70},
		{"it became busy in its grace", 105, holdings(holding(1, 100, 0, warned(100))), wants(want("w", lacks("A", 50))), 0, none, none, []uint64{1}, 300},
		{"the request has gone in its grace", 105, holdings(holding(1, 100, 0, warned(100))), nil, 0, none, none, []uint64{1}, 0},
		{"it may not be parked", 1000, holdings(holding(1, 100, 0, fixed)), wants(want("w", lacks("A", 50))), 0, none, none, none, 0},
		{"all of them do not suffice", 1000, holdings(holding(1, 40, 0), holding(2, 100, 0, fixed)), wants(want("w", lacks("A", 50))), 0, none, none, none, 0},
		{"it has a higher priority", 1000, holdings(holding(1, 100, 0, ranks(1))), wants(want("w", lacks("A", 50))), 0, none, none, none, 0},
		{"the lower priority leaves first", 1000, holdings(holding(1, 60, 0, ranks(0)), holding(2, 100, 0, ranks(-1))), wants(want("w", lacks("A", 50))), 0, []uint64{2}, none, none, 1005},
		{"the least is moved", 1000, holdings(holding(1, 100, 0), holding(2, 60, 0), holding(3, 10, 0)), wants(want("w", lacks("A", 50))), 0, []uint64{2}, none, none, 1005},
		{"two leave together", 1000, holdings(holding(1, 30, 0), holding(2, 30, 0)), wants(want("w", lacks("A", 50))), 0, []uint64{1, 2}, none, none, 1005},
		{"both have their grace", 1003, holdings(holding(1, 30, 0, warned(990)), holding(2, 30, 0, warned(1000))), wants(want("w", lacks("A", 50))), 0, none, none, none, 1005},
		{"a slice that is over comes before an idle one", 400, holdings(holding(1, 60, 200, idle(250)), holding(2, 100, 0)), wants(want("w", lacks("A", 50))), 0, []uint64{2}, none, none, 405},
		{"the idle one leaves first if both slices are over", 1000, holdings(holding(1, 60, 0), holding(2, 100, 0, idle(0))), wants(want("w", lacks("A", 50))), 0, []uint64{2}, none, none, 1005},
		{"who was warned stays chosen", 1000, holdings(holding(1, 60, 0), holding(2, 100, 0, warned(998))), wants(want("w", lacks("A", 50))), 0, none, none, none, 1003},
		{"one leaves already", 1000, holdings(holding(1, 60, 0, leaves), holding(2, 100, 0)), wants(want("w", lacks("A", 50))), 0, none, none, none, 0},
		{"the one that leaves is not enough", 1000, holdings(holding(1, 20, 0, leaves), holding(2, 100, 0)), wants(want("w", lacks("A", 50))), 0, []uint64{2}, none, none, 1005},
		{"nobody leaves for the second", 1000, holdings(holding(1, 60, 0), holding(2, 60, 0)), wants(want("w", lacks("A", 50)), want("x", lacks("A", 100))), 0, []uint64{1}, none, none, 1005},
		{"nobody leaves for the second if the first cannot be helped", 1000, holdings(holding(1, 60, 0)), wants(want("w", lacks("A", 500)), want("x", lacks("A", 10))), 0, none, none, none, 0},
		{"the second is on another device", 1000, holdings(holding(1, 60, 0), holding(2, 60, 0, on("B"))), wants(want("w", lacks("A", 50)), want("x", lacks("B", 50))), 0, []uint64{1, 2}, none, none, 1005},
		{"room would not help the first", 1000, holdings(holding(1, 60, 0)), wants(want("w"), want("x", lacks("A", 50))), 0, []uint64{1}, none, none, 1005},
		{"the device with the least to move", 1000, holdings(holding(1, 90, 0), holding(2, 60, 0, on("B"))), wants(want("w", lacks("A", 50), lacks("B", 50))), 0, []uint64{2}, none, none, 1005},
		{"the device that is ready", 1000, holdings(holding(1, 90, 0), holding(2, 60, 900, on("B"))), wants(want("w", lacks("A", 50), lacks("B", 50))), 0, []uint64{1}, none, none, 1005},
		{"there is room already", 1000, holdings(holding(1, 60, 0)), wants(want("w", lacks("A", 0))), 0, none, none, none, 0},
		{"the machine has no memory for it", 1000, holdings(holding(1, 60, 0)), wants(want("w", lacks("A", 50))), 59, none, none, none, 0},
		{"the machine has memory for a smaller one", 1000, holdings(holding(1, 90, 0), holding(2, 55, 900)), wants(want("w", lacks("A", 50))), 60, none, none, none, 1200},
		{"a lease does not leave for itself", 1000, holdings(holding(1, 60, 0)), wants(placement.Want{Into: 1, Rooms: []placement.Room{lacks("A", 50)}}), 0, none, none, none, 0},
		{"one that could not be parked waits", 1000, holdings(holding(1, 60, 0, func(h *placement.Holding) { h.Barred = at(2000) })), wants(want("w", lacks("A", 50))), 0, none, none, none, 2000},
		{"slots are what is missing", 1000, holdings(holding(1, 60, 0), holding(2, 10, 0)), wants(want("w", placement.Room{GPU: "A", MissingSlots: 1})), 0, []uint64{2}, none, none, 1005},
		{"two devices", 1000, holdings(holding(1, 60, 0), holding(2, 60, 0, on("B"))), wants(placement.Want{GPUs: 2, Rooms: []placement.Room{lacks("A", 50), lacks("B", 50)}}), 0, []uint64{1, 2}, none, none, 1005},
		{"one leaves for the first only, though two could", 1000, holdings(holding(1, 60, 0), holding(2, 60, 0)), wants(want("w", lacks("A", 50)), want("x", lacks("A", 50))), 0, []uint64{1}, none, none, 1005},
		{"the machine has memory for the first request only", 1000, holdings(holding(1, 60, 0), holding(2, 60, 0, on("B"))), wants(want("w", lacks("A", 50)), want("x", lacks("B", 50))), 100, []uint64{1}, none, none, 1005},
		{"the machine has memory for one of two", 1000, holdings(holding(1, 30, 0), holding(2, 30, 0)), wants(want("w", lacks("A", 50))), 59, none, none, none, 0},
		{"both have their grace, also the one that was warned first", 1003, holdings(holding(1, 30, 0, warned(1000)), holding(2, 30, 0, warned(990))), wants(want("w", lacks("A", 50))), 0, none, none, none, 1005},
		{"the two that are ready first", 100, holdings(holding(1, 25, 100), holding(2, 30, 0), holding(3, 40, 200)), wants(want("w", lacks("A", 50))), 0, none, none, none, 400},
		{"a lower priority that is not ready stays", 1000, holdings(holding(1, 60, 900, ranks(-1)), holding(2, 60, 0)), wants(want("w", lacks("A", 50))), 0, []uint64{2}, none, none, 1005},
		{"one without memory does not help", 1000, holdings(holding(1, 0, 0, measured(20)), holding(2, 60, 0, measured(55))), wants(want("w", lacks("A", 50))), 60, []uint64{2}, none, none, 1005},
		{"one without slots does not help", 1000, holdings(holding(1, 10, 0, measured(20), slots(0)), holding(2, 60, 0, measured(55))), wants(want("w", placement.Room{GPU: "A", MissingSlots: 1})), 60, []uint64{2}, none, none, 1005},
		{"the larger one is exactly enough", 1000, holdings(holding(1, 20, 0), holding(2, 50, 0)), wants(want("w", placement.Room{GPU: "A", Missing: 50, MissingSlots: 1})), 0, []uint64{2}, none, none, 1005},
		{"one of the smaller ones is needed", 1000, holdings(holding(1, 20, 0), holding(2, 20, 0), holding(3, 40, 0)), wants(want("w", lacks("A", 50))), 0, []uint64{1, 3}, none, none, 1005},
		{"the slots of one of the smaller ones are needed", 1000, holdings(holding(1, 1, 0), holding(2, 1, 0), holding(3, 2, 0, slots(2))), wants(want("w", placement.Room{GPU: "A", MissingSlots: 3})), 0, []uint64{1, 3}, none, none, 1005},
		{"one of two devices", 1000, holdings(holding(1, 60, 0), holding(2, 60, 0, on("B"), fixed)), wants(placement.Want{GPUs: 2, Rooms: []placement.Room{lacks("A", 50), lacks("B", 50)}}), 0, none, none, none, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			if x.host == 0 {
				x.host = 1 << 20
			}
			p := park.Turn(at(x.now), placement.Pressure{Holdings: x.holdings, Wants: x.wants, Host: x.host})
			slices.Sort(p.Spare)
			next := time.Time{}
			if x.next != 0 {
				next = at(x.next)
			}
			if !slices.Equal(fences(p.Warn), x.warn) || !slices.Equal(fences(p.Park), x.park) || !slices.Equal(p.Spare, x.spare) || !p.Next.Equal(next) {
				t.Errorf("warn %v, park %v, spare %v, next %v; want %v, %v, %v, %v", fences(p.Warn), fences(p.Park), p.Spare, p.Next.Sub(start), x.warn, x.park, x.spare, next.Sub(start))
			}
		})
	}
}

// Turn keeps its promises whatever the pressure is.
func TestTurnKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := []string{"A", "B"}
		p := placement.Pressure{Host: gpu.MiB(rapid.IntRange(0, 300).Draw(t, "host"))}
		seconds := rapid.IntRange(-400, 0)
		for i := range rapid.IntRange(0, 6).Draw(t, "leases") {
			h := placement.Holding{
				Fence: uint64(i + 1), GPU: rapid.SampledFrom(devices).Draw(t, "on"), Memory: gpu.MiB(rapid.IntRange(0, 100).Draw(t, "memory")), Slots: rapid.IntRange(0, 2).Draw(t, "slots"),
				Priority: rapid.IntRange(0, 2).Draw(t, "priority"), Parkable: rapid.IntRange(0, 3).Draw(t, "parkable") > 0, Since: at(seconds.Draw(t, "since")), Leaves: rapid.IntRange(0, 4).Draw(t, "leaves") == 0, Rules: rules,
			}
			h.Measured = h.Memory + gpu.MiB(rapid.IntRange(-int(h.Memory), 10).Draw(t, "measured"))
			if rapid.Bool().Draw(t, "idle") {
				h.Idle = at(seconds.Draw(t, "idle since"))
			}
			if rapid.Bool().Draw(t, "warned") {
				h.Warned = at(rapid.IntRange(-10, 0).Draw(t, "warned at"))
			}
			p.Holdings = append(p.Holdings, h)
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "wants") {
			w := placement.Want{Key: lease.Key{ID: fmt.Sprint(i)}, Priority: 2 - i/2, Into: uint64(rapid.IntRange(0, 3).Draw(t, "into")), GPUs: 1}
			for _, d := range devices {
				if rapid.IntRange(0, 3).Draw(t, "fits") > 0 {
					w.Rooms = append(w.Rooms, placement.Room{GPU: d, Missing: gpu.MiB(rapid.IntRange(0, 150).Draw(t, "missing")), MissingSlots: rapid.IntRange(0, 3).Draw(t, "missing slots")})
				}
			}
			p.Wants = append(p.Wants, w)
		}
		now := at(0)
		plan := park.Turn(now, p)
		if !plan.Next.IsZero() && !plan.Next.After(now) {
			t.Fatalf("to be asked again at %v", plan.Next)
		}
		moved := gpu.MiB(0)
		seen := map[uint64]bool{}
		for _, a := range slices.Concat(plan.Warn, plan.Park) {
			if seen[a.Fence] {
				t.Fatalf("%d twice", a.Fence)
			}
			seen[a.Fence] = true
			moved += a.Measured
			held := now.Sub(a.Since)
			isIdle := !a.Idle.IsZero() && now.Sub(a.Idle) >= rules.IdleAfter
			if !a.Parkable || a.Leaves || a.Priority > a.For.Priority || a.Fence == a.For.Into || held < rules.Keep || !isIdle && held < rules.Slice {
				t.Fatalf("%+v must not leave", a)
			}
		}
		if moved > p.Host {
			t.Fatalf("%v moves, and the machine has %v", moved, p.Host)
		}
		for _, a := range plan.Park {
			if a.Warned.IsZero() || now.Sub(a.Warned) < rules.Grace {
				t.Fatalf("%+v is parked without its grace", a)
			}
			room := a.For.Rooms[slices.IndexFunc(a.For.Rooms, func(r placement.Room) bool { return r.GPU == a.GPU })]
			fits := func(without uint64) bool {
				memory, slots := room.Missing, room.MissingSlots
				for _, h := range p.Holdings {
					parks := slices.ContainsFunc(plan.Park, func(b park.Action) bool { return b.Fence == h.Fence })
					if h.GPU == a.GPU && h.Fence != without && (h.Leaves || parks) {
						memory, slots = memory-h.Memory, slots-h.Slots
					}
				}
				return memory <= 0 && slots <= 0
			}
			if !fits(0) || fits(a.Fence) {
				t.Fatalf("the request fits: %v; without parking %d: %v", fits(0), a.Fence, fits(a.Fence))
			}
		}
	})
}

// Services that do not fit together have the device for the same time each, give
// or take a slice, whatever their sizes are; and one that waits is served after
// as many slices as there are services before it.
func TestTurnIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const capacity, move, horizon = 100, 4, 8_000 // MiB and seconds
		n := rapid.IntRange(2, 5).Draw(t, "services")
		type service struct {
			h    placement.Holding
			here bool
			had  int // seconds
			back int // when it is away: since when it waits
		}
		all := make([]*service, n)
		for i := range all {
			all[i] = &service{h: holding(uint64(i+1), gpu.MiB(rapid.IntRange(51, 100).Draw(t, "memory")), 0), back: -n + i}
		}
		leaving, done := (*service)(nil), 0
		for now := range horizon {
			p := placement.Pressure{Host: 1 << 20}
			free := gpu.MiB(capacity)
			for _, s := range all {
				if s.here {
					free -= s.h.Memory
				}
			}
			waiting := slices.DeleteFunc(slices.Clone(all), func(s *service) bool { return s.here })
			slices.SortFunc(waiting, func(a, b *service) int { return a.back - b.back })
			for len(waiting) > 0 && waiting[0].h.Memory <= free { // the book serves the first
				s := waiting[0]
				s.here, s.h.Since, s.h.Warned = true, at(now), time.Time{}
				free, waiting = free-s.h.Memory, waiting[1:]
			}
			for _, s := range all {
				if s.here {
					s.had++
					p.Holdings = append(p.Holdings, s.h)
				}
			}
			for _, s := range waiting {
				p.Wants = append(p.Wants, placement.Want{Into: s.h.Fence, Rooms: []placement.Room{lacks("A", s.h.Memory-free)}})
			}
			plan := park.Turn(at(now), p)
			for _, a := range plan.Warn {
				all[a.Fence-1].h.Warned = at(now)
			}
			for _, a := range plan.Park {
				leaving, done = all[a.Fence-1], now+move
				leaving.h.Leaves = true
			}
			if leaving != nil && now >= done {
				leaving.here, leaving.back, leaving.h.Leaves, leaving = false, now, false, nil
			}
		}
		for _, s := range all {
			share, slack := horizon/n, 2*int(rules.Slice/time.Second)
			if s.had < share-slack || s.had > share+slack {
				t.Fatalf("one of %d services had the device for %d s of %d", n, s.had, horizon)
			}
		}
	})
}

// A lease goes by the rules that it carries, and not by those of the others.
func TestTurnByTheRulesOfALease(t *testing.T) {
	own := func(change func(*placement.Rules)) func(*placement.Holding) {
		return func(h *placement.Holding) { change(&h.Rules) }
	}
	keeps := func(seconds int) func(*placement.Holding) {
		return own(func(r *placement.Rules) { r.Keep = time.Duration(seconds) * time.Second })
	}
	slice := func(seconds int) func(*placement.Holding) {
		return own(func(r *placement.Rules) { r.Slice = time.Duration(seconds) * time.Second })
	}
	wait := func(seconds int) func(*placement.Holding) {
		return own(func(r *placement.Rules) { r.Wait = time.Duration(seconds) * time.Second })
	}
	program := func(h *placement.Holding) {
		h.Program, h.Rules.Grace, h.Rules.IdleAfter = true, 0, 0
	}
	for _, x := range []struct {
		name     string
		now      int
		waits    int // since when the request does
		holdings []placement.Holding
		host     gpu.MiB
		warn     []uint64
		park     []uint64
		next     int
	}{
		{"its own slice is over", 120, 0, []placement.Holding{holding(1, 100, 0, slice(120))}, 1000, []uint64{1}, nil, 125},
		{"the other's slice is shorter", 120, 0, []placement.Holding{holding(1, 100, 0), holding(2, 100, 0, slice(100))}, 1000, []uint64{2}, nil, 125},
		{"it keeps its device for longer", 120, 0, []placement.Holding{holding(1, 100, 0, idle(10), keeps(200))}, 1000, nil, nil, 200},
		{"in use, it leaves for one that has waited enough", 100, 60, []placement.Holding{holding(1, 100, 0, wait(40))}, 1000, []uint64{1}, nil, 105},
		{"in use, it stays until the other has waited enough", 99, 60, []placement.Holding{holding(1, 100, 0, wait(40))}, 1000, nil, nil, 100},
		{"in use, it keeps its device, however long the other waits", 59, 0, []placement.Holding{holding(1, 100, 0, wait(10))}, 1000, nil, nil, 60},
		{"its slice ends before the other has waited enough", 300, 290, []placement.Holding{holding(1, 100, 0, wait(40))}, 1000, []uint64{1}, nil, 305},
		{"idle, it does not keep its device for longer than the other waits", 90, 20, []placement.Holding{holding(1, 100, 80, idle(20), wait(70))}, 1000, []uint64{1}, nil, 95},
		{"a lease that is idle for a short time only, whatever the other waits", 70, 0, []placement.Holding{holding(1, 100, 50, idle(60), wait(10))}, 1000, nil, nil, 110},
		{"a program without requests leaves at once and without a warning", 70, 65, []placement.Holding{holding(1, 100, 0, program, idle(65), wait(10))}, 1000, nil, []uint64{1}, 0},
		{"a program without requests keeps its device for a while", 20, 15, []placement.Holding{holding(1, 100, 0, program, idle(15), wait(10))}, 1000, nil, nil, 25},
		{"a program with requests keeps its device for longer", 40, 15, []placement.Holding{holding(1, 100, 0, program, wait(10))}, 1000, nil, nil, 60},
		{"a program needs no memory of the machine", 70, 0, []placement.Holding{holding(1, 100, 0, program, idle(65))}, 0, nil, []uint64{1}, 0},
		{"a program does not leave the memory of the machine to another", 400, 0, []placement.Holding{holding(1, 30, 0, program), holding(2, 30, 0, warned(300))}, 30, nil, []uint64{1, 2}, 0},
		{"a program leaves already", 70, 0, []placement.Holding{holding(1, 100, 0, program, leaves)}, 1000, nil, nil, 0},
	} {
		w := want("w", lacks("A", 50))
		w.Since = at(x.waits)
		p := park.Turn(at(x.now), placement.Pressure{Holdings: x.holdings, Wants: []placement.Want{w}, Host: x.host})
		next := time.Time{}
		if x.next != 0 {
			next = at(x.next)
		}
		if !slices.Equal(fences(p.Warn), x.warn) || !slices.Equal(fences(p.Park), x.park) || !p.Next.Equal(next) {
			t.Errorf("%s: warn %v, park %v, next %v; want %v, %v, %v", x.name, fences(p.Warn), fences(p.Park), p.Next.Sub(start), x.warn, x.park, next.Sub(start))
		}
	}
}

// A lease on two devices leaves once for a request that wants both.
func TestTurnOfALeaseOnTwoDevices(t *testing.T) {
	h := holding(1, 100, 0, func(h *placement.Holding) { h.Program, h.Rules.Grace = true, 0 })
	both := h
	both.GPU = "B"
	w := placement.Want{Key: lease.Key{ID: "w"}, GPUs: 2, Rooms: []placement.Room{lacks("A", 50), lacks("B", 50)}}
	p := park.Turn(at(1000), placement.Pressure{Holdings: []placement.Holding{h, both}, Wants: []placement.Want{w}})
	if got := fences(p.Park); !slices.Equal(got, []uint64{1}) {
		t.Errorf("%v leave; want the lease once", got)
	}
}

// Many small leases, each of which may leave at another moment, are gone through a few
// times, and not once for each of them: that takes no memory for each.
func TestTurnOfManyLeases(t *testing.T) {
	const many = 500
	p := placement.Pressure{Host: 1 << 20}
	for i := range many {
		p.Holdings = append(p.Holdings, holding(uint64(i+1), 1, -i))
	}
	for _, missing := range []gpu.MiB{many, many + 1} { // all of them are enough, and even all are not
		p.Wants = []placement.Want{want("w", lacks("A", missing))}
		if n := testing.AllocsPerRun(5, func() { park.NewYielding(at(0), p) }); n > many/5 {
			t.Errorf("for %v it allocates %v times", missing, n)
		}
	}
}
