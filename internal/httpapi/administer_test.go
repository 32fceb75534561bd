package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/lease"
)

// What changes the daemon for everybody is for root and the daemon's own user.
func TestAdministrators(t *testing.T) {
	d := open(t, "1xrtx-4060")
	for _, route := range []struct{ method, path, body string }{
		{"PUT", "/api/gpu/config", `{"temp_optimal": 61}`},
		{"POST", "/api/gpu/monitoring/stop", ""},
		{"POST", "/api/gpu/monitoring/start", ""},
	} {
		for name, test := range map[string]struct {
			by     lease.Actor
			status int
		}{
			"somebody": {lease.Actor{Holder: lease.Holder{UID: 4711, User: "eve"}}, http.StatusForbidden},
			"root":     {lease.Actor{Holder: lease.Holder{UID: 0, User: "root"}, Any: true}, http.StatusOK},
		} {
			r := httptest.NewRequest(route.method, route.path, strings.NewReader(route.body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, test.by)))
			if w.Code != test.status {
				t.Errorf("%s %s by %s: %d %s, want %d", route.method, route.path, name, w.Code, w.Body, test.status)
			}
		}
	}
	if got := d.settings.Config.GPU.TempOptimal; got != 61 {
		t.Errorf("temp_optimal is %v, want what root set", got)
	}
}
