package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

func TestPastLeases(t *testing.T) {
	d := open(t, "2xrtx-4060")
	anna := user(4711)
	now := time.Now()
	end := func(id, service string, device int, ago time.Duration, how lease.Kind) {
		l := &lease.Lease{
			ID: id, Holder: lease.Holder{UID: anna.UID, User: anna.User, Service: service}, Binding: lease.ByName, Granted: now.Add(-time.Hour),
			Parts: []lease.Part{{GPU: d.Monitor.Readings()[device].Device.UUID, Memory: 1024}},
		}
		d.Past.Ended(&lease.Effect{Before: l, Kind: how, Time: now.Add(-ago), Why: "it was not renewed"}, 700, gpu.Opt[gpu.Joules]{})
	}
	end("a", "embedder", 0, 30*time.Minute, lease.Expired)
	end("b", "text-embedder", 1, 20*time.Minute, lease.Released)
	end("c", "", 0, 10*time.Minute, lease.Revoked)
	list := func(query string) api.PastLeases {
		t.Helper()
		var all api.PastLeases
		w := d.askAs(anna, "GET", "/api/past/leases"+query, "")
		if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || w.Code != 200 {
			t.Fatalf("%s: %d %s", query, w.Code, w.Body)
		}
		return all
	}
	for query, want := range map[string]string{
		"": "c b a", "?limit=1": "c", "?gpu=0": "c a", "?gpu=1": "b", "?gpu=GPU-gone": "", "?service=embedder": "a", "?service=text_embedder": "b",
		"?since=15m": "c", "?user=nobody": "", "?user=" + anna.User: "c b a",
	} {
		var got []string
		for _, l := range list(query).Leases {
			got = append(got, l.ID)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	if oldest := list("").Leases[2]; oldest.How != "expired" || oldest.Why != "it was not renewed" || oldest.Peak != 700 || oldest.Parts[0].Memory != 1024 {
		t.Errorf("the oldest is %+v", oldest)
	}
	refused(t, d.askAs(anna, "GET", "/api/past/leases?since=soon", ""), "a time that is none", "invalid_request")
	refused(t, d.askAs(anna, "GET", "/api/past/leases?limit=0", ""), "no lease at all", "invalid_request")
}
