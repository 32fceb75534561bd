package httpapi

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
)

// A device with several reasons against a request is listed once, in one unit, with
// everybody who holds it.
func TestEachDeviceIsExplainedOnce(t *testing.T) {
	d := open(t, "h200")
	decode[api.Lease](t, d.ask("POST", "/api/leases", `{"id":"all","memory_mb":142300,"ttl_seconds":600}`))
	usable := decode[api.Explanation](t, d.ask("POST", "/api/leases/explain", `{"slots":1}`)).Ranking[0].Usable
	for n := 1; n < usable; n++ {
		decode[api.Lease](t, d.ask("POST", "/api/leases", fmt.Sprintf(`{"id":"more-%d","ttl_seconds":600}`, n)))
	}
	e := decode[api.Explanation](t, d.ask("POST", "/api/leases/explain", `{"memory_mb":8192,"slots":1}`))
	if len(e.Devices) != 1 || len(e.Devices[0].Holders) != usable {
		t.Fatalf("it is explained as %+v", e.Devices)
	}
	o := e.Devices[0]
	if o.Code != "no_slot" || !slices.Equal(o.Also, []string{"no_memory"}) || !strings.Contains(o.Text, "taken, and needs 8 GiB and has 0.336 GiB") {
		t.Errorf("the obstacle is %+v", o)
	}
	if e.Estimate == nil || !strings.Contains(e.Estimate.Unknown, "no time limit and no history") {
		t.Errorf("the estimate is %+v", e.Estimate)
	}
}

// A new program goes to the idle, cool GPU and not to the one beside it that
// somebody keeps at 100 %, and the ranking says why.
func TestTheIdleGPUIsTaken(t *testing.T) {
	scenario := filepath.Join(t.TempDir(), "busy.yaml")
	if err := os.WriteFile(scenario, []byte("devices: 2xh200\ntimeline: [{device: 0, load: 100}, {device: 1, load: 0}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		d := open(t, scenario)
		for range 60 {
			time.Sleep(time.Second)
			if err := d.Monitor.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, policy := range []string{"least_loaded", "most_free", "spread"} {
			e := decode[api.Explanation](t, d.ask("POST", "/api/leases/explain", `{"memory_mb":1000,"policy":"`+policy+`"}`))
			if len(e.Ranking) != 2 || e.Grant == nil || e.Grant.Parts[0].GPU != "SIM-h200-1" {
				t.Fatalf("%s: it is explained as %+v", policy, e)
			}
			idle, busy := e.Ranking[0], e.Ranking[1]
			if idle.Index != 1 || idle.Rank != 1 || idle.Utilization.Or(-1) > 5 || idle.Temperature.Or(99) > 45 {
				t.Errorf("%s: the first is %+v", policy, idle)
			}
			if busy.Index != 0 || busy.Rank != 2 || busy.Utilization.Or(-1) < 90 || busy.Temperature.Or(-1) < 55 || busy.Usable != 2 {
				t.Errorf("%s: the second is %+v", policy, busy)
			}
		}
		for _, policy := range []string{"pack", "best_fit"} { // they fill devices, and do not care how hot these get
			e := decode[api.Explanation](t, d.ask("POST", "/api/leases/explain", `{"memory_mb":1000,"policy":"`+policy+`"}`))
			if e.Policy != policy || len(e.Ranking) != 2 || e.Ranking[0].Index != 0 {
				t.Errorf("%s: it is explained as %+v", policy, e)
			}
		}
		for _, ask := range [][2]string{ // the second takes a slot, so it is last
			{"/api/gpu/memory/allocate", `{"allocation_id":"app","memory_mb":1000,"ttl_seconds":600}`},
			{"/api/leases", `{"id":"program","memory_mb":1000,"ttl_seconds":600}`},
		} {
			if l := decode[api.Lease](t, d.ask("POST", ask[0], ask[1])); len(l.Parts) != 1 || l.Parts[0].GPU != "SIM-h200-1" {
				t.Errorf("%s gives %+v", ask[0], l)
			}
		}
		wish := decode[api.Lease](t, d.ask("POST", "/api/leases", `{"id":"wish","memory_mb":1000,"prefer":"0","ttl_seconds":600}`))
		if len(wish.Parts) != 1 || wish.Parts[0].GPU != "SIM-h200-0" {
			t.Errorf("the wish gives %+v", wish)
		}
	})
}

// The ranking also says what does not fit, how many leases of the service are
// where, and what is preferred.
func TestRankingOfAService(t *testing.T) {
	d := open(t, "3xrtx-4060")
	expect(t, "the first replica", d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"a","memory_mb":1000,"service":"s","gpu":"0"}`), 201, "")
	expect(t, "what fills a device", d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"b","memory_mb":7000,"gpu":"1"}`), 201, "")
	e := decode[api.Explanation](t, d.ask("POST", "/api/leases/explain", `{"memory_mb":3000,"service":"s","prefer":"1"}`))
	if len(e.Ranking) != 3 || !e.Fits || e.Policy != "least_loaded" {
		t.Fatalf("it is explained as %+v", e)
	}
	first, second, full := e.Ranking[0], e.Ranking[1], e.Ranking[2]
	if first.Index != 2 || first.Replicas != 0 || second.Index != 0 || second.Rank != 2 || second.Replicas != 1 {
		t.Errorf("the ranking is %+v", e.Ranking)
	}
	if full.Index != 1 || full.Rank != 0 || full.Code != "no_memory" || full.Why == "" || !full.Preferred || full.Available > 1000 {
		t.Errorf("the full device is %+v", full)
	}
}
