package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/berth-gpu/berth/kubernetes/words"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// TestSumsAreThoseOfTheClaims compares the sums with what adding up all claims gives,
// after any history of claims, and expects a complaint exactly when a device gives
// more than it has.
func TestSumsAreThoseOfTheClaims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSums()
		devices := []deviceID{{"a", "0"}, {"a", "1"}, {"b", "0"}}
		for _, d := range devices {
			s.value(d, amount{10, 4})
		}
		claims := map[types.UID][]share{}
		over := false
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			uid := types.UID(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "claim")))
			var now []share
			for range rapid.IntRange(0, 2).Draw(t, "shares") {
				now = append(now, share{rapid.SampledFrom(devices).Draw(t, "device"), amount{int64(rapid.IntRange(0, 6).Draw(t, "memory")), int64(rapid.IntRange(0, 2).Draw(t, "slots"))}})
			}
			claims[uid] = now
			s.put(uid, now)
			total := map[deviceID]amount{}
			for _, of := range claims {
				for _, c := range of {
					total[c.deviceID] = amount{total[c.deviceID].memory + c.memory, total[c.deviceID].slots + c.slots}
				}
			}
			for _, d := range devices {
				if s.total[d] != total[d] {
					t.Fatalf("the sum of %v is %v, want %v", d, s.total[d], total[d])
				}
				over = over || total[d].memory > 10 || total[d].slots > 4
			}
		}
		if over != (len(s.broken) > 0) {
			t.Fatalf("a device gave more than it has: %t; complaints: %q", over, s.broken)
		}
	})
}

func TestSumsNoticeAnUnknownDevice(t *testing.T) {
	s := newSums()
	s.put("claim", []share{{deviceID{"a", "0"}, amount{1, 1}}})
	if len(s.broken) != 1 {
		t.Fatalf("complaints %q, want one", s.broken)
	}
}

// TestConsumed follows the rules of the API: the default without a request, at least
// the minimum, and whole steps above it.
func TestConsumed(t *testing.T) {
	quantity := func(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
	c := resourcev1.DeviceCapacity{Value: *quantity(100), RequestPolicy: &resourcev1.CapacityRequestPolicy{
		Default: quantity(100), ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: quantity(7), Step: quantity(10), Max: quantity(97)},
	}}
	for _, test := range []struct {
		asked *resource.Quantity
		want  int64
		fits  bool
	}{
		{nil, 100, true}, {quantity(0), 7, true}, {quantity(7), 7, true}, {quantity(8), 17, true}, {quantity(17), 17, true}, {quantity(97), 97, true}, {quantity(98), 107, false},
	} {
		if got, fits := consumed(test.asked, c); got != test.want || fits != test.fits {
			t.Errorf("a request for %v consumes %d (fits: %t), want %d (%t)", test.asked, got, fits, test.want, test.fits)
		}
	}
}

// TestSharesOfAClaim counts the devices of this driver only, and nothing before the
// claim is allocated.
func TestSharesOfAClaim(t *testing.T) {
	c := &resourcev1.ResourceClaim{}
	if got := shares(c); got != nil {
		t.Fatalf("a claim without an allocation has %v", got)
	}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Driver: "other", Pool: "n", Device: "x"},
		{Driver: words.Driver, Pool: "n", Device: "gpu-1", ConsumedCapacity: map[resourcev1.QualifiedName]resource.Quantity{words.Memory: resource.MustParse("8Gi"), words.Slots: resource.MustParse("2")}},
	}}}
	want := share{deviceID{"n", "gpu-1"}, amount{8 << 30, 2}}
	if got := shares(c); len(got) != 1 || got[0] != want {
		t.Fatalf("shares %v, want %v", got, want)
	}
}

func TestQuantile(t *testing.T) {
	var sorted []time.Duration
	for i := range 100 {
		sorted = append(sorted, time.Duration(i+1))
	}
	for share, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(sorted, share); got != want {
			t.Errorf("quantile %v is %d, want %d", share, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing is %d, want 0", got)
	}
}

func TestKindsAddUp(t *testing.T) {
	sum := 0
	for _, k := range kinds {
		sum += k.of100
	}
	if sum != 100 {
		t.Fatalf("the shares of the kinds add up to %d, want 100", sum)
	}
	r, n := rand.New(rand.NewPCG(1, 0)), map[string]int{}
	for range 10000 {
		n[choose(r).name]++
	}
	for _, k := range kinds {
		if got := n[k.name] / 100; got < k.of100-3 || got > k.of100+3 {
			t.Errorf("%d of 100 pods are of kind %s, want about %d", got, k.name, k.of100)
		}
	}
}

// TestLabel reads one label of a metric, and not one whose name ends like it.
func TestLabel(t *testing.T) {
	labels := `code="200",subresource="status",resource="leases",verb="PUT"`
	if got := label(labels, "resource"); got != "leases" {
		t.Errorf("resource is %q, want leases", got)
	}
	if got := label(labels, "group"); got != "" {
		t.Errorf("group is %q, want nothing", got)
	}
}
