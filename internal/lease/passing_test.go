package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"pgregory.net/rapid"
)

func (l Load) plus(m Load) Load { return Load{l.Memory + m.Memory, l.Slots + m.Slots} }

// delays asks a Passing whether a later load delays the one load ahead.
func delays(room, ahead, later Load, holdings []Load) bool {
	var p Passing
	p.begin(room, holdings)
	p.Add(&Request{Memory: ahead.Memory, Slots: ahead.Slots})
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
	rapid.Check(t, func(t *rapid.T) {
		room, holdings := drawLoad(t, "room", 16, 6), drawLoads(t, 5)
		var p Passing
		p.begin(room, holdings)
		var ahead []*Request
		delayedBy := func(later Load, at int) bool {
			others := slices.Clone(holdings)
			for i, r := range ahead {
				if i != at {
					others = append(others, r.Load())
				}
			}
			return delaysSlowly(room, ahead[at].Load(), later, others)
		}
		for range rapid.IntRange(1, 6).Draw(t, "number") {
			l := drawLoad(t, "ahead", 10, 3)
			ahead = append(ahead, &Request{Memory: l.Memory, Slots: l.Slots})
			p.Add(ahead[len(ahead)-1])
			later := drawLoad(t, "later", 8, 3)
			any := false
			for at := range ahead {
				any = any || delayedBy(later, at)
			}
			first := p.Delayed(later)
			if p.Allows(later) == any || (first != nil) != any {
				t.Fatalf("it delays somebody: %v; Passing says %v and %v", any, !p.Allows(later), first)
			}
			if first != nil && !delayedBy(later, slices.Index(ahead, first)) {
				t.Fatalf("%+v would not be delayed", first.Load())
			}
		}
	})
}

// An exclusive request ahead needs an empty device, and a later one leaves nothing to
// anybody: wherever one of them could be, nobody passes.
func TestExclusiveRequestsAreNotPassed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room, ahead := drawLoad(t, "room", 16, 6).plus(Load{1, 1}), drawLoad(t, "ahead", 10, 3).plus(Load{0, 1})
		var p Passing
		p.begin(room, drawLoads(t, 5))
		first := &Request{Memory: ahead.Memory, Slots: ahead.Slots}
		p.Add(first)
		fits := ahead.Within(room)
		if p.Allows((&Request{Terms: Terms{Exclusive: true}}).Claim()) == fits {
			t.Fatalf("an exclusive request passes %+v in a room of %+v: %v", ahead, room, fits)
		}
		p.begin(room, drawLoads(t, 5))
		p.Add(&Request{Memory: 99, Slots: 1, Terms: Terms{Exclusive: true}})
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
	var p Passing
	p.begin(Load{180003, 100}, holdings)
	for p.steps > 0 {
		p.Add(&Request{Memory: 30001 + 6*gpu.MiB(len(p.ahead)), Slots: 1})
	}
	if n := len(p.ahead); n > maxSteps || p.Allows(Load{1, 1}) || p.Delayed(Load{1, 1}) == nil {
		t.Errorf("after %d requests somebody may still pass", n)
	}
	// All sums are even here, so that the device never gets full.
	holdings = holdings[:0]
	for i := range 60 {
		holdings = append(holdings, Load{gpu.MiB(2 * (1000 + i*i)), 0})
	}
	if delays(Load{20001, 100}, Load{10000, 1}, Load{1, 1}, holdings) {
		t.Error("one may not pass who needs what nobody else can use")
	}
	// Sixty equal holdings are no problem: it is their number that matters.
	same := slices.Repeat([]Load{{100, 1}}, 60)
	if delays(Load{6050, 100}, Load{1000, 1}, Load{50, 1}, same) {
		t.Error("equal holdings were told apart")
	}
}

// delayed returns the request ahead that a later load would delay on a device.
func delayed(b *Book, uuid string, later Load, ahead []*Request, could func(uuid string, r *Request) bool) *Request {
	var p Passing
	b.Passing(&p, uuid)
	for _, r := range ahead {
		if could(uuid, r) {
			p.Add(r)
		}
	}
	return p.Delayed(later)
}

func everyDevice(string, *Request) bool { return true }
func noDevice(string, *Request) bool    { return false }

func TestDelayed(t *testing.T) {
	b := newBook(t, Capacity{Total: 100, MaxPipelines: 4, Usable: 4}, roomy)
	big := &Request{ID: "big", GPUs: 1, Memory: 80, Slots: 1}
	small := &Request{ID: "small", GPUs: 1, Memory: 20, Slots: 1}
	medium := &Request{ID: "medium", GPUs: 1, Memory: 30, Slots: 1}
	grant(t, b, &Request{ID: "l", Memory: 30, Slots: 1, Binding: ByTTL, TTL: time.Minute}, dev(0))
	expect := func(what string, want *Request, later *Request, could func(string, *Request) bool, ahead ...*Request) {
		t.Helper()
		if got := delayed(b, dev(0), later.Load(), ahead, could); got != want {
			t.Errorf("%s: %v is delayed, want %v", what, got, want)
		}
	}
	expect("nobody ahead", nil, medium, everyDevice)
	expect("exactly beside the big one", nil, small, everyDevice, big)
	expect("too much beside the big one", big, medium, everyDevice, big)
	expect("the big one cannot come here", nil, medium, noDevice, big)
	expect("first the medium one, which counts as a holding", medium, small, everyDevice, &Request{ID: "x", Memory: 100, Slots: 9}, medium, &Request{ID: "y", Memory: 60})
	b.Observe(only(b, "l"), dev(0), 50)
	b.ObserveForeign(dev(0), 10)
	expect("foreign memory may stay: 10 + 80 + 20", big, small, everyDevice, big)
	b.ObserveForeign(dev(0), 0)
	b.SetCapacity(dev(0), Capacity{Total: 100, MaxPipelines: 4, Usable: 1})
	expect("the slots that throttling takes may stay away", big, small, everyDevice, big)
	expect("no slot, so throttling does not matter", nil, &Request{ID: "z", Memory: 20}, everyDevice, big)
	if got := delayed(b, "GPU-9", small.Load(), []*Request{big}, everyDevice); got != nil {
		t.Errorf("on an unknown device %v is delayed", got)
	}
}
