package httpapi

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/access"
)

// Plausible mistakes in requests, and what their answers must say and must not.
func TestHintsDoNotMislead(t *testing.T) {
	g := gates(t, &access.Rules{Daemon: os.Geteuid()}).withJobs(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		says, never        string
	}{
		{"DELETE", "/api/jobs/job-1", "", http.StatusMethodNotAllowed, "send POST /api/jobs/job-1/cancel", ""},
		{"DELETE", "/api/services/chat", "", http.StatusMethodNotAllowed, "send POST /api/services/chat/stop", ""},
		{"DELETE", "/api/gpu/status", "", http.StatusMethodNotAllowed, "it takes GET", "To "},
		{"PUT", "/api/jobs/job-1", "", http.StatusMethodNotAllowed, "it takes GET", "cancel"},
		{"POST", "/v1/chat/completions", `{"model":"chat"}`, http.StatusNotFound, "go to the front", "Did you mean"},
		{"GET", "/v1/models", "", http.StatusNotFound, "go to the front", "Did you mean"},
		{"GET", "/api/v2/query", "", http.StatusNotFound, "Did you mean /api/v1/query?", "front"},
		{"POST", "/api/jobs", `{"command":["true"],"memory_mb":"4 gigs"}`, http.StatusUnprocessableEntity, `write {"lease": {"memory_mb": …}}`, "host_memory_mb"},
		{"POST", "/api/jobs", `{"command":["true"],"memory":"4GiB"}`, http.StatusUnprocessableEntity, `write {"lease": {"memory_mb": …}}`, "host_memory_mb"},
		{"POST", "/api/jobs", `{"command":["true"],"gpus":2}`, http.StatusUnprocessableEntity, `write {"lease": {"gpus": …}}`, "did you mean"},
		{"POST", "/api/jobs", `{"comand":["true"]}`, http.StatusUnprocessableEntity, "did you mean command?", "lease"},
		{"POST", "/api/leases", `{"memory":4096}`, http.StatusUnprocessableEntity, "did you mean memory_mb?", ""},
	} {
		status, problem, text := g.as(onSocket(os.Geteuid()), c.method, c.path, c.body)
		said := problem.Detail
		for _, f := range problem.Fields {
			said += "\n" + f.Field + ": " + f.Detail
		}
		if status != c.status || !strings.Contains(said, c.says) || c.never != "" && strings.Contains(said, c.never) {
			t.Errorf("%s %s %s: %d %.600s", c.method, c.path, c.body, status, text)
		}
	}
	other := onSocket(os.Geteuid() + 1)
	for _, c := range []struct {
		method, path, body string
		admin              bool // whether the role admin is named
	}{
		{"PUT", "/api/gpu/config", `{"users": {"ada": {"memory_mb": 4096}}}`, true},
		{"POST", "/api/gpu/drain", `{"gpu": 0}`, false},
	} {
		status, problem, text := g.as(other, c.method, c.path, c.body)
		if status != http.StatusForbidden || strings.Contains(problem.Detail, "need the role admin") != c.admin {
			t.Errorf("%s %s %s by somebody else: %d %s", c.method, c.path, c.body, status, text)
		}
	}
	if there := g.jobsThere(t); there != "" {
		t.Errorf("there is %s", there)
	}
}
