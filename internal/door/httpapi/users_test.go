package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/history/report"
	"github.com/berth-gpu/berth/internal/lease"
)

func TestUsers(t *testing.T) {
	d := open(t, "1xrtx-4060")
	ada, eve := user(4711), user(4712)
	for _, body := range []string{`{"id":"a","memory_mb":1024,"binding":"named"}`, `{"id":"pool","memory_mb":2048,"pool":true,"binding":"named"}`, `{"id":"part","memory_mb":512,"from_pool":"pool","binding":"named"}`} {
		if w := d.askAs(ada, "POST", "/api/leases", body); w.Code >= 300 {
			t.Fatalf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	ended := time.Now()
	d.Past.Ended(&lease.Effect{Before: &lease.Lease{ID: "past", Holder: lease.Holder{UID: eve.UID, User: eve.User}, Granted: ended.Add(-2 * time.Hour),
		Parts: []lease.Part{{GPU: "x", Memory: 4096}}}, Kind: lease.Released, Time: ended}, 7, gpu.Opt[gpu.Joules]{})
	ask := func(by doorkeeper.Identity) map[string]api.UserUse {
		t.Helper()
		w := d.askAs(by, "GET", "/api/users", "")
		if w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		found := map[string]api.UserUse{}
		for _, u := range decode[api.Users](t, w).Users {
			found[u.User] = u
		}
		return found
	}
	all := ask(holding(lease.Holder{UID: 0, User: "root"}, access.Operator))
	if a := all[ada.User]; a.Leases != 3 || a.GPUs != 1 || a.Memory != 3072 || a.Waiting != 0 {
		t.Errorf("what ada holds: %+v", a)
	}
	if e := all[eve.User]; e.Leases != 0 || e.Ended != 1 || e.GiBHours < 7.99 || e.GiBHours > 8.01 || e.LeaseHours < 1.99 {
		t.Errorf("what eve has used: %+v", e)
	}
	own := ask(ada)
	if len(own[ada.User].Limits) == 0 || own[eve.User].Limits != nil || own[eve.User].Ended != 1 {
		t.Errorf("a user sees %+v", own)
	}
	if seen := ask(doorkeeper.IdentityFor(viewer())); len(seen) != 1 || seen[anotherUser].Leases != 3 || seen[anotherUser].Ended != 1 || seen[anotherUser].Limits != nil {
		t.Errorf("a viewer sees %+v", seen)
	}
	if w := d.askAs(ada, "DELETE", "/api/leases/pool", ""); w.Code >= 300 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if a := ask(ada)[ada.User]; a.Leases != 2 || a.Memory != 1536 {
		t.Errorf("after the end of a pool ada holds %+v", a)
	}
}

// A lease from a pool has hours of its own once its pool has ended, and not before.
func TestHoursOfLeasesFromPools(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 5, 4, hour, 0, 0, 0, time.UTC) }
	all := report.Pools[struct{}]{}
	all.Add("ada", "render", at(1), at(4), struct{}{})
	all.Add("ada", "render", at(6), at(12), struct{}{})
	for name, c := range map[string]struct {
		user, pool  string
		from, until int
		want        float64
	}{
		"of none": {"ada", "", 2, 5, 3}, "while it stands": {"ada", "render", 2, 3, 0}, "that has outlived it": {"ada", "render", 2, 5, 1},
		"of a later one": {"ada", "render", 7, 12, 0}, "of one that is forgotten": {"ada", "render", 5, 6, 1}, "of another user's": {"bob", "render", 2, 3, 1},
	} {
		if got := ownHours(all, c.user, c.pool, at(c.from), at(c.until)); got != c.want {
			t.Errorf("a lease %s has %v hours of its own, want %v", name, got, c.want)
		}
	}
}
