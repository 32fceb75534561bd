package slowdown_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/enforce/slowdown"
)

// card is a device whose power limit is steered.
type card struct {
	now    time.Time
	limits slowdown.Limits
	limit  slowdown.Limit
	ask    slowdown.Ask
	demand gpu.Watts // what its programs would draw
	steps  []*slowdown.Step
}

func newCard() *card {
	c := &card{now: time.Unix(1e9, 0), demand: 690, limits: slowdown.Limits{Now: 700, Default: 700, Least: 200, Most: 700}}
	c.ask = slowdown.Ask{Steer: true, Multiplier: 1, Normal: 75, Reason: "81 °C is above temp_normal 75 °C"}
	c.ask.Settles = func(w gpu.Watts) (gpu.Celsius, bool) { return gpu.Celsius(30 + w/10), true }
	return c
}

// pass lets seconds pass, one decision each, and returns the kinds of steps.
func (c *card) pass(seconds int) (told string) {
	for range seconds {
		c.now = c.now.Add(time.Second)
		if step := c.decide(); step != nil {
			c.apply(step)
			told += string(step.Kind) + " "
		}
	}
	return strings.TrimSpace(told)
}

func (c *card) decide() *slowdown.Step {
	power := min(c.demand, c.limits.Now)
	c.ask.Now, c.ask.Limits = c.now, c.limits
	c.ask.Heat = slowdown.Heat{Temperature: gpu.Some(gpu.Celsius(30 + power/10)), Power: gpu.Some(power)}
	next, step := c.limit.Decide(c.ask)
	c.limit = next
	return step
}

func (c *card) apply(step *slowdown.Step) {
	if step.Sets() {
		c.limits.Now = step.Watts
	}
	c.steps = append(c.steps, step)
}

func TestLimitGoesDownAndBack(t *testing.T) {
	c := newCard()
	if told := c.pass(60); told != "" {
		t.Errorf("a cool device: %s", told)
	}
	c.ask.Multiplier = 0.5
	if told := c.pass(31); told != "lowered lowered lowered" || c.limits.Now != 585 {
		t.Errorf("%s, limit %g W; want three steps of 35 W below 690 W", told, c.limits.Now)
	}
	if kept := c.limit.Kept; kept != (slowdown.Kept{Original: 700, Set: 585, Before: 620}) {
		t.Errorf("kept %+v", kept)
	}
	second := c.steps[1]
	if second.Expected.Or(0) != 92 || second.Effect == nil || second.Effect.Expected.Or(0) != 95.5 || second.Effect.After.Power.Or(0) != 655 {
		t.Errorf("the second step is %+v after %+v", second, second.Effect)
	}
	if text := second.Event(gpu.Device{Index: 1}, c.now).Text; text != "berth lowered the power limit of GPU 1 from 655 to 620 W, because 81 °C is above temp_normal 75 °C; it should settle at 92 °C; 15 s after it was set to 655 W: 99 → 96 °C, 690 → 655 W (expected in the end: 96 °C)" {
		t.Errorf("event: %s", text)
	}
	c.ask.Multiplier = 0.8
	if told := c.pass(600); told != "measured" {
		t.Errorf("a device that would be too hot with a higher limit: %s", told)
	}
	c.ask.Multiplier = 1
	if told := c.pass(600); told != "" {
		t.Errorf("a device that is cool because of its limit: %s", told)
	}
	c.demand = 100
	if told := c.pass(120); told != "raised raised raised restored" || c.limits.Now != 700 || c.limit.Held() {
		t.Errorf("a device without load: %s, limit %g W", told, c.limits.Now)
	}
}

// The limit never goes below what may be set, and a device that draws less than
// that is left alone.
func TestLimitHasAFloor(t *testing.T) {
	c := newCard()
	c.ask.Multiplier, c.ask.Least = 0, gpu.Some[gpu.Watts](500)
	c.pass(600)
	if c.limits.Now != 500 || !c.steps[len(c.steps)-2].Lowest {
		t.Errorf("limit %g W, last step %+v", c.limits.Now, c.steps[len(c.steps)-2])
	}
	idle := newCard()
	idle.ask.Multiplier, idle.demand = 0, 80
	if told := idle.pass(60); told != "" {
		t.Errorf("an idle device: %s", told)
	}
}

// A device that gets too hot again after each step up gets them more and more
// rarely.
func TestLimitDoesNotSwing(t *testing.T) {
	c := newCard()
	c.ask.Settles = nil
	c.demand = 640
	for range 4 * 3600 {
		c.ask.Multiplier = 0.8
		if c.limits.Now > 600 {
			c.ask.Multiplier = 0.5
		}
		c.pass(1)
	}
	sets := 0
	for _, s := range c.steps {
		if s.Sets() {
			sets++
		}
	}
	if sets > 40 {
		t.Errorf("%d steps in four hours", sets)
	}
}

// Somebody else's limit is left, and ends the steering.
func TestLimitOfSomebodyElse(t *testing.T) {
	c := newCard()
	c.ask.Multiplier = 0.5
	c.pass(5)
	c.limits.Now = 450
	if told := c.pass(300); told != "taken" || c.limits.Now != 450 || c.limit.Held() {
		t.Errorf("%s, limit %g W", told, c.limits.Now)
	}
	back := newCard()
	back.ask.Multiplier = 0.5
	back.pass(5)
	back.limits.Now = 700
	if told := back.pass(300); told != "taken" || back.limits.Now != 700 {
		t.Errorf("set back to the original by somebody: %s, limit %g W", told, back.limits.Now)
	}
}

