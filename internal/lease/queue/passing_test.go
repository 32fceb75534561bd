package queue

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"pgregory.net/rapid"
)

func (l Load) plus(m Load) Load { return Load{l.Memory + m.Memory, l.Slots + m.Slots} }

// behind prepares a Passing whose requests are numbers.
func behind(room Load, holdings []Load) (p Passing[int]) {
	p.Begin(new(int), room, slices.Values(holdings))
	return p
}

// delays asks a Passing whether a later load delays the one load ahead.
func delays(room, ahead, later Load, holdings []Load) bool {
	p := behind(room, holdings)
	p.Add(0, ahead)
	return !p.Allows(later)
}

func TestDelays(t *testing.T) {
	room := Load{100, 4}
	cases := []struct {
		name         string
		ahead, later Load
		holdings     []Load
		want         bool
	}{
		{"both fit on an empty device", Load{60, 1}, Load{40, 1}, nil, false},
		{"both do not", Load{60, 1}, Load{41, 1}, nil, true},
		{"the slots do not suffice", Load{10, 3}, Load{10, 2}, nil, true},
		{"both fit beside everything", Load{30, 1}, Load{10, 1}, []Load{{60, 2}}, false},
		{"the one ahead needs the whole device", Load{100, 1}, Load{1, 0}, []Load{{50, 1}}, true},
		{"the one ahead never fits", Load{101, 1}, Load{50, 1}, nil, false},
		{"beside one of two", Load{50, 1}, Load{20, 1}, []Load{{40, 1}, {30, 1}}, true},       // 50 + 40 + 20
		{"beside none it matters", Load{70, 1}, Load{20, 1}, []Load{{40, 1}, {50, 1}}, false}, // neither leaves room for 70
		{"it fits in a hole", Load{70, 1}, Load{5, 1}, []Load{{25, 1}, {60, 1}}, false},       // 70 + 25 + 5
		{"a hole that is too small", Load{70, 1}, Load{6, 1}, []Load{{25, 1}, {60, 1}}, true},
		{"memory only beside slots only", Load{100, 0}, Load{0, 4}, []Load{{30, 1}}, false},
		{"the later one takes nothing of what matters", Load{0, 4}, Load{100, 0}, nil, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := delays(room, c.ahead, c.later, c.holdings); got != c.want {
				t.Errorf("got %v", got)
			}
			if slow := delaysSlowly(room, c.ahead, c.later, c.holdings); slow != c.want {
				t.Errorf("the definition says %v", slow)
			}
		})
	}
}

func TestDelaysIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room, ahead, later := drawLoad(t, "room", 16, 6), drawLoad(t, "ahead", 10, 3), drawLoad(t, "later", 6, 2)
		holdings := drawLoads(t, 9)
		before := slices.Clone(holdings)
		if got, want := delays(room, ahead, later, holdings), delaysSlowly(room, ahead, later, holdings); got != want {
			t.Fatalf("Passing says %v, its definition %v", got, want)
		}
		if !slices.Equal(before, holdings) {
			t.Fatal("the holdings were changed")
		}
	})
}

// TestWhoMayPassDelaysNobody: whatever the order in which holdings end, the one
// ahead starts at the same moment with the later one on the device for ever as
// without it.
func TestWhoMayPassDelaysNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := Load{20, 6}
		ahead, later := drawLoad(t, "ahead", 20, 6), drawLoad(t, "later", 8, 3)
		var holdings []Load
		var total Load
		for _, l := range drawLoads(t, 8) { // what is on the device now
			if total.plus(l).Within(room) {
				holdings, total = append(holdings, l), total.plus(l)
			}
		}
		if !total.plus(later).Within(room) || delays(room, ahead, later, holdings) {
			t.Skip("it does not fit or may not pass")
		}
		for _, ends := range rapid.Permutation(holdings).Draw(t, "ends") {
			alone := total.plus(ahead).Within(room)
			if with := total.plus(later).plus(ahead).Within(room); alone != with {
				t.Fatalf("beside %+v the one ahead fits alone: %v, and with the later one: %v", total, alone, with)
			}
			total = Load{total.Memory - ends.Memory, total.Slots - ends.Slots}
		}
	})
}

