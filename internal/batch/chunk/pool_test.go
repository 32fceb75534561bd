package chunk

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func atMost(n int) func(int, int, float64) bool {
	return func(count, _ int, _ float64) bool { return count <= n }
}

func TestPoolOrder(t *testing.T) {
	weights := []float64{5, 80, 0, 81, math.NaN(), 1000, -3, 5.1}
	fill := func() *Pool[int] {
		p := &Pool[int]{}
		for i, w := range weights {
			p.Put(i, w)
		}
		return p
	}
	all := func(p *Pool[int], lightest bool) []int {
		items, _ := p.Take(lightest, atMost(100))
		return items
	}
	if diff := cmp.Diff([]int{5, 1, 3, 0, 7, 2, 4, 6}, all(fill(), false)); diff != "" {
		t.Errorf("heaviest first (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{2, 4, 6, 0, 7, 1, 3, 5}, all(fill(), true)); diff != "" {
		t.Errorf("lightest first (-want +got):\n%s", diff)
	}
	p := fill()
	if items, weight := p.Take(false, func(_, _ int, weight float64) bool { return weight <= 1080 }); len(items) != 2 || weight != 1080 {
		t.Errorf("took %v of weight %g, want two of weight 1080", items, weight)
	}
	if p.Len() != 6 || math.Abs(p.Weight()-91.1) > 1e-9 {
		t.Errorf("%d items of weight %g are left", p.Len(), p.Weight())
	}
}

// A pool is a set with an order: nothing is lost, nothing comes twice, nothing
// clearly heavier is left behind, and equals keep their order.
func TestPoolKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1, 1e6), rapid.SampledFrom([]float64{1, 2, 3}))
		var p Pool[int]
		waiting := map[int]float64{}
		taken := map[int]bool{}
		next := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "put") {
				for range rapid.IntRange(1, 20).Draw(t, "many") {
					w := weight.Draw(t, "weight")
					p.Put(next, w)
					waiting[next] = w
					next++
				}
				continue
			}
			items, _ := p.Take(false, atMost(rapid.IntRange(0, 30).Draw(t, "n")))
			for _, item := range items {
				w, ok := waiting[item]
				if !ok || taken[item] {
					t.Fatalf("%d was not waiting", item)
				}
				for other, heavier := range waiting {
					if heavier > w*1.1 && !slices.Contains(items, other) {
						t.Fatalf("%d of weight %g went before %d of weight %g", item, w, other, heavier)
					}
					if heavier == w && other < item && !slices.Contains(items, other) {
						t.Fatalf("%d overtook its equal %d", item, other)
					}
				}
				taken[item] = true
			}
			for _, item := range items {
				delete(waiting, item)
			}
		}
		var sum float64
		for _, w := range waiting {
			sum += w
		}
		if p.Len() != len(waiting) || !near(p.Weight(), sum, 1e-6) && math.Abs(p.Weight()-sum) > 1e-3 {
			t.Fatalf("%d items of weight %g, want %d of weight %g", p.Len(), p.Weight(), len(waiting), sum)
		}
	})
}
