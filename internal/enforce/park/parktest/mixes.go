// Package parktest has mixes of requests for models, and the fewest switches that each of
// them needs, to test those who decide whose turn it is.
package parktest

import (
	"bufio"
	"embed"
	"fmt"
	"slices"
	"strings"
	"testing"
)

//go:embed mixes
var mixes embed.FS

// Names lists the mixes.
var Names = []string{"even", "bursts", "favourite"}

// Ask is a request for a model.
type Ask struct {
	At    int // second
	Model string
	Takes int // seconds that its answer takes
}

// Mix returns a mix of requests.
func Mix(t testing.TB, name string) (mix []Ask) {
	f, err := mixes.Open("mixes/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var a Ask
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		if _, err := fmt.Sscan(lines.Text(), &a.At, &a.Model, &a.Takes); err != nil {
			t.Fatalf("%s: %q: %v", name, lines.Text(), err)
		}
		mix = append(mix, a)
	}
	return mix
}

// Clairvoyant returns how many switches between three models an order needs that knows all
// requests, and that lets none of them wait for longer than a number of seconds. Its
// switches and its answers take no time.
//
// It keeps the fewest switches to each state: which model is there, and how long the
// oldest request for each of the other two has waited.
func Clairvoyant(mix []Ask, longest int) int {
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
	for now, next := 0, 0; now <= mix[len(mix)-1].At+longest; now++ {
		comes := [3]int{}
		for ; next < len(mix) && mix[next].At == now; next++ {
			comes[mix[next].Model[0]-'a'] = 1
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