// Many requests ahead are added one after the other, and every answer in between
// is the definition for those that were added so far. The request that would be
// delayed is one that really would.
func TestPassingIsItsDefinition(t *testing.T) {
	work := 0
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 0))
		draw := func(memory, slots int) Load { return Load{gpu.MiB(random.IntN(memory + 1)), random.IntN(slots + 1)} }
		room := draw(40, 8)
		var holdings, ahead []Load
		for range random.IntN(7) {
			holdings = append(holdings, draw(20, 4)) // some are for more than the device has
		}
		var p Passing[int]
		p.Begin(&work, room, slices.Values(holdings))
		delayedBy := func(later Load, at int) bool {
			others := slices.Clone(holdings)
			others = append(others, slices.Delete(slices.Clone(ahead), at, at+1)...)
			return delaysSlowly(room, ahead[at], later, others)
		}
		for range 1 + random.IntN(5) {
			ahead = append(ahead, draw(20, 4))
			p.Add(len(ahead)-1, ahead[len(ahead)-1])
			later := draw(12, 3)
			any := false
			for at := range ahead {
				any = any || delayedBy(later, at)
			}
			first, delays := p.Delayed(later)
			if p.Allows(later) == any || delays != any {
				t.Fatalf("seed %d: it delays somebody: %v; Passing says %v and %v", seed, any, !p.Allows(later), delays)
			}
			if delays && !delayedBy(later, first) {
				t.Fatalf("seed %d: %+v would not be delayed", seed, ahead[first])
			}
		}
	}
	if most := 23784; work > most { // each bound of the search saves some
		t.Errorf("it takes %d steps, want at most %d", work, most)
	}
}

func TestFitting(t *testing.T) {
	f := filling{room: amounts{100, 4}}
	for a, want := range map[amounts]int{
		{30, 0}: 3, {100, 0}: 1, {101, 0}: 0, {0, 1}: 4, {0, 3}: 1, {0, 5}: 0, {10, 2}: 2, {40, 1}: 2, {0, 0}: 0,
	} {
		if got := f.fitting(a); got != want {
			t.Errorf("%d of %+v fit, want %d", got, a, want)
		}
	}
}

// Add says when further requests for as much make no difference: when as many as fit are
// there, and one of them is ahead.
func TestAddSaysWhatMatters(t *testing.T) {
	for _, c := range []struct {
		name     string
		holdings []Load
		ahead    []Load
		want     []bool
		delayed  int // by 40 MiB
	}{
		{"one fits", nil, []Load{{60, 1}, {60, 1}, {80, 1}, {80, 1}}, []bool{true, false, true, false}, 2},
		{"a larger one", nil, []Load{{61, 1}, {80, 1}}, []bool{true, true}, 0},
		{"three fit", nil, []Load{{30, 1}, {30, 1}, {30, 1}, {30, 1}}, []bool{true, true, true, false}, 0},
		{"one is there", []Load{{60, 1}}, []Load{{60, 1}, {60, 1}, {70, 1}}, []bool{true, false, true}, 2},
		{"too large", nil, []Load{{101, 1}, {60, 5}, {61, 1}}, []bool{false, false, true}, 2},
		{"one without slots beside one with many", []Load{{90, 1}, {30, 3}}, []Load{{29, 0}, {20, 0}}, []bool{true, true}, 0},
		{"none is delayed", nil, []Load{{60, 1}}, []bool{true}, -1},
	} {
		p := behind(Load{100, 4}, c.holdings)
		var got []bool
		for i, l := range c.ahead {
			got = append(got, p.Add(i, l))
		}
		first, delays := p.Delayed(Load{40, 0})
		if !delays {
			first = -1
		}
		if !slices.Equal(got, c.want) || first != c.delayed {
			t.Errorf("%s: %v, and %d is delayed; want %v and %d", c.name, got, first, c.want, c.delayed)
		}
	}
}

// A request that fits beside everything costs a step, and what it takes to put it into a list.
func TestCostOfARequestAhead(t *testing.T) {
	var holdings []Load
	for i := range 64 {
		holdings = append(holdings, Load{gpu.MiB(i + 1), 0})
	}
	var p Passing[int]
	work := 7
	if p.Begin(&work, Load{10000, 10}, slices.Values(holdings)); p.Add(0, Load{70, 1}) && work != 7+1+2*64/16 {
		t.Errorf("it costs %d steps", work-7)
	}
}

