package front

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
)

// Every moment belongs to the requests that are open then, in equal parts, and moments
// without one to nobody.
func TestUses(t *testing.T) {
	now := time.Date(2026, 7, 1, 6, 0, 0, 0, time.UTC)
	pass := func(seconds int) time.Time { now = now.Add(time.Duration(seconds) * time.Second); return now }
	var u uses
	expect := func(want ...api.FrontUse) {
		t.Helper()
		got := u.report("chat", now)
		if got == nil || len(got.Callers) != len(want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
		for i, w := range want {
			g := got.Callers[i]
			if g.User != w.User || g.Open != w.Open || g.Waiting != w.Waiting || math.Abs(g.Seconds-w.Seconds) > 1e-9 {
				t.Errorf("%+v, want %+v", g, w)
			}
		}
	}
	if got := u.report("chat", now); got != nil {
		t.Errorf("nobody uses it, and it says %+v", got)
	}
	first := u.begin("a", now)
	second := u.begin("a", pass(10)) // 10 s alone
	third := u.begin("b", pass(10))  // 10 s alone, by two
	u.of("c").waiting++
	pass(30) // two to one
	expect(api.FrontUse{User: "a", Open: 2, Seconds: 40}, api.FrontUse{User: "b", Open: 1, Seconds: 10}, api.FrontUse{User: "c", Waiting: 1})
	u.of("c").waiting--
	u.end(first, pass(3))
	u.end(second, pass(4))
	u.end(third, pass(5))
	pass(100)
	expect(api.FrontUse{User: "a", Seconds: 4}, api.FrontUse{User: "b", Seconds: 8})
	expect()
	if got := u.report("chat", now); got != nil || len(u.by) != 0 {
		t.Errorf("nobody uses it, and it says %+v again, and keeps %d", got, len(u.by))
	}
	// Callers without end are one.
	var all []*use
	for i := range 100 {
		all = append(all, u.begin(fmt.Sprintf("c%03d", i), now))
	}
	pass(100)
	got := u.report("chat", now)
	if n := len(got.Callers); n != mostUsers+1 || got.Callers[0].User != "" || got.Callers[0].Open != 100-mostUsers || math.Abs(got.Callers[0].Seconds-(100-mostUsers)) > 1e-6 {
		t.Errorf("%d callers, the first of them %+v", n, got.Callers[0])
	}
	if n := u.has("c050"); n != 1 {
		t.Errorf("one of them has %d requests", n)
	}
	for _, one := range all {
		u.end(one, now)
	}
	expect()
	// Those who have come and gone are kept apart no longer than until there are many.
	for i := range 100 {
		u.end(u.begin(fmt.Sprint(i), now), pass(1))
	}
	for i := range 100 {
		u.wait(fmt.Sprint("w", i))()
	}
	if len(u.by) > mostUsers+1 {
		t.Errorf("%d users are kept", len(u.by))
	}
	if got := u.report("chat", now); len(got.Callers) != mostUsers+1 || got.Callers[0].User != "" || got.Callers[0].Seconds != 100-mostUsers {
		t.Errorf("%+v", got)
	}
}

// The daemon hears who uses a service, by who they are and not by what their headers say,
// and also while a stream goes on without an end.
func TestUsesAreReported(t *testing.T) {
	s := startServer(t)
	d := newDaemon(t, ready("chat", s, 1))
	f := startFront(t, d, func(f *Front) { f.usePause = time.Millisecond })
	used := func(user string, open int) func(api.FrontReport) (float64, bool) {
		return func(r api.FrontReport) (float64, bool) {
			if r.Used == nil || r.Used.Service != "chat" {
				return 0, false
			}
			if user == "" {
				return 0, len(r.Used.Callers) == 0
			}
			for _, c := range r.Used.Callers {
				if c.User == "mallory" {
					t.Error("a header says who calls")
				}
				if c.User == user && c.Open == open && c.Seconds > 0 {
					return c.Seconds, true
				}
			}
			return 0, false
		}
	}
	_, pieces, leave := f.stream(t, "/services/chat/v1/stream?n=1&stay=1")
	if _, err := pieces.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	until(t, d, used("me", 1))
	r, err := http.NewRequest("GET", f.url+"/services/chat/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer berth_other")
	r.Header.Set("X-Forwarded-User", "mallory")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	until(t, d, used("token:other", 0))
	leave()
	until(t, d, used("", 0))
}
