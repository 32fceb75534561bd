package jobs

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/console"
)

// world is a daemon with jobs and leases, some of which have ended.
type world struct {
	jobs  []api.Job
	acted []string // what was cancelled or held, by its path
}

func (d *world) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	say := func(status int, kind string, answer any) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	}
	unknown := func(code string) {
		say(http.StatusNotFound, "application/problem+json", api.Problem{Status: http.StatusNotFound, Code: code, Detail: "There is no such thing."})
	}
	path := strings.TrimPrefix(r.URL.Path, "/api/")
	kind, rest, one := strings.Cut(path, "/")
	id, verb, _ := strings.Cut(rest, "/")
	if r.Method == http.MethodPost {
		defer func() {
			if w.Header().Get("Content-Type") == "application/json" {
				d.acted = append(d.acted, path)
			}
		}()
	}
	leases := []api.Lease{{ID: "eval-9", Holder: api.Holder{User: "ada", Name: "eval"}}, {ID: "sweep-8.1", Holder: api.Holder{User: "ada", Name: "sweep"}}, {ID: "llm", Holder: api.Holder{User: "carol"}}}
	switch {
	case path == "whoami":
		say(http.StatusOK, "application/json", api.Whoami{User: "ada"})
	case path == "jobs":
		all := api.Jobs{}
		for _, j := range d.jobs {
			if states := r.URL.Query().Get("state"); states == "" || strings.Contains(states, j.State) {
				all.Jobs = append(all.Jobs, j)
			}
		}
		say(http.StatusOK, "application/json", all)
	case kind == "jobs" && one:
		for _, j := range d.jobs {
			if j.ID == id {
				say(http.StatusOK, "application/json", j)
				return
			}
		}
		unknown("unknown_job")
	case path == "services":
		say(http.StatusOK, "application/json", api.Services{Services: []api.Service{{Name: "chat"}}})
	case kind == "services" && one:
		unknown("unknown_service")
	case path == "leases":
		say(http.StatusOK, "application/json", api.Leases{Leases: leases})
	case path == "past/leases":
		say(http.StatusOK, "application/json", api.PastLeases{Leases: []api.PastLease{{ID: "embed", Holder: api.Holder{User: "ada"}}, {ID: "probe-2", Holder: api.Holder{User: "ada", Name: "probe"}}, {ID: "retried-5", Holder: api.Holder{User: "ada", Name: "retried"}}, {ID: "parts-11.2", Holder: api.Holder{User: "ada", Name: "parts"}}, {ID: "llm", Holder: api.Holder{User: "bob"}}}})
	case kind == "leases" && verb == "cancel":
		for _, l := range leases {
			if user := r.URL.Query().Get("user"); l.ID == id && (user == "" || user == l.Holder.User) {
				say(http.StatusOK, "application/json", api.Ended{ID: id, Lease: &l})
				return
			}
		}
		unknown("unknown_allocation")
	default:
		say(http.StatusOK, "application/json", struct{}{})
	}
}

