package httpapi

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/lease"
)

// The holder is told, and only its own user or an administrator may ask.
func TestTrim(t *testing.T) {
	d := open(t, "1xrtx-4060")
	if w := d.ask("POST", "/api/gpu/memory/allocate", `{"allocation_id":"work","memory_mb":1024}`); w.Code != http.StatusCreated {
		t.Fatalf("allocate: %d %s", w.Code, w.Body)
	}
	for _, test := range []struct {
		name, id string
		by       *doorkeeper.Identity // nil: who made the lease
		status   int
		code     string
	}{
		{"unknown", "nothing", nil, 404, "unknown_allocation"},
		{"another user", "work", new(holding(lease.Holder{UID: 4711, User: "eve"}, access.User)), 404, "unknown_allocation"},
		{"another user by name", "work?user=" + loginName(os.Getuid()), new(holding(lease.Holder{UID: 4711, User: "eve"}, access.User)), 403, "not_yours"},
		{"its own", "work", nil, 200, ""},
	} {
		id, query, _ := strings.Cut(test.id, "?")
		r := httptest.NewRequest("POST", "/api/leases/"+id+"/trim?"+query, nil)
		if test.by != nil {
			r = r.WithContext(withIdentity(r.Context(), *test.by))
		}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if w.Code != test.status || test.code != "" && decode[api.Problem](t, w).Code != test.code {
			t.Errorf("%s: %d %s, want %d %s", test.name, w.Code, w.Body, test.status, test.code)
		}
	}
	var told []string
	events, _ := d.events.Kept(0)
	for _, e := range events {
		if e.Code == gpu.EventReclaim {
			told = append(told, e.Lease)
		}
	}
	if len(told) != 1 || told[0] != "work" {
		t.Errorf("asked %v, want work once", told)
	}
}
