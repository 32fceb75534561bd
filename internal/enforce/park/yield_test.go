package park_test

import (
	"testing"

	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

func TestYields(t *testing.T) {
	older := func(change ...func(*placement.Want)) placement.Want {
		w := want("w", lacks("A", 50))
		w.Since = at(100)
		for _, c := range change {
			c(&w)
		}
		return w
	}
	parked := placement.Holding{Fence: 9, GPU: "A", Since: at(500)}
	for _, x := range []struct {
		name   string
		want   placement.Want
		holder placement.Holding
		yields bool
	}{
		{"one that waits for longer, and whose turn comes", older(), holding(1, 100, 600), true},
		{"one for which somebody leaves already", older(), holding(1, 100, 600, leaves), true},
		{"one that waits for less long", older(func(w *placement.Want) { w.Since = at(501) }), holding(1, 100, 600), false},
		{"one of a lower priority", older(func(w *placement.Want) { w.Priority = -1 }), holding(1, 100, 600, ranks(-1)), false},
		{"one that nobody may be parked for", older(), holding(1, 100, 600, fixed), false},
		{"one whose turn is far away", older(), holding(1, 100, 600, func(h *placement.Holding) { h.Barred = at(9000) }), false},
		{"one that needs no room", older(func(w *placement.Want) { w.Rooms[0].Missing = 0 }), holding(1, 100, 600), false},
		{"one on another device", older(func(w *placement.Want) { w.Rooms[0].GPU = "B" }), holding(1, 100, 600, on("B")), false},
		{"itself", older(func(w *placement.Want) { w.Into = 9 }), holding(1, 100, 600), false},
	} {
		p := placement.Pressure{Host: 1 << 20, Holdings: []placement.Holding{x.holder}, Wants: []placement.Want{x.want}}
		if got := park.NewYielding(at(700), p).Yields(parked); got != x.yields {
			t.Errorf("%s: %v", x.name, got)
		}
	}
	younger := older(func(w *placement.Want) { w.Since = at(600) })
	p := placement.Pressure{Host: 1 << 20, Holdings: []placement.Holding{holding(1, 100, 600)}}
	p.Wants = []placement.Want{younger, younger, older()}
	if !park.NewYielding(at(700), p).Yields(parked) {
		t.Error("one that waits for longer, behind two of a higher share: false")
	}
}
