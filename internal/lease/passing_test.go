package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"pgregory.net/rapid"
)

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
			if got := Delays(room, c.ahead, c.later, c.holdings); got != c.want {
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
		if got, want := Delays(room, ahead, later, holdings), delaysSlowly(room, ahead, later, holdings); got != want {
			t.Fatalf("Delays says %v, its definition %v", got, want)
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
			if total.plus(l).within(room) {
				holdings, total = append(holdings, l), total.plus(l)
			}
		}
		if !total.plus(later).within(room) || Delays(room, ahead, later, holdings) {
			t.Skip("it does not fit or may not pass")
		}
		for _, ends := range rapid.Permutation(holdings).Draw(t, "ends") {
			alone := total.plus(ahead).within(room)
			if with := total.plus(later).plus(ahead).within(room); alone != with {
				t.Fatalf("beside %+v the one ahead fits alone: %v, and with the later one: %v", total, alone, with)
			}
			total = Load{total.Memory - ends.Memory, total.Slots - ends.Slots}
		}
	})
}

// Beyond its bound the answer is no, and it comes soon.
func TestDelaysGivesUp(t *testing.T) {
	var holdings []Load
	for i := range 60 {
		holdings = append(holdings, Load{gpu.MiB(2 * (1000 + i*i)), 0})
	}
	// Only even sums exist, and an odd one would be needed: the search could go
	// through all sets without finding any.
	if !Delays(Load{20001, 100}, Load{10000, 1}, Load{1, 1}, holdings) {
		t.Error("somebody may pass without proof")
	}
	// Sixty equal holdings are no problem: it is their number that matters.
	same := slices.Repeat([]Load{{100, 1}}, 60)
	if Delays(Load{6050, 100}, Load{1000, 1}, Load{50, 1}, same) {
		t.Error("equal holdings were told apart")
	}
}

// devicesFor is Devices by a rule.
type devicesFor func(uuid string, r *Request) bool

func (could devicesFor) Could(uuid string, r *Request) bool { return could(uuid, r) }

var (
	everyDevice = devicesFor(func(string, *Request) bool { return true })
	noDevice    = devicesFor(func(string, *Request) bool { return false })
)

func TestDelayed(t *testing.T) {
	b := newBook(t, Capacity{Total: 100, MaxPipelines: 4, Usable: 4}, roomy)
	big := &Request{ID: "big", GPUs: 1, Memory: 80, Slots: 1}
	small := &Request{ID: "small", GPUs: 1, Memory: 20, Slots: 1}
	medium := &Request{ID: "medium", GPUs: 1, Memory: 30, Slots: 1}
	grant(t, b, &Request{ID: "l", Memory: 30, Slots: 1, Binding: ByTTL, TTL: time.Minute}, dev(0))
	expect := func(what string, want *Request, later *Request, devices Devices, ahead ...*Request) {
		t.Helper()
		if got := b.Delayed(dev(0), later.Load(), ahead, devices); got != want {
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
	if got := b.Delayed("GPU-9", small.Load(), []*Request{big}, everyDevice); got != nil {
		t.Errorf("on an unknown device %v is delayed", got)
	}
}
