package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/console"
)

var now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// daemon answers as one with a few jobs would, and writes down what it was asked to
// submit.
type daemon struct {
	asked []string
	cut   bool // it ends before it answers to a submission
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	known := map[string]api.Job{
		"train-17": {ID: "train-17", Name: "train", User: "ada", State: "running"}, "train-9": {ID: "train-9", Name: "train", User: "ada", State: "done"},
		"old-4": {ID: "old-4", Name: "old", User: "ada", State: "done"}, "old-5": {ID: "old-5", Name: "old", User: "ada", State: "failed"},
		"prep-16": {ID: "prep-16", Name: "prep", User: "bob", State: "waiting"}, "fit-18": {ID: "fit-18", Name: "fit", User: "bob", State: "running"}, "fit-19": {ID: "fit-19", Name: "fit", User: "bob", State: "running"},
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/jobs/"), "/")
	bare, _, _ := strings.Cut(id, ".")
	switch job, found := known[bare]; {
	case d.cut && r.URL.Path == "/api/jobs":
		panic(http.ErrAbortHandler)
	case r.URL.Path == "/healthz":
	case r.URL.Path == "/api/gpu/status/all":
		_ = json.NewEncoder(w).Encode(api.StatusAll{})
	case r.URL.Path == "/api/leases/explain":
		_ = json.NewEncoder(w).Encode(api.Explanation{Fits: true})
	case r.URL.Path == "/api/leases":
		_ = json.NewEncoder(w).Encode(api.Leases{})
	case r.URL.Path == "/api/past/leases":
		_ = json.NewEncoder(w).Encode(api.PastLeases{})
	case r.URL.Path == "/api/whoami":
		_ = json.NewEncoder(w).Encode(api.Whoami{User: "ada", Door: "socket"})
	case r.Method == http.MethodPost && (r.URL.Path == "/api/jobs" || found):
		d.asked = append(d.asked, r.URL.Path+" "+string(body))
		_ = json.NewEncoder(w).Encode(api.Job{ID: "job-20", State: "waiting"})
	case r.URL.Path == "/api/jobs":
		all := api.Jobs{Jobs: []api.Job{}}
		for _, id := range []string{"fit-19", "fit-18", "train-17", "prep-16", "train-9", "old-5", "old-4"} {
			if r.URL.Query().Get("state") == "" || !new(known[id]).Over() {
				all.Jobs = append(all.Jobs, known[id])
			}
		}
		_ = json.NewEncoder(w).Encode(all)
	case found:
		_ = json.NewEncoder(w).Encode(job)
	default:
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(api.Problem{Status: http.StatusNotFound, Code: "unknown_job", Detail: "There is no job " + id + "."})
	}
}

// run runs one command of this package against a daemon.
func (d *daemon) run(t *testing.T, environ []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	folder, err := os.MkdirTemp("", "berth") // shorter than t.TempDir, for the socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket := filepath.Join(folder, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: d}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	var out, errs bytes.Buffer
	con := &console.Console{Env: console.Env{
		In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(string) string { return "" }, Environ: environ, Now: func() time.Time { return now },
		Terminal: func() (int, bool) { return 0, false },
	}, Socket: socket}
	root := &cobra.Command{Use: "berth", SilenceErrors: true, SilenceUsage: true, PersistentPreRun: func(cmd *cobra.Command, _ []string) { con.Begin(cmd) }}
	for _, each := range Commands() {
		root.AddCommand(each.New(con))
	}
	root.SetArgs(args)
	err = root.ExecuteContext(context.Background())
	con.Report(err)
	return out.String(), errs.String(), con.ExitCode(context.Background(), err)
}

func TestSubmitAsks(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	if err := os.WriteFile("run.sh", []byte("#!/bin/sh\n#BERTH --memory 2GiB --name fit\necho $1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"HOME=/home/ada", "SECRET=x y", "BERTH_JOB=old-1", "BERTH_PARAM_lr=3", "BERTH_SOCKET=/s", "BERTH_LEASE=small", "BERTH_FENCE=3", "CUPY_GPU_MEMORY_LIMIT=7960788992"}
	plain := `"directory":"` + folder + `","environment":["HOME=/home/ada","SECRET=x y","BERTH_SOCKET=/s"],"umask":18`
	for _, c := range []struct{ line, want string }{
		{"-- python train.py --lr {lr}", `{"command":["python","train.py","--lr","{lr}"],` + plain + `}`},
		{"--memory 8GiB --gpus 2 --time 4h --priority 3 --name train -- a", `{"command":["a"],"name":"train",` + plain + `,"lease":{"name":"train","gpus":2,"memory_mb":8192,"priority":3,"time_limit_seconds":14400}}`},
		{"run.sh 7 --flag", `{"command":["/bin/sh","-c","#!/bin/sh\n#BERTH --memory 2GiB --name fit\necho $1\n","` + folder + `/run.sh","7","--flag"],"name":"fit",` + plain + `,"lease":{"name":"fit","memory_mb":2048}}`},
		{"--memory 4GiB run.sh", `{"command":["/bin/sh","-c","#!/bin/sh\n#BERTH --memory 2GiB --name fit\necho $1\n","` + folder + `/run.sh"],"name":"fit",` + plain + `,"lease":{"name":"fit","memory_mb":4096}}`},
		{"--array 1-20%4 -- a", `{"command":["a"],` + plain + `,"array":"1-20%4"}`},
		{"--param lr=0.1,0.01 --param bs=32 -- a", `{"command":["a"],` + plain + `,"params":[{"name":"lr","values":["0.1","0.01"]},{"name":"bs","values":["32"]}]}`},
		{"--after train,prep-16 --after-any tr --after-failed train-9 -- a", `{"command":["a"],` + plain + `,"after":["train-17","prep-16"],"after_any":["train-17"],"after_failed":["train-9"]}`},
		{"--begin 22:00 --hold --retry 2 --requeue -- a", `{"command":["a"],` + plain + `,"begin":"2026-01-31T22:00:00Z","hold":true,"retry":2,"requeue":"machine"}`},
		{"--begin now+2h --requeue=time -- a", `{"command":["a"],` + plain + `,"begin":"2026-01-31T14:00:00Z","requeue":"time"}`},
		{"--begin 2026-02-01 -- a", `{"command":["a"],` + plain + `,"begin":"2026-02-01T00:00:00Z"}`},
		{"--time 4h --signal sigusr1@90s -- a", `{"command":["a"],` + plain + `,"signal":"USR1","signal_seconds":90,"lease":{"time_limit_seconds":14400}}`},
		{"--time 4h --signal TERM -- a", `{"command":["a"],` + plain + `,"signal":"TERM","lease":{"time_limit_seconds":14400}}`},
		{"--chdir / --output log-%j --error /e --export none --env SECRET --env A=1 --env A=2 -- a", `{"command":["a"],"directory":"/","environment":["HOME=/home/ada","SECRET=x y","A=2"],"umask":18,"output":"log-%j","error":"/e"}`},
		{"--export none -- a", `{"command":["a"],"directory":"` + folder + `","umask":18}`},
		{"--cpus 0.5 --host-memory 16GiB --comment hi -- a", `{"command":["a"],` + plain + `,"cpus":0.5,"host_memory_mb":16384,"lease":{"comment":"hi"}}`},
		{"--dry-run -- a", `{"command":["a"],` + plain + `,"dry_run":true}`},
	} {
		t.Run(c.line, func(t *testing.T) {
			d := &daemon{}
			out, said, code := d.run(t, environ, append([]string{"submit"}, strings.Fields(c.line)...)...)
			if code != 0 || len(d.asked) != 1 {
				t.Fatalf("exit code %d, asked %q, said %s", code, d.asked, said)
			}
			var got, want any
			_, body, _ := strings.Cut(d.asked[0], " ")
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(c.line, "dry-run") && out != "job-20\n" {
				t.Errorf("printed %q", out)
			}
		})
	}
}

// What cannot be meant is refused before anything is submitted, and names the next step.
func TestSubmitRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, f := range []struct{ name, text string }{{"plain.sh", "echo\n"}, {"late.sh", "#!/bin/sh\necho\n#BERTH --hold\n"}, {"wrong.sh", "#!/bin/sh\n#BERTH --gpus no\n"}} {
		if err := os.WriteFile(f.name, []byte(f.text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"":                               "the command is missing",
		"nosuch.sh":                      "to run a command, write two dashes before it: berth submit -- nosuch.sh",
		"plain.sh":                       "begin it with a line such as #!/bin/sh",
		"late.sh":                        "late.sh: line 3: #BERTH lines must come before",
		"wrong.sh":                       `wrong.sh: line 2: --gpus: "no" is not a number from 1 to 1024`,
		"-":                              "a job cannot read standard input",
		"--chdir /nosuch -- a":           "--chdir /nosuch: there is no such folder",
		"--export some -- a":             "--export takes all or none",
		"--env NOSUCH -- a":              "--env NOSUCH: there is no such variable here",
		"--env =1 -- a":                  "--env takes NAME=VALUE or NAME",
		"--param lr -- a":                "--param takes a name and its values",
		"--param lr= -- a":               "--param takes a name and its values",
		"--param a=1 --param a=2 -- a":   "--param a comes twice",
		"--begin yesterday -- a":         "--begin takes an hour such as 18:00",
		"--begin 2020-01-01 -- a":        "--begin must be in the future",
		"--time 1h --signal @60s -- a":   "--signal takes the name of a signal",
		"--time 1h --signal 9@60s -- a":  "--signal takes the name of a signal",
		"--time 1h --signal A@soon -- a": "--signal takes a signal and how long before the end",
		"--signal USR1 -- a":             "give one with --time",
		"--requeue=never -- a":           "use --requeue or --requeue=time",
		"--wait --follow -- a":           "--follow waits too",
		"--dry-run --wait -- a":          "--dry-run submits nothing",
		"--follow --array 1-2 -- a":      "--follow shows one log",
		"--memory -- a":                  "",
	} {
		d := &daemon{}
		_, said, code := d.run(t, nil, append([]string{"submit"}, strings.Fields(line)...)...)
		if code != 2 || len(d.asked) > 0 || !strings.Contains(said, want) {
			t.Errorf("%q: exit code %d, asked %q, said %s", line, code, d.asked, said)
		}
	}
	for name, want := range map[string]string{"nosuch": "there is no job with the id or the name nosuch", "train-1": "there is no job with the id or the name train-1", "bob/fit": `"fit" means several: fit-19, fit-18`, "fit": "fit-19 of bob is called so, and is not yours: name it by its id, or as bob/fit"} {
		d := &daemon{}
		if _, said, code := d.run(t, nil, "submit", "--after", name, "--", "a"); code == 0 || len(d.asked) > 0 || !strings.Contains(said, want) {
			t.Errorf("--after %s: exit code %d, asked %q, said %s", name, code, d.asked, said)
		}
	}
}

// If the daemon ends before it answers, nobody knows whether the job was submitted.
func TestSubmitIsCutOff(t *testing.T) {
	d := &daemon{cut: true}
	if _, said, code := d.run(t, nil, "submit", "--", "a"); code != 1 || !strings.Contains(said, "look with berth jobs before you submit it again") {
		t.Errorf("exit code %d, said %s", code, said)
	}
}

// Names find one's own jobs in every command, and those of others after their user: those
// that run before those that have ended, of which the newest is meant.
func TestNames(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"cancel train", "/api/jobs/train-17/cancel {}"}, {"hold bob/p", "/api/jobs/prep-16/hold {}"}, {"unhold prep-16", "/api/jobs/prep-16/unhold {}"},
		{"cancel bob/prep", "/api/jobs/prep-16/cancel {}"}, {"redo old", `/api/jobs/old-5/redo {}`},
		{"redo --failed train.3", `/api/jobs/train-17.3/redo {"failed":true}`}, {"priority tr -- -5", `/api/jobs/train-17/priority {"priority":-5}`},
	} {
		d := &daemon{}
		_, said, code := d.run(t, nil, strings.Fields(c.line)...)
		if code != 0 || len(d.asked) != 1 || d.asked[0] != c.want {
			t.Errorf("%s: exit code %d, asked %q, said %s", c.line, code, d.asked, said)
		}
	}
}

// The name of a job of another user, which an operator may cancel, cancels nothing.
func TestNamesOfOthers(t *testing.T) {
	for _, line := range []string{"cancel prep", "cancel fit", "cancel pr", "hold prep"} {
		d := &daemon{}
		if _, said, code := d.run(t, nil, strings.Fields(line)...); code == 0 || len(d.asked) > 0 || !strings.Contains(said, "there is no job") {
			t.Errorf("%s: exit code %d, asked %q, said %s", line, code, d.asked, said)
		}
	}
}