// An exclusive request ahead needs an empty device, and a later one leaves nothing to
// anybody: wherever one of them could be, nobody passes.
func TestExclusiveRequestsAreNotPassed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room, ahead := drawLoad(t, "room", 16, 6).plus(Load{1, 1}), drawLoad(t, "ahead", 10, 3).plus(Load{0, 1})
		p := behind(room, drawLoads(t, 5))
		p.Add(0, ahead)
		if fits := ahead.Within(room); p.Allows(Whole) == fits {
			t.Fatalf("an exclusive request passes %+v in a room of %+v: %v", ahead, room, fits)
		}
		p = behind(room, drawLoads(t, 5))
		p.Add(0, Whole)
		if later := drawLoad(t, "later", 6, 2); p.Allows(later) != (later == Load{}) {
			t.Fatalf("%+v passes an exclusive request", later)
		}
	})
}

// Beyond its bound the answer is no, and it comes soon.
func TestPassingGivesUp(t *testing.T) {
	// Sums of these leave a rest of 0, 1 or 2 when divided by 6, and a rest of 3
	// would be needed: the search could go through all sets without finding any.
	var holdings []Load
	for i := range 60 {
		holdings = append(holdings, Load{gpu.MiB(6 * (1000 + i*i)), 0})
	}
	holdings = append(holdings, Load{6001, 0})
	if !delays(Load{180003, 100}, Load{30001, 1}, Load{1, 1}, holdings) {
		t.Error("somebody may pass without proof")
	}
	if !delays(Load{180003, 100}, Load{30001, 1}, Load{1, 0}, holdings) {
		t.Error("somebody who needs memory alone may pass without proof")
	}
	p := behind(Load{100, 0}, []Load{{70, 0}, {30, 0}})
	p.steps = 3 // just enough
	if p.Add(0, Load{60, 0}); !p.Allows(Load{10, 0}) || p.Allows(Load{11, 0}) {
		t.Errorf("it gives up with %d steps left", p.steps)
	}
	p = behind(Load{180003, 100}, holdings)
	for p.steps > 0 {
		p.Add(len(p.ahead), Load{30001 + 6*gpu.MiB(len(p.ahead)), 1})
	}
	_, late := p.Delayed(Load{1, 1})
	if n := len(p.ahead); n > maxSteps || p.Allows(Load{1, 1}) || !late {
		t.Errorf("after %d requests somebody may still pass", n)
	}
	// All sums are even here, so that the device never gets full.
	holdings = holdings[:0]
	for i := range 60 {
		holdings = append(holdings, Load{gpu.MiB(2 * (1000 + i*i)), 0})
	}
	p = behind(Load{20001, 100}, holdings)
	if p.Add(0, Load{10000, 1}); !p.Allows(Load{1, 1}) {
		t.Error("one may not pass who needs what nobody else can use")
	}
	if p.steps < maxSteps*9/10 {
		t.Errorf("it looks for more than there can be, and has %d steps left", p.steps)
	}
	// Sixty equal holdings are no problem: it is their number that matters.
	same := slices.Repeat([]Load{{100, 1}}, 60)
	if delays(Load{6050, 100}, Load{1000, 1}, Load{50, 1}, same) {
		t.Error("equal holdings were told apart")
	}
}

// delaysSlowly is the definition: all sets of holdings, one after the other.
func delaysSlowly(room, ahead, later Load, holdings []Load) bool {
	for set := range 1 << len(holdings) {
		beside := ahead
		for i, held := range holdings {
			if set&(1<<i) != 0 {
				beside = beside.plus(held)
			}
		}
		if beside.Within(room) && !beside.plus(later).Within(room) {
			return true
		}
	}
	return false
}

func drawLoad(t *rapid.T, name string, memory, slots int) Load {
	return Load{gpu.MiB(rapid.IntRange(0, memory).Draw(t, name)), rapid.IntRange(0, slots).Draw(t, name)}
}

func drawLoads(t *rapid.T, most int) []Load {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Load { return drawLoad(t, "load", 6, 2) }), 0, most).Draw(t, "holdings")
}