// A name or an id means what has it, also when that has ended, and never what only begins
// so. A beginning means a job only if one name begins so.
func TestNamesOfWhatHasEnded(t *testing.T) {
	for _, c := range []struct {
		line  []string
		means string // what was acted upon or shown, "" for nothing
		says  string // the error
	}{
		{[]string{"wait", "long"}, "long-1", ""}, // it was cancelled, and long2-2 runs
		{[]string{"wait", "long-1"}, "long-1", ""},
		{[]string{"cancel", "long"}, "jobs/long-1/cancel", ""},
		{[]string{"cancel", "train"}, "jobs/train-7/cancel", ""}, // what runs before what has ended
		{[]string{"cancel", "trai"}, "jobs/train-7/cancel", ""},  // one name begins so
		{[]string{"cancel", "lon"}, "", `"lon" means several: long2-2, long-1`},
		{[]string{"wait", "lon"}, "", `"lon" means several: long2-2, long-1`},
		{[]string{"wait", "long", "nobody"}, "", "there is no job with the id or the name nobody"}, // before it waits for long
		{[]string{"hold", "lon"}, "", `"lon" means several: long2-2, long-1`},
		{[]string{"cancel", "embed"}, "", "There is no such thing"}, // embedder-3 runs
		{[]string{"cancel", "probe"}, "", "There is no such thing"},
		{[]string{"cancel", "eval"}, "leases/eval-9/cancel", ""}, // a lease with the name before a job that begins so
		{[]string{"cancel", "ada/eval"}, "leases/eval-9/cancel", ""},
		{[]string{"cancel", "bob/llm"}, "", "There is no such thing"}, // it has ended, and carol has another one
		{[]string{"cancel", "ll"}, "", "there is no job, lease or request with the id or the name ll"},
		{[]string{"cancel", "sweep"}, "jobs/sweep-8/cancel", ""}, // the leases of its tasks are part of it
		{[]string{"cancel", "sweep.1"}, "jobs/sweep-8.1/cancel", ""},
		{[]string{"cancel", "retried"}, "jobs/retried-5/cancel", ""}, // the lease of its first try has ended
		{[]string{"cancel", "parts.2"}, "jobs/parts-11.2/cancel", ""},
		{[]string{"redo", "train-99"}, "", "berth jobs --all lists them"}, // train-7 is another job
		{[]string{"cancel", "train-99"}, "", "berth jobs --all and berth leases list them"},
		{[]string{"hold", "trian"}, "", "did you mean train?"},
		{[]string{"logs", "trian"}, "", "did you mean train?"},
		{[]string{"logs", "chta"}, "", "did you mean chat?"},
		{[]string{"cancel", ""}, "", "There is no such job: the id is empty"},
		{[]string{"hold", ""}, "", "There is no such job: the id is empty"},
		{[]string{"unhold", ""}, "", "There is no such job: the id is empty"},
		{[]string{"redo", ""}, "", "There is no such job: the id is empty"},
		{[]string{"wait", ""}, "", "There is no such job: the id is empty"},
		{[]string{"job", ""}, "", "There is no such job: the id is empty"},
		{[]string{"logs", ""}, "", "There is no such job: the id is empty"},
	} {
		d := &world{jobs: []api.Job{
			{ID: "probes-12", Name: "probes", User: "ada", State: "running"}, {ID: "sweep-8", Name: "sweep", User: "ada", State: "running"}, {ID: "sweep-8.1", Name: "sweep", User: "bob", State: "running"},
			{ID: "train-7", Name: "train", User: "ada", State: "running"}, {ID: "train-6", Name: "train", User: "ada", State: "done"},
			{ID: "evaluate-4", Name: "evaluate", User: "ada", State: "waiting"}, {ID: "embedder-3", Name: "embedder", User: "ada", State: "running"},
			{ID: "retried-5", Name: "retried", User: "ada", State: "waiting"}, {ID: "parts-11", Name: "parts", User: "ada", State: "running"}, {ID: "parts-11.2", Name: "parts", User: "bob", State: "running"},
			{ID: "long2-2", Name: "long2", User: "ada", State: "running"}, {ID: "long-1", Name: "long", User: "ada", State: "cancelled"}, {ID: "train-0", Name: "train", User: "ada", State: "failed"},
		}}
		server := httptest.NewServer(d)
		var out, errs bytes.Buffer
		con := &console.Console{URL: server.URL, Env: console.Env{
			Out: &out, Err: &errs, Getenv: func(string) string { return "" }, Now: time.Now, Terminal: func() (int, bool) { return 80, false },
		}}
		root := &cobra.Command{SilenceErrors: true, SilenceUsage: true, PersistentPreRun: func(cmd *cobra.Command, _ []string) { con.Begin(cmd) }}
		for _, command := range Commands() {
			root.AddCommand(command.New(con))
		}
		root.SetArgs(c.line)
		err := root.ExecuteContext(t.Context())
		server.Close()
		con.Report(err)
		switch got := strings.Join(d.acted, " "); {
		case c.line[0] == "wait":
			got, _, _ = strings.Cut(out.String(), " ")
			fallthrough
		case got != c.means:
			if got != c.means {
				t.Errorf("%q means %q, not %q: %s", c.line, got, c.means, &errs)
			}
		}
		if !strings.Contains(errs.String(), c.says) || c.says != "" && err == nil {
			t.Errorf("%q says %q", c.line, &errs)
		}
	}
}
