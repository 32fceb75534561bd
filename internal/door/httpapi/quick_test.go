package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

// What goes past the framework is answered as the framework answers it: with the same
// status, the same kind of body, and the same words.
func TestQuickAnswersAreThoseOfTheFramework(t *testing.T) {
	quick, slow := open(t, "1xrtx-4060"), open(t, "1xrtx-4060")
	send := func(d *door, method, path, body string) (int, string, any) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		if body == "" {
			r = httptest.NewRequest(method, path, nil)
		} else {
			r.Header.Set("Content-Type", "application/json")
		}
		w := httptest.NewRecorder()
		d.server.ServeHTTP(w, r.WithContext(withIdentity(t.Context(), user(7))))
		var v any
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
			t.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
		}
		return w.Code, w.Header().Get("Content-Type"), v
	}
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/api/leases", `{"id":"a","slots":1,"ttl_seconds":60,"timeout_seconds":0}`, http.StatusCreated},
		{"POST", "/api/leases", `{"id": "a", "slots": 1, "timeout_seconds": 0}`, http.StatusConflict},
		{"POST", "/api/leases", `{"id":"b","memory_mb":999999,"timeout_seconds":0}`, http.StatusConflict},
		{"POST", "/api/leases", `{"id":"b","policy":"nonsense"}`, http.StatusUnprocessableEntity},
		{"POST", "/api/leases", `{"id":"b","memory_mb":-1}`, http.StatusUnprocessableEntity},
		{"POST", "/api/leases", `{"id":"b"`, http.StatusBadRequest},
		{"DELETE", "/api/leases/a", "", http.StatusOK},
		{"DELETE", "/api/leases/a", "", http.StatusNotFound},
		{"DELETE", "/api/leases/%20", "", http.StatusNotFound},
	} {
		status, kind, got := send(quick, c.method, c.path, c.body)
		path, body := c.path, c.body
		if body == "" {
			path += "?keep_running=false"
		} else {
			body = "  " + body
		}
		slowly, theirs, want := send(slow, c.method, path, body)
		if status != c.want || status != slowly || kind != theirs || !reflect.DeepEqual(timeless(got), timeless(want)) {
			t.Errorf("%s %s %s: %d %s\n%v\nthe framework: %d %s\n%v", c.method, c.path, c.body, status, kind, got, slowly, theirs, want)
		}
	}
}

// timeless replaces the times in an answer, which differ.
func timeless(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, each := range v {
			v[k] = timeless(each)
		}
	case string:
		if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return "a time"
		}
	}
	return v
}
