package lease

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// What is meant to stay stands for ever, what ends some day since its grant, and what has an
// end does not count among the leases without one.
func TestEndlessSince(t *testing.T) {
	ever := gpu.Some(time.Time{})
	for name, c := range map[string]struct {
		r    Request
		want gpu.Opt[time.Time]
	}{
		"a named lease":    {Request{Binding: ByName}, ever},
		"that of a job":    {Request{Binding: ByName, Run: Run{Kind: OfJob, Number: 1}}, gpu.Some(noon)},
		"that of a server": {Request{Binding: ByProcess, Run: Run{Kind: OfService, Number: 1}}, ever},
		"a renewed lease":  {Request{Binding: ByTTL, TTL: time.Minute}, gpu.Some(noon)},
		"one with an end":  {Request{Binding: ByName, TimeLimit: time.Hour}, gpu.Opt[time.Time]{}},
	} {
		b := newBook(t, roomy)
		c.r.ID, c.r.Holder, c.r.Memory, c.r.Slots = "a-1", alice(), 40, 1
		l := grant(t, b, &c.r, dev(0))
		if got := b.EndlessSince(dev(0)); got != c.want {
			t.Errorf("%s: since %v, want %v", name, got, c.want)
		}
		fits := func(memory gpu.MiB, alone bool) bool {
			return b.FitsBesideEndless(dev(0), Load{Memory: memory, Slots: 1}, alone)
		}
		ends := !c.want.Known()
		if c.r.Endless() == ends || b.FitsBesideEndless(dev(0), Load{Slots: 8}, false) != ends {
			t.Errorf("%s: its request is endless: %v", name, c.r.Endless())
		}
		if !fits(60, false) || fits(61, false) != ends || fits(1, true) != ends {
			t.Errorf("%s: 60 MiB fit: %v, 61 MiB: %v, one that is alone: %v", name, fits(60, false), fits(61, false), fits(1, true))
		}
		apply(t, b, Release{Key: l.Key(), By: actor(alice())}, noon)
		if !fits(100, true) || b.EndlessSince(dev(0)).Known() {
			t.Errorf("%s: it counts after its end", name)
		}
	}
	b := newBook(t, roomy)
	l := grant(t, b, &Request{ID: "alone", Holder: alice(), Memory: 1, Slots: 1, Binding: ByName, Terms: Terms{Exclusive: true}}, dev(0))
	if b.FitsBesideEndless(dev(0), Load{Memory: 1}, false) {
		t.Error("something fits beside a lease that is alone for ever")
	}
	apply(t, b, Release{Key: l.Key(), By: actor(alice())}, noon)
	if !b.FitsBesideEndless(dev(0), Load{Memory: 1}, true) {
		t.Error("a lease that is alone counts after its end")
	}
	b.ObserveForeign(dev(0), 10)
	if !b.FitsBesideForeign(dev(0), Load{Memory: 90}) || b.FitsBesideForeign(dev(0), Load{Memory: 91}) {
		t.Error("beside 10 MiB of others fit not exactly 90")
	}
}
