package placement

import (
	"strings"
	"testing"

	"github.com/berth-gpu/berth/gpu"
)

func TestPolicies(t *testing.T) {
	request := Request{Memory: 8 << 10, Slots: 1}
	cases := []struct {
		name string
		uses []Use
		want map[Policy]int
	}{
		{
			"equal devices: the lowest index",
			[]Use{idle(), idle(), idle()},
			map[Policy]int{LeastLoaded: 0, MostFree: 0, BestFit: 0, Spread: 0, Pack: 0},
		},
		{
			"shares and counts of slots differ",
			[]Use{with(active(2), maxSlots(4)), with(active(3), maxSlots(12)), with(active(4), maxSlots(5))},
			map[Policy]int{LeastLoaded: 1, MostFree: 1, BestFit: 1, Spread: 0, Pack: 2},
		},
		{
			"memory differs",
			[]Use{with(available(20 << 10)), with(available(60 << 10)), with(available(9 << 10))},
			map[Policy]int{LeastLoaded: 1, MostFree: 1, BestFit: 2, Spread: 1, Pack: 2},
		},
		{
			"the best of each kind does not fit",
			[]Use{with(available(8<<10 - 1)), with(active(1), available(40<<10)), with(active(2), available(70<<10)), with(active(4), available(8<<10))},
			map[Policy]int{LeastLoaded: 1, MostFree: 2, BestFit: 1, Spread: 1, Pack: 2},
		},
		{
			"a third is not the same as 0.3333",
			[]Use{with(active(334), maxSlots(1000)), with(active(1), maxSlots(3))},
			map[Policy]int{LeastLoaded: 1, Pack: 0},
		},
	}
	for _, c := range cases {
		for policy, want := range c.want {
			t.Run(c.name+"/"+policy.String(), func(t *testing.T) {
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
	for _, p := range Policies() {
		if got, err := ParsePolicy(p.String()); err != nil || got != p {
			t.Errorf("ParsePolicy(%q) = %v, %v", p, got, err)
		}
		if p.About() == "" {
			t.Errorf("%s says nothing about itself", p)
		}
	}
	if p, err := ParsePolicy(""); err != nil || p != LeastLoaded {
		t.Errorf("the default is %v, %v", p, err)
	}
	if _, err := ParsePolicy("random"); err == nil || !strings.Contains(err.Error(), "best_fit") {
		t.Errorf("an unknown policy: %v", err)
	}
	if Policy(99).String() != "least_loaded" {
		t.Errorf("a number that is no policy is %s", Policy(99))
	}
}

// TestKeysKeepTheirOrder holds the packing of two numbers into one key at its
// ends: amounts that do not fit are cut, and never spill into the other number.
func TestKeysKeepTheirOrder(t *testing.T) {
	huge, odd := with(available(1<<50), active(1<<30)), with(available(-5), active(-1), maxSlots(0))
	for p := range policies {
		for _, u := range []Use{huge, odd, idle()} {
			if policies[p].key(&u) == noKey {
				t.Errorf("%s: a device would never be chosen", Policy(p))
			}
		}
	}
	less, more := with(active(1), available(0)), with(active(2), available(gpu.MiB(mostMemory)))
	if leastLoaded(&less) >= leastLoaded(&more) {
		t.Error("memory outweighs load")
	}
}

// chosen is the device of a request for one, or "" if none fits.
func chosen(t testing.TB, s *Snapshot, r *Request) string {
	t.Helper()
	got, ok := Choose(s, r, nil)
	if ok != (len(got) == max(r.GPUs, 1)) {
		t.Fatalf("Choose: %v with %d devices", ok, len(got))
	}
	return strings.Join(got, " ")
}
