package placement

import (
	"os"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

func TestPolicies(t *testing.T) {
	request := lease.Request{Memory: 8 << 10, Slots: 1}
	cases := []struct {
		name string
		uses []Use
		want map[string]int
	}{
		{
			"equal devices: the lowest index",
			[]Use{idle(), idle(), idle()},
			map[string]int{LeastLoaded: 0, MostFree: 0, BestFit: 0, Spread: 0, Pack: 0},
		},
		{
			"shares and counts of slots differ",
			[]Use{with(active(2), maxSlots(4)), with(active(3), maxSlots(12)), with(active(4), maxSlots(5))},
			map[string]int{LeastLoaded: 1, MostFree: 1, BestFit: 1, Spread: 0, Pack: 2},
		},
		{
			"memory differs",
			[]Use{with(available(20 << 10)), with(available(60 << 10)), with(available(9 << 10))},
			map[string]int{LeastLoaded: 1, MostFree: 1, BestFit: 2, Spread: 1, Pack: 2},
		},
		{
			"the best of each kind does not fit",
			[]Use{with(available(8<<10 - 1)), with(active(1), available(40<<10)), with(active(2), available(70<<10)), with(active(4), available(8<<10))},
			map[string]int{LeastLoaded: 1, MostFree: 2, BestFit: 1, Spread: 1, Pack: 2},
		},
		{
			"an idle cool device beside a busy hot one",
			[]Use{with(measuredAs(100, 60)), with(measuredAs(0, 39))},
			map[string]int{LeastLoaded: 1, MostFree: 1, BestFit: 0, Spread: 1, Pack: 0},
		},
		{
			"the load goes before the heat",
			[]Use{with(measuredAs(30, 40)), with(measuredAs(0, 80))},
			map[string]int{LeastLoaded: 1, MostFree: 1, BestFit: 0, Spread: 1, Pack: 0},
		},
		{
			"heat alone",
			[]Use{with(measuredAs(0, 70)), with(measuredAs(0, 62))},
			map[string]int{LeastLoaded: 1, MostFree: 1, BestFit: 0, Spread: 1, Pack: 0},
		},
		{
			"what differs by less than a step is alike",
			[]Use{with(measuredAs(3, 48)), with(measuredAs(0, 33))},
			map[string]int{LeastLoaded: 0, MostFree: 0, BestFit: 0, Spread: 0, Pack: 0},
		},
		{
			"slots go before what was measured, and that before memory",
			[]Use{with(active(1)), with(measuredAs(90, 70), available(70<<10)), with(measuredAs(40, 70), available(10<<10))},
			map[string]int{LeastLoaded: 2, MostFree: 0, BestFit: 2, Spread: 2, Pack: 0},
		},
		{
			"a device that cannot tell counts as idle and cool",
			[]Use{with(measuredAs(20, 40)), idle()},
			map[string]int{LeastLoaded: 1, MostFree: 1, BestFit: 0, Spread: 1, Pack: 0},
		},
		{
			"a third is not the same as 0.3333",
			[]Use{with(active(334), maxSlots(1000)), with(active(1), maxSlots(3))},
			map[string]int{LeastLoaded: 1, Pack: 0},
		},
	}
	for _, c := range cases {
		for policy, want := range c.want {
			t.Run(c.name+"/"+policy, func(t *testing.T) {
				r := request
				r.Policy = policy
				if got := chosen(t, machine(c.uses...), &r); got != uuid(want) {
					t.Errorf("chose %s, want %s", got, uuid(want))
				}
			})
		}
	}
}

func TestPolicyNames(t *testing.T) {
	for _, name := range PolicyNames() {
		if err := CheckPolicy(name); err != nil {
			t.Errorf("CheckPolicy(%q): %v", name, err)
		}
		if got := PolicyOf(&lease.Request{Policy: name}); got != name {
			t.Errorf("%s chooses for a request that names %s", got, name)
		}
	}
	if err := CheckPolicy(""); err != nil || PolicyNames()[0] != LeastLoaded {
		t.Errorf("the default is %s, %v", PolicyNames()[0], err)
	}
	if err := CheckPolicy("random"); err == nil || !strings.Contains(err.Error(), "best_fit") {
		t.Errorf("an unknown policy: %v", err)
	}
	if PolicyOf(&lease.Request{Policy: "random"}) != LeastLoaded {
		t.Error("a name that no policy has does not stand for the default")
	}
}

// TestKeysKeepTheirOrder holds the packing of two numbers into one key at its
// ends: amounts that do not fit are cut, and never spill into the other number.
func TestKeysKeepTheirOrder(t *testing.T) {
	huge, odd := with(available(1<<50), active(1<<30), measuredAs(1e9, 1e9)), with(available(-5), active(-1), maxSlots(0), measuredAs(-1e9, -1e9))
	for p := range policies {
		for _, u := range []Use{huge, odd, idle()} {
			if policies[p].key(&u) == noKey {
				t.Errorf("%s: a device would never be chosen", policies[p].name)
			}
		}
	}
	less, more := with(active(1), available(0), measuredAs(100, 200)), with(active(2), available(gpu.MiB(mostMemory)))
	if leastLoaded(&less) >= leastLoaded(&more) || spread(&less) >= spread(&more) {
		t.Error("memory or a measurement outweighs the slots")
	}
	hot, full := with(measuredAs(0, 500)), with(measuredAs(10, 20))
	if leastLoaded(&hot) >= leastLoaded(&full) {
		t.Error("heat outweighs the measured load")
	}
	if less, more := with(available(2), active(3), measuredAs(100, 200)), with(available(1)); mostFree(&less) >= mostFree(&more) {
		t.Error("something outweighs the memory")
	}
}

// The page shows a policy as it stands here.
func TestThePageOnPoliciesIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../../docs/develop/adding-a-policy.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("policy.go")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(source), "\nfunc leastLoaded")
	example, _, _ = strings.Cut("func leastLoaded"+example, "\n")
	if !strings.Contains(string(page), example) {
		t.Errorf("docs/develop/adding-a-policy.md does not show leastLoaded as it is:\n%s", example)
	}
}

// chosen is the device of a request for one, or "" if none fits.
func chosen(t testing.TB, s *Snapshot, r *lease.Request) string {
	t.Helper()
	got, ok := Choose(s, r, nil, nil)
	if ok != (len(got) == max(r.GPUs, 1)) {
		t.Fatalf("Choose: %v with %d devices", ok, len(got))
	}
	return strings.Join(got, " ")
}
