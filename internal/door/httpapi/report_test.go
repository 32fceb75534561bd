package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

func TestReportIsAPageThatRunsNothing(t *testing.T) {
	d := open(t, "1")
	if w := d.ask("POST", "/api/leases", `{"id":"<script>alert(1)</script>","service":"<img src=x onerror=alert(2)>","memory_mb":512}`); w.Code != http.StatusCreated {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	w := d.ask("GET", "/api/report?since=1h", "")
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		t.Fatalf("%d %s %s", w.Code, w.Header(), w.Body)
	}
	text, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
	if !strings.Contains(text, "<h1>") || strings.Contains(text, "<script") || strings.Contains(text, "<img") {
		t.Errorf("the page: %s", text)
	}
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'self'", "sandbox"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy %q has no %s", policy, part)
		}
	}
	for query, field := range map[string]string{"since=soon": "since", "until=soon": "until", "since=1s": "since", "since=99999h": "since", "since=1h&until=2h": "since"} {
		if w := d.ask("GET", "/api/report?"+query, ""); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `"`+field+`"`) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
