package leasing

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
)

// A job that waits for something other than room has no request, and is explained all the
// same.
func TestExplainUnasked(t *testing.T) {
	var out bytes.Buffer
	o := explainOptions{Console: &console.Console{Env: console.Env{
		Out: &out, Getenv: func(string) string { return "" }, Now: time.Now, Terminal: func() (int, bool) { return 80, false },
	}}}
	if err := o.unasked(api.Job{ID: "job-19", State: "waiting", Cause: "ada may run 1 job at a time"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, "job-19 is waiting: ada may run 1 job at a time.") || !strings.Contains(got, "berth job job-19") {
		t.Errorf("%q", got)
	}
}

// A name means a job that has no request any more, or has none yet.
func TestExplainNameOfAJob(t *testing.T) {
	jobs := []api.Job{{ID: "train-7", Name: "train", User: "bob", State: "running"}, {ID: "train-6", Name: "train", User: "ada", State: "cancelled"}, {ID: "big-5", Name: "big", User: "ada", State: "waiting"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any = api.Whoami{User: "ada"}
		switch id, one := strings.CutPrefix(r.URL.Path, "/api/jobs/"); {
		case one:
			at := slices.IndexFunc(jobs, func(j api.Job) bool { return j.ID == id })
			if at < 0 {
				w.WriteHeader(http.StatusNotFound)
				answer = api.Problem{Status: http.StatusNotFound, Code: "unknown_job"}
				break
			}
			answer = jobs[at]
		case r.URL.Path == "/api/jobs":
			answer = api.Jobs{Jobs: jobs}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer server.Close()
	c, err := client.New(client.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"train": "train-6", "train-7": "train-7", "big": "big-5", "nobody": ""} {
		if job, err := jobOf(t.Context(), c, text); job.ID != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v", text, job.ID, err)
		}
	}
}

func TestAmount(t *testing.T) {
	for _, text := range []string{"4", "63"} {
		if _, err := amount(text); err == nil || !strings.Contains(err.Error(), text+"GiB") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]int{"4GiB": 4096, "4MiB": 4, "64": 64, "4096": 4096} {
		if got, err := amount(text); err != nil || int(got) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}
