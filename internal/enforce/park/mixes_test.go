package park_test

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// ask is a request for a model: when it comes, and how long its answer takes.
type ask struct {
	at    int // second
	model string
	takes int
}

// readMix reads requests from a file.
func readMix(t *testing.T, name string) (mix []ask) {
	f, err := os.Open(filepath.Join("testdata/mixes", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var a ask
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		if _, err := fmt.Sscan(lines.Text(), &a.at, &a.model, &a.takes); err != nil {
			t.Fatalf("%s: %q: %v", name, lines.Text(), err)
		}
		mix = append(mix, a)
	}
	return mix
}

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
	waiting  map[string][]ask

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
			c.longest = max(c.longest, now-a.at)
			c.open = append(c.open, now+a.takes)
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
			list = append(list, placement.Want{Key: lease.Key{ID: model}, Since: at(asks[0].at), Rooms: []placement.Room{lacks("A", 60)}})
		}
	}
	slices.SortFunc(list, func(a, b placement.Want) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key.ID, b.Key.ID))
	})
	return list
}

// play plays a mix, until every request has its answer.
func (c *card) play(t tester, mix []ask) {
	c.waiting = map[string][]ask{}
	end := mix[len(mix)-1].at
	for now, next := 0, 0; next < len(mix) || len(c.waiting) > 0 || len(c.open) > 0; now++ {
		for ; next < len(mix) && mix[next].at <= now; next++ {
			c.waiting[mix[next].model] = append(c.waiting[mix[next].model], mix[next])
		}
		if c.pass(now); now > end+3600 {
			t.Fatalf("an hour after the last request, %v wait", c.waiting)
		}
	}
}

type tester interface {
	Fatalf(format string, args ...any)
}

// clairvoyant returns how many switches between three models an order needs that knows all
// requests, and that lets none of them wait for longer than a number of seconds. Its
// switches and its answers take no time.
//
// It keeps the fewest switches to each state: which model is there, and how long the
// oldest request for each of the other two has waited.
func clairvoyant(mix []ask, longest int) int {
	const never = 1 << 30
	sizes := longest + 2 // of an age: 0 means that none waits, 1 that it has just come
	index := func(here, first, second int) int { return (here*sizes+first)*sizes + second }
	each := func(costs []int, do func(here, first, second, cost int)) {
		for i, cost := range costs {
			if cost < never {
				do(i/sizes/sizes, i/sizes%sizes, i%sizes, cost)
			}
		}
	}
	states := func() []int { return slices.Repeat([]int{never}, 3*sizes*sizes) }
	costs := states()
	for here := range 3 {
		costs[index(here, 0, 0)] = 1 // the first has to come too
	}
	for now, next := 0, 0; now <= mix[len(mix)-1].at+longest; now++ {
		comes := [3]int{}
		for ; next < len(mix) && mix[next].at == now; next++ {
			comes[mix[next].model[0]-'a'] = 1
		}
		then := states()
		better := false
		note := func(here, first, second, cost int) {
			if i := index(here, first, second); cost < then[i] {
				then[i], better = cost, true
			}
		}
		each(costs, func(here, first, second, cost int) {
			note(here, max(first, comes[(here+1)%3]), max(second, comes[(here+2)%3]), cost)
		})
		for better = true; better; {
			better = false
			each(then, func(here, first, second, cost int) {
				note((here+1)%3, second, 0, cost+1)
				note((here+2)%3, 0, first, cost+1)
			})
		}
		costs = states()
		older := func(age int) int { return age + min(age, 1) }
		each(then, func(here, first, second, cost int) {
			if first, second = older(first), older(second); first < sizes && second < sizes {
				costs[index(here, first, second)] = cost
			}
		})
	}
	return slices.Min(costs)
}

// bruteForce tries every order: in each second one model is there.
func bruteForce(mix []ask, longest, seconds int, models []string) int {
	best := 1 << 30
	order := make([]string, seconds)
	var try func(second, switches int)
	try = func(second, switches int) {
		if switches >= best {
			return
		}
		if second == seconds {
			for _, a := range mix {
				if !slices.Contains(order[a.at:min(a.at+longest+1, seconds)], a.model) {
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
		var mix []ask
		for range rapid.IntRange(1, 6).Draw(t, "requests") {
			mix = append(mix, ask{at: rapid.IntRange(0, seconds-1-longest).Draw(t, "at"), model: rapid.SampledFrom(models).Draw(t, "model")})
		}
		slices.SortStableFunc(mix, func(a, b ask) int { return a.at - b.at })
		asked := map[string]bool{}
		for _, a := range mix {
			asked[a.model] = true
		}
		if got, want := clairvoyant(mix, longest), bruteForce(mix, longest, seconds, models); got > want || got < len(asked) {
			t.Fatalf("it needs %d switches for %v within %d s; %d are enough", got, mix, longest, want)
		}
	})
}

// defaults are the rules of a program that berth runs, if the settings say nothing.
var defaults = placement.Rules{Keep: time.Minute, Slice: 5 * time.Minute, Wait: 10 * time.Second}

// On each mix there are at most twice the switches of a clairvoyant order that lets
// requests wait as long as the longest has waited here, and whose switches take no time.
func TestMixes(t *testing.T) {
	for _, name := range []string{"even", "bursts", "favourite"} {
		mix := readMix(t, name+".txt")
		c := card{rules: defaults, leave: 2, come: 7}
		c.play(t, mix)
		least := clairvoyant(mix, c.longest)
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
		var mix []ask
		for i := range 10 {
			mix = append(mix, ask{at: i * apart / 2, model: []string{"a", "b"}[i%2], takes: 2})
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
		var mix []ask
		for now := 0; now < 1500; now += rapid.IntRange(0, 15).Draw(t, "pause") {
			mix = append(mix, ask{at: now, model: rapid.SampledFrom(models).Draw(t, "model"), takes: rapid.IntRange(1, longestAnswer).Draw(t, "takes")})
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
