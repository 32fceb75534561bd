package chunk

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPlan(t *testing.T) {
	limits := Limits{Min: 1, Max: 128, Seconds: 1}
	slow := Model{Known: true, Each: 0.1}                                     // 0.1 s each, the call is free
	embedding := Model{Known: true, Call: 0.01, CallSure: 0.009, Each: 0.001} // a GPU that wants full batches
	full := Situation{Workers: 4, Pending: 100000, Seconds: 1e4, Largest: 128, Speed: 1}
	with := func(change func(*Situation)) Situation {
		s := full
		change(&s)
		return s
	}
	for _, test := range []struct {
		name   string
		limits Limits
		model  Model
		s      Situation
		want   Budget
	}{
		{"a GPU that is new begins with one", limits, Model{}, with(func(s *Situation) { s.Largest = 0 }), Budget{1, 1, 1}},
		{"and doubles", limits, Model{}, with(func(s *Situation) { s.Largest = 8 }), Budget{1, 16, 1}},
		{"up to the limit", limits, Model{}, full, Budget{1, 128, 1}},
		{"a minimum is kept from the start", Limits{Min: 32, Max: 128, Seconds: 1}, Model{}, with(func(s *Situation) { s.Largest = 0 }), Budget{32, 32, 1}},
		{"long runs aim for the time limit", limits, slow, full, Budget{1, 128, 1}},
		{"the end is shared out", limits, slow, with(func(s *Situation) { s.Pending, s.Seconds, s.Ending = 32, 3.2, true }), Budget{1, 2, 0.2}},
		{"the last ones go singly", limits, slow, with(func(s *Situation) { s.Pending, s.Seconds, s.Ending = 3, 0.3, true }), Budget{1, 1, 0.3 / 16}},
		{"where the call is dear, batches stay worthwhile", limits, embedding, with(func(s *Situation) { s.Pending, s.Seconds, s.Ending = 400, 0.5, true }), Budget{27, 27, 0.5 / 16}},
		{"but every worker gets a part", limits, embedding, with(func(s *Situation) { s.Pending, s.Seconds, s.Ending = 40, 0.05, true }), Budget{10, 10, 0.05 / 16}},
		{"unless single ones are wanted", Limits{Min: 1, Max: 128, Seconds: 1, Singly: true}, embedding, with(func(s *Situation) { s.Pending, s.Seconds, s.Ending = 40, 0.05, true }), Budget{1, 3, 0.05 / 16}},
		{"records that cost nothing go all together", limits, Model{Known: true, Call: 1, CallSure: 1, Varied: true}, with(func(s *Situation) { s.Pending, s.Seconds, s.Ending = 40, 1, true }), Budget{10, 10, 1. / 16}},
		{"a call that costs all says nothing", limits, Model{Known: true, Call: 1, CallSure: 1}, with(func(s *Situation) { s.Pending, s.Seconds, s.Ending = 40, 1, true }), Budget{1, 3, 1. / 16}},
		{"memory is a limit", limits, slow, with(func(s *Situation) { s.Cap = 20 }), Budget{1, 20, 1}},
		{"so is the multiplier", limits, slow, with(func(s *Situation) { s.Speed = 0.5 }), Budget{1, 64, 1}},
		{"even one near zero leaves one record", limits, slow, with(func(s *Situation) { s.Speed = 0.001 }), Budget{1, 1, 1}},
	} {
		if got := Plan(test.limits, test.model, test.s); !near(got.Seconds, test.want.Seconds, 1e-9) || got.AtLeast != test.want.AtLeast || got.Records != test.want.Records {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

// Every plan makes progress and keeps to the limits.
func TestPlanKeepsTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limits{Min: rapid.IntRange(0, 64).Draw(t, "min"), Max: rapid.IntRange(0, 512).Draw(t, "max"), Seconds: rapid.Float64Range(0.001, 100).Draw(t, "seconds")}
		coefficient := rapid.Float64Range(0, 10)
		m := Model{Known: rapid.Bool().Draw(t, "known"), Each: coefficient.Draw(t, "each"), PerWeight: coefficient.Draw(t, "per weight")}
		m.CallSure = coefficient.Draw(t, "sure")
		m.Call = m.CallSure + coefficient.Draw(t, "call")
		s := Situation{
			Workers: rapid.IntRange(0, 64).Draw(t, "workers"), Pending: rapid.IntRange(0, 1e6).Draw(t, "pending"),
			Weight: rapid.Float64Range(0, 1e9).Draw(t, "weight"), Seconds: rapid.Float64Range(0, 1e6).Draw(t, "left"),
			Ending: rapid.Bool().Draw(t, "ending"), Largest: rapid.IntRange(0, 1000).Draw(t, "largest"),
			Cap: rapid.IntRange(0, 100).Draw(t, "cap"), Speed: rapid.Float64Range(0, 1).Draw(t, "speed"),
		}
		b := Plan(l, m, s)
		if b.AtLeast < 1 || b.Records < b.AtLeast || b.Records > max(l.Max, 1) || s.Cap > 0 && b.Records > s.Cap {
			t.Fatalf("%+v", b)
		}
		if !b.Room(m, 1, 1e9) {
			t.Fatalf("%+v has no room for a single record", b)
		}
		if b.Room(m, b.Records+1, 0) {
			t.Fatalf("%+v has room for one too many", b)
		}
	})
}

func TestCap(t *testing.T) {
	var c Cap
	if c = c.Held(128, 128); c.Records() != 0 {
		t.Fatalf("a cap of %d out of nothing", c.Records())
	}
	c = c.Exceeded(128)
	if c.Records() != 64 {
		t.Fatalf("cap %d after 128 were too many", c.Records())
	}
	for range 10 * capPatience {
		c = c.Held(63, 128)
	}
	if c.Records() != 64 {
		t.Errorf("small batches proved that larger ones fit: %d", c.Records())
	}
	held := 0
	for c.Records() != 0 {
		before := c.Records()
		c = c.Held(before, 128)
		if held++; c.Records() > before+max(1, before/8) {
			t.Fatalf("grew from %d to %d at once", before, c.Records())
		}
	}
	if held < 3*capPatience {
		t.Errorf("the cap was forgotten after %d batches", held)
	}
	if c = (Cap{}).Exceeded(1); c.Records() != 0 {
		t.Errorf("a single record that did not fit gives a cap of %d", c.Records())
	}
	if c = (Cap{}).Exceeded(2).Exceeded(1); c.Records() != 1 {
		t.Errorf("nothing fitted, and the cap is %d", c.Records())
	}
}

// One record that is too large by itself is found by halving. Afterwards, batches are as
// large as those that went well meanwhile.
func TestCapAfterOneRecordThatIsTooLarge(t *testing.T) {
	c := Cap{}.Exceeded(128)
	for n := 64; n > 1; n /= 2 {
		c = c.Held(n, 128).Exceeded(n)
	}
	if c = c.Held(1, 128).Exceeded(1); c.Records() != 64 {
		t.Errorf("batches of 64 went well, and the cap is %d", c.Records())
	}
}
