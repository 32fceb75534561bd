package ledger

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/text/words"
)

// The leases of a service go on different devices, whatever the policy, and on
// one if the service says so. That holds from the next request on.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		for i := range 3 {
			k.device(i, 100)
		}
		on := func(id, service string, policy string) string {
			r := want(id, 10, slots(0))
			r.Holder.Service, r.Policy = service, policy
			return k.grant(r).Parts[0].GPU
		}
		for _, policy := range placement.PolicyNames() {
			seen := map[string]bool{}
			for _, id := range []string{"a", "b", "c"} {
				seen[on(policy+"-"+id, words.Service(policy), policy)] = true
			}
			if len(seen) != 3 {
				t.Errorf("%s: three leases of a service are on %v", policy, seen)
			}
		}
		settings := w.settings
		settings.Services = map[string]quota.Served{"near": {Service: quota.Service{Name: "near", Together: true}}}
		k.Configure(settings)
		first := on("near-a", "near", "")
		for _, id := range []string{"near-b", "near-c"} {
			if next := on(id, "near", placement.MostFree); next != first {
				t.Errorf("%s is on %s, and near-a on %s", id, next, first)
			}
		}
		if next := on("near-d", "near", placement.Spread); next == first {
			t.Error("spread does not go before what the service says")
		}
	})
}

// A lease goes to the device that works least, by the average of the last
// minute and not by a moment.
func TestMeasuredLoadDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		reads := func(load gpu.Percent, heat gpu.Celsius) func(*placement.Observation) {
			return func(o *placement.Observation) {
				o.Sample.Time = time.Now()
				o.Sample.Utilization, o.Sample.Temperature = gpu.Some(load), gpu.Some(heat)
			}
		}
		for range 60 {
			k.device(0, 100, reads(100, 60))
			k.device(1, 90, reads(0, 39))
			time.Sleep(time.Second)
		}
		k.device(0, 100, reads(0, 58)) // between two pieces of work
		k.device(1, 90, reads(100, 41))
		if got := k.grant(want("a", 10, slots(1))).Parts[0].GPU; got != dev(1) {
			t.Errorf("the first is on %s", got)
		}
		if got := k.grant(want("b", 10, slots(1))).Parts[0].GPU; got != dev(0) {
			t.Errorf("the second is on %s; slots go before what is measured", got)
		}
	})
}
