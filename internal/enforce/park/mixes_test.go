package park_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/enforce/park/parktest"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// card is a GPU that has room for one model at a time. A model takes seconds to leave it
// and to come.
type card struct {
	rules       placement.Rules
	leave, come int

	here     string // the model that comes, is there, or leaves; "" if none
	ready    int    // when it is or was ready
	closed   bool   // it takes no more requests
	left     int    // when it has left, once its last answer is given
	open     []int  // when the answers of its open requests end
	answered int    // when its last answer ended
	waiting  map[string][]parktest.Ask

	switches int
	longest  int // that a request has waited
}

// pass lets a second pass.
func (c *card) pass(now int) {
	c.open = slices.DeleteFunc(c.open, func(end int) bool {
		if end <= now {
			c.answered = max(c.answered, end)
		}
		return end <= now
	})
	if c.closed && len(c.open) == 0 && c.left == 0 {
		c.left = now + c.leave
	}
	if c.closed && c.left != 0 && now >= c.left {
		c.here, c.closed, c.left = "", false, 0
	}
	wants := c.wants()
	if c.here == "" && len(wants) > 0 { // the book serves the first
		c.here, c.ready, c.answered = wants[0].Key.ID, now+c.come, now+c.come
		c.switches++
	}
	if c.here == "" || now < c.ready {
		return
	}
	if !c.closed {
		for _, a := range c.waiting[c.here] {
			c.longest = max(c.longest, now-a.At)
			c.open = append(c.open, now+a.Takes)
		}
		delete(c.waiting, c.here)
	}
	h := placement.Holding{Fence: 1, GPU: "A", Memory: 60, Parkable: true, Program: true, Since: at(c.ready), Leaves: c.closed, Rules: c.rules}
	if len(c.open) == 0 {
		h.Idle = at(c.answered)
	}
	plan := park.Turn(at(now), placement.Pressure{Holdings: []placement.Holding{h}, Wants: c.wants()})
	c.closed = c.closed || len(plan.Park) > 0
}

// wants returns what waits for room, in its order.
func (c *card) wants() (list []placement.Want) {
	for model, asks := range c.waiting {
		if len(asks) > 0 && (model != c.here || c.closed) {
			list = append(list, placement.Want{Key: lease.Key{ID: model}, Since: at(asks[0].At), Rooms: []placement.Room{lacks("A", 60)}})
		}
	}
	slices.SortFunc(list, func(a, b placement.Want) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key.ID, b.Key.ID))
	})
	return list
}

// play plays a mix, until every request has its answer.
func (c *card) play(t tester, mix []parktest.Ask) {
	c.waiting = map[string][]parktest.Ask{}
	end := mix[len(mix)-1].At
	for now, next := 0, 0; next < len(mix) || len(c.waiting) > 0 || len(c.open) > 0; now++ {
		for ; next < len(mix) && mix[next].At <= now; next++ {
			c.waiting[mix[next].Model] = append(c.waiting[mix[next].Model], mix[next])
		}
		if c.pass(now); now > end+3600 {
			t.Fatalf("an hour after the last request, %v wait", c.waiting)
		}
	}
}

type tester interface {
	Fatalf(format string, args ...any)
}

// bruteForce tries every order: in each second one model is there.
func bruteForce(mix []parktest.Ask, longest, seconds int, models []string) int {
	best := 1 << 30
	order := make([]string, seconds)
	var try func(second, switches int)
	try = func(second, switches int) {
		if switches >= best {
			return
		}
		if second == seconds {
			for _, a := range mix {
				if !slices.Contains(order[a.At:min(a.At+longest+1, seconds)], a.Model) {
					return
				}
			}
			best = switches
			return
		}
		for _, m := range models {
			order[second] = m
			if second > 0 && order[second-1] == m {
				try(second+1, switches)
			} else {
				try(second+1, switches+1)
			}
		}
	}
	try(0, 0)
	return best
}

