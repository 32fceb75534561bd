package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/lease"
)

// TestIDsOfTwoUsers: each user names what is their own, an administrator is asked
// whose is meant, and those who only look learn no names.
func TestIDsOfTwoUsers(t *testing.T) {
	d := open(t, "1xrtx-4060")
	one, other, third := user(1), user(2), user(3)
	root := holding(lease.Holder{UID: 0, User: "root"}, access.Admin)
	for _, who := range []doorkeeper.Identity{one, other} {
		expect(t, "a lease", d.askAs(who, "POST", "/api/gpu/memory/allocate", `{"allocation_id":"train","memory_mb":100,"ttl_seconds":600}`), 201, "")
	}
	expect(t, "one's own id again", d.askAs(one, "POST", "/api/gpu/memory/allocate", `{"allocation_id":"train","memory_mb":100}`), 409, "duplicate_allocation")
	expect(t, "one's own again", d.askAs(other, "POST", "/api/gpu/memory/allocate", `{"allocation_id":"train","memory_mb":100,"again":"id","ttl_seconds":600}`), 200, "")

	look := func(who doorkeeper.Identity, path string) api.Lease {
		t.Helper()
		w := d.askAs(who, "GET", path, "")
		if w.Code != http.StatusOK {
			t.Errorf("%s for %s: %d %s", path, who.User, w.Code, w.Body)
		}
		return decode[api.Lease](t, w)
	}
	if l := look(other, "/api/leases/train"); l.Holder.User != "user2" {
		t.Errorf("one's own is %+v", l)
	}
	if l := look(third, "/api/leases/train?user=user1"); l.Holder.User != "user1" {
		t.Errorf("another's is %+v", l)
	}
	if l := look(third, "/api/leases/train?user=2"); l.Holder.User != "user2" {
		t.Errorf("another's by number is %+v", l)
	}
	for _, test := range []struct{ method, path, body string }{
		{"GET", "/api/leases/train", ""},
		{"GET", "/api/leases/train/explain", ""},
		{"DELETE", "/api/leases/train", ""},
		{"POST", "/api/gpu/memory/deallocate", `{"allocation_id":"train"}`},
		{"POST", "/api/leases/train/renew", `{"fence":0}`},
		{"POST", "/api/leases/train/resize", `{"memory_mb":1}`},
		{"POST", "/api/leases/train/trim", ""},
		{"POST", "/api/leases/train/scope", `{"add":["x.service"]}`},
	} {
		p := expect(t, test.method+" "+test.path, d.askAs(root, test.method, test.path, test.body), 409, "ambiguous_id", "user1/train, user2/train")
		if names, _ := p.Extra["candidates"].([]any); !slices.Equal(names, []any{"user1/train", "user2/train"}) {
			t.Errorf("%s %s: the candidates are %v", test.method, test.path, p.Extra)
		}
	}
	unknown := doorkeeper.Identity{Actor: viewer()}
	p := expect(t, "a viewer", d.askAs(unknown, "GET", "/api/leases/train", ""), 409, "ambiguous_id")
	if strings.Contains(p.Detail, "user1") || p.Extra != nil {
		t.Errorf("a viewer reads %+v", p)
	}
	expect(t, "a viewer who guesses", d.askAs(unknown, "GET", "/api/leases/train?user=user1", ""), 403, "not_allowed")

	for _, bad := range []string{"nobody", "user1/", "", " ", "\x00", "-1", "99999999999999999999", strings.Repeat("u", 256)} {
		path := "/api/leases/train?user=" + url.QueryEscape(bad)
		status, code := 404, "unknown_allocation"
		if bad == "" {
			status, code = 409, "ambiguous_id"
		}
		expect(t, "the user "+bad, d.askAs(root, "DELETE", path, ""), status, code)
	}
	expect(t, "too long", d.askAs(root, "DELETE", "/api/leases/train?user="+strings.Repeat("u", 257), ""), 422, "invalid_request")

	expect(t, "one's own", d.askAs(one, "DELETE", "/api/leases/train", ""), 200, "")
	expect(t, "one's own that has ended", d.askAs(one, "DELETE", "/api/leases/train", ""), 404, "unknown_allocation")
	if l := look(root, "/api/leases/train"); l.Holder.User != "user2" {
		t.Errorf("the only one is %+v", l)
	}
	expect(t, "that of a user", d.askAs(root, "DELETE", "/api/leases/train?user=user2", ""), 200, "")
}
