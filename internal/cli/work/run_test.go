package work

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/cli/console"
)

// TestRunScreen: what workers print stands above the block, whole, and the
// block goes away at the end.
func TestRunScreen(t *testing.T) {
	var err bytes.Buffer
	s := newRunScreen(t.Context(), &console.Console{Env: console.Env{Err: &err}})
	s.draw([]string{"one", "two"})
	s.say("hello %d", 1)
	s.notify(batch.Event{Code: batch.EventReady, Text: "not told"})
	s.notify(batch.Event{Code: batch.EventFailed, Worker: "worker 1", Text: "died\x1b[2J"})
	s.draw(nil)
	const wipe = "\x1b[2A\r\x1b[J"
	want := strings.Join([]string{
		"one\ntwo\n", "berth: hello 1\none\ntwo\n", "berth: worker 1 on GPU 0: died?[2J\none\ntwo\n", "",
	}, wipe)
	if diff := cmp.Diff(want, err.String()); diff != "" {
		t.Error(diff)
	}
}

// TestProgressIsToldOnce: a line says something that the line before it did not.
func TestProgressIsToldOnce(t *testing.T) {
	var err bytes.Buffer
	s := newRunScreen(t.Context(), &console.Console{Env: console.Env{Err: &err}})
	b := api.Batch{Stage: batch.StageRunning, Total: gpu.Some[int64](2000), Exact: true, Workers: 1}
	var told news
	for _, done := range []int64{0, 0, 0, 500, 500, 2000} {
		b.Done = done
		s.tell(b, &told)
	}
	if got := strings.Count(err.String(), "\n"); got != 3 || strings.Count(err.String(), "berth: 0 of 2,000 records") != 1 {
		t.Error(err.String())
	}
}

// The head start is that of the flag, or else that of the environment.
func TestHeadStartOfTheEnvironment(t *testing.T) {
	for _, test := range []struct {
		flag, variable string
		want           time.Duration
		refused        string
	}{
		{"", "", 0, ""},
		{"", "2s", 2 * time.Second, ""},
		{"0", "2s", 0, ""},
		{"1m", "soon", time.Minute, ""},
		{"", "soon", 0, `BERTH_HEAD_START: "soon" is not a length of time`},
	} {
		con := &console.Console{Env: console.Env{Getenv: func(name string) string {
			if name == "BERTH_HEAD_START" {
				return test.variable
			}
			return ""
		}}}
		o := runOptions{Console: con, gpus: "all", inputs: []string{"in"}, output: "-", command: []string{"w"}, batch: 1, perGPU: 1, tries: 1}
		if test.flag != "" {
			if err := o.headStart.Set(test.flag); err != nil {
				t.Fatal(err)
			}
		}
		got, _, err := o.options()
		if got.HeadStart != test.want || (err == nil) != (test.refused == "") || err != nil && !strings.HasPrefix(err.Error(), test.refused) {
			t.Errorf("%q, %q: %v, %v", test.flag, test.variable, got.HeadStart, err)
		}
	}
}

// TestTerminalWithoutColumns: it gets lines, and no codes for a terminal.
func TestTerminalWithoutColumns(t *testing.T) {
	con := &console.Console{Env: console.Env{
		Getenv: func(string) string { return "" }, ErrTerminal: func() (int, bool) { return 0, true },
	}}
	if width, ok := con.LiveWidth(); ok {
		t.Errorf("a terminal of %d columns can be overwritten", width)
	}
}

// What was wrong with a GPU stands in the summary.
func TestTroublesAreSummedUp(t *testing.T) {
	s := batch.Summary{GPUs: []batch.GPUSummary{
		{GPU: batch.GPU{Index: 0}},
		{GPU: batch.GPU{Index: 1, Host: "gpu2"}, Trouble: "is in quarantine until 10:50 at least: XID 79\x1b[2J"},
	}}
	want := []string{"Workers left GPU 1 of gpu2, which is in quarantine until 10:50 at", "least: XID 79?[2J."}
	if diff := cmp.Diff(want, troubles(s, 66)); diff != "" {
		t.Error(diff)
	}
}

// A run that is begun in the moment in which the daemon is killed asks the next one.
func TestRunBegunWhileTheDaemonIsKilled(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1)%2 == 1 { // each question is cut off once
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "{}")
	})}
	defer server.Close()
	go func() { _ = server.Serve(listener) }()
	o := &runOptions{
		Console: &console.Console{Socket: socket, Env: console.Env{
			In: strings.NewReader("{}\n"), Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }, Now: time.Now, Environ: os.Environ(),
		}},
		inputs: []string{"-"}, inputFormat: "jsonl", output: "-", command: []string{"true"}, batch: 1, perGPU: 1, gpus: "all", tries: 1,
	}
	if err := o.run(t.Context()); !errors.Is(err, batch.ErrRefused) {
		t.Errorf("it did not hear of the devices: %v", err)
	}
}