// No order needs fewer switches than the clairvoyant one, and it needs one for each model.
func TestClairvoyant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		models, seconds := []string{"a", "b", "c"}, 8
		longest := rapid.IntRange(0, 4).Draw(t, "longest")
		var mix []parktest.Ask
		for range rapid.IntRange(1, 6).Draw(t, "requests") {
			mix = append(mix, parktest.Ask{At: rapid.IntRange(0, seconds-1-longest).Draw(t, "at"), Model: rapid.SampledFrom(models).Draw(t, "model")})
		}
		slices.SortStableFunc(mix, func(a, b parktest.Ask) int { return a.At - b.At })
		asked := map[string]bool{}
		for _, a := range mix {
			asked[a.Model] = true
		}
		if got, want := parktest.Clairvoyant(mix, longest), bruteForce(mix, longest, seconds, models); got > want || got < len(asked) {
			t.Fatalf("it needs %d switches for %v within %d s; %d are enough", got, mix, longest, want)
		}
	})
}

// defaults are the rules of a program that berth runs, if the settings say nothing.
var defaults = placement.Rules{Keep: time.Minute, Slice: 5 * time.Minute, Wait: 10 * time.Second}

// On each mix there are at most twice the switches of a clairvoyant order that lets
// requests wait as long as the longest has waited here, and whose switches take no time.
func TestMixes(t *testing.T) {
	for _, name := range parktest.Names {
		mix := parktest.Mix(t, name)
		c := card{rules: defaults, leave: 2, come: 7}
		c.play(t, mix)
		least := parktest.Clairvoyant(mix, c.longest)
		t.Logf("%s: %d requests, %d switches, the longest wait is %d s; a clairvoyant order needs %d switches", name, len(mix), c.switches, c.longest, least)
		if c.switches > 2*least {
			t.Errorf("%s: %d switches; want at most twice %d", name, c.switches, least)
		}
		if most := int((defaults.Keep+defaults.Wait)/time.Second) + 2*(c.leave+c.come+8); c.longest > most {
			t.Errorf("%s: a request waits for %d s; want at most %d", name, c.longest, most)
		}
	}
}

// Ten requests in turn for two models make one switch, be they there at once or come one
// after the other.
func TestRequestsInTurn(t *testing.T) {
	for apart := range 3 {
		var mix []parktest.Ask
		for i := range 10 {
			mix = append(mix, parktest.Ask{At: i * apart / 2, Model: []string{"a", "b"}[i%2], Takes: 2})
		}
		c := card{rules: defaults, leave: 2, come: 7}
		if c.play(t, mix); c.switches != 2 { // the first brings a
			t.Errorf("%d half seconds apart, they make %d switches", apart, c.switches-1)
		}
	}
}

// Whatever is asked for, every request is answered: nobody waits for longer than the least
// stays of the others take.
func TestNobodyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		models := []string{"a", "b", "c", "d"}[:rapid.IntRange(2, 4).Draw(t, "models")]
		c := card{leave: rapid.IntRange(0, 5).Draw(t, "leave"), come: rapid.IntRange(0, 40).Draw(t, "come"), rules: placement.Rules{
			Keep: time.Duration(rapid.IntRange(0, 60).Draw(t, "keep")) * time.Second, Slice: time.Duration(rapid.IntRange(1, 300).Draw(t, "slice")) * time.Second,
			Wait: time.Duration(rapid.IntRange(1, 60).Draw(t, "wait")) * time.Second,
		}}
		const longestAnswer = 8
		var mix []parktest.Ask
		for now := 0; now < 1500; now += rapid.IntRange(0, 15).Draw(t, "pause") {
			mix = append(mix, parktest.Ask{At: now, Model: rapid.SampledFrom(models).Draw(t, "model"), Takes: rapid.IntRange(1, longestAnswer).Draw(t, "takes")})
			if len(mix) == 300 {
				break
			}
		}
		c.play(t, mix)
		stay := int(max(c.rules.Keep, c.rules.Wait)/time.Second) + longestAnswer + c.leave + c.come + 3
		if most := len(models) * stay; c.longest > most {
			t.Fatalf("a request waits for %d s; want at most %d", c.longest, most)
		}
	})
}