// After a crash the limit goes back, wherever the crash was.
func TestLimitAfterACrash(t *testing.T) {
	for name, c := range map[string]struct {
		inForce gpu.Watts
		told    string
		want    gpu.Watts
	}{
		"the step was taken":              {620, "restored", 700},
		"the step was not taken":          {655, "restored", 700},
		"no step was taken":               {700, "", 700},
		"somebody set another one":        {450, "taken", 450},
		"the driver rounds":               {620.4, "restored", 700},
		"somebody set the highest + some": {702, "taken", 702},
	} {
		recalled := slowdown.Recall(slowdown.Kept{Original: 700, Set: 620, Before: 655})
		card := newCard()
		for _, limit := range []slowdown.Limit{recalled, recalled.Failed(card.now.Add(-time.Minute))} { // a device may refuse at first
			card.limits.Now, card.limit = c.inForce, limit
			if told := card.pass(1); told != c.told || card.limits.Now != c.want || card.limit.Held() {
				t.Errorf("%s: %q, limit %g W", name, told, card.limits.Now)
			}
		}
	}
}

// A limit that is the driver's again after a reset is nobody's wish: it is lowered again
// when it has to be.
func TestLimitAfterAReset(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(slowdown.Limit) slowdown.Limit
		inForce gpu.Watts
		told    string
		want    gpu.Watts
	}{
		"no answer, and the default":           {slowdown.Limit.Doubt, 700, "", 700},
		"no answer, and the original":          {slowdown.Limit.Doubt, 650, "", 650},
		"no answer, and another one":           {slowdown.Limit.Doubt, 500, "taken", 500},
		"an answer, and the default":           {func(l slowdown.Limit) slowdown.Limit { return l }, 700, "taken", 700},
		"a start of the machine":               {func(l slowdown.Limit) slowdown.Limit { return slowdown.Recall(l.Kept) }, 700, "", 700},
		"a start of the machine, and a script": {func(l slowdown.Limit) slowdown.Limit { return slowdown.Recall(l.Kept) }, 500, "taken", 500},
	} {
		card := newCard()
		card.limits.Now, card.ask.Multiplier = 650, 0.5
		card.pass(1)
		if !card.limit.Held() {
			t.Fatal("nothing is held")
		}
		card.limits.Now, card.limit, card.ask.Multiplier = c.inForce, c.change(card.limit), 1
		if told := card.pass(2); told != c.told || card.limits.Now != c.want || card.limit.Held() {
			t.Errorf("%s: %q, limit %g W", name, told, card.limits.Now)
		}
		card.ask.Multiplier = 0.5
		if card.pass(60); card.limit.Held() != (c.told == "") {
			t.Errorf("%s: and then the limit is %g W", name, card.limits.Now)
		}
	}
}

// A device that refuses is asked again after a while.
func TestLimitRefused(t *testing.T) {
	c := newCard()
	c.ask.Multiplier = 0.5
	before, asked := c.limit, 0
	for range 300 {
		c.now = c.now.Add(time.Second)
		if c.decide() != nil {
			asked++
			c.limit = before.Failed(c.now)
		}
	}
	if asked != 10 || c.limit.Held() {
		t.Errorf("asked %d times in 5 minutes, want 10", asked)
	}
}

// Whatever happens, the limit stays between the least and the original, a daemon
// that is killed at any moment leaves nothing behind, and steps are rare.
func TestLimitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCard()
		original := gpu.Watts(rapid.IntRange(200, 700).Draw(t, "original"))
		c.limits.Now = original
		if rapid.Bool().Draw(t, "unforeseen") {
			c.ask.Settles = nil
		}
		if rapid.Bool().Draw(t, "floor") {
			c.ask.Least = gpu.Some(gpu.Watts(rapid.IntRange(1, 800).Draw(t, "least")))
		}
		floor := min(max(200, c.ask.Least.Or(0)), original)
		begun, kills := c.now, 0
		var file slowdown.Kept
		for range rapid.IntRange(1, 200).Draw(t, "moments") {
			c.now = c.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			c.ask.Multiplier = rapid.SampledFrom([]float64{0, 0.5, 0.8, 1}).Draw(t, "multiplier")
			c.ask.Steer = rapid.IntRange(0, 9).Draw(t, "steer") > 0
			c.demand = gpu.Watts(rapid.IntRange(0, 900).Draw(t, "demand"))
			step := c.decide()
			if step == nil || step.Kind != slowdown.Restored {
				file = c.limit.Kept
			}
			happens := rapid.SampledFrom([]string{"", "", "", "", "killed before", "killed after"}).Draw(t, "happens")
			if step != nil && happens != "killed before" {
				c.apply(step)
			}
			if happens == "" {
				file = c.limit.Kept
			} else {
				kills++
				c.limit = slowdown.Recall(file)
			}
			if c.limits.Now < floor || c.limits.Now > original {
				t.Fatalf("limit %g W, outside %g to %g", c.limits.Now, floor, original)
			}
			if c.limits.Now != original && file.Original != original {
				t.Fatalf("the limit is %g W, and nobody remembers the original", c.limits.Now)
			}
		}
		if most := 2 * (1 + int(c.now.Sub(begun)/(15*time.Second))); kills == 0 && len(c.steps) > most {
			t.Fatalf("%d steps in %v", len(c.steps), c.now.Sub(begun))
		}
		c.ask.Steer = false
		c.pass(2)
		if c.limits.Now != original || c.limit.Held() {
			t.Fatalf("in the end the limit is %g W, and was %g W", c.limits.Now, original)
		}
	})
}
