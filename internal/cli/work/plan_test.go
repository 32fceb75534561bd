package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/batch/pipeline"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/programs"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// testNow is when these tests look at the clock.
var testNow = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// newShown is a plan of two wells, and what is shown of it.
func newShown(terminal int) (p *progress, out, err *bytes.Buffer) {
	out, err = &bytes.Buffer{}, &bytes.Buffer{}
	con := &console.Console{Env: console.Env{Out: out, Err: err, Now: func() time.Time { return testNow }, Getenv: func(string) string { return "" }}}
	if terminal > 0 {
		con.ErrTerminal = func() (int, bool) { return terminal, true }
	}
	plan := api.Plan{File: "plate.yaml", SideBySide: 2, Waves: 1, Pipelines: []api.PlannedPipeline{
		{Name: "well", Memory: 1, Runs: []api.PlannedRun{{Name: "well[0]"}, {Name: "well[1]"}}},
	}}
	return newProgress(context.Background(), con, nil, plan, view.GPUs{"GPU-a": 0, "GPU-b": 1}), out, err
}

func on(uuid, name, placement string) programs.Result {
	return programs.Result{
		Begun: testNow, Took: 12 * time.Second,
		RunningRun: api.RunningRun{Name: name, Placement: placement, Planned: "GPU-a", Reason: "GPU 0: it is full", Lease: &api.Lease{Parts: []api.LeasePart{{GPU: uuid}}}},
	}
}

// The daemon takes names of 128 characters; paths can be longer.
func TestEndingOfALongPath(t *testing.T) {
	long := "/home/" + strings.Repeat("ä", 300) + "/plate.yaml"
	if got := words.End(long, 128); utf8.RuneCountInString(got) != 128 || !strings.HasPrefix(got, "…") || !strings.HasSuffix(got, "/plate.yaml") {
		t.Errorf("%q", got)
	}
	if got := words.End("plate.yaml", 128); got != "plate.yaml" {
		t.Errorf("%q", got)
	}
}

func TestProgressInLines(t *testing.T) {
	p, _, out := newShown(0)
	first, second := on("GPU-a", "well[0]", api.PlacedAsPlanned), on("GPU-b", "well[1]", api.PlacedElsewhere)
	p.begin()
	p.Started(first)
	p.Started(second)
	p.Ended(first)
	second.Err = errors.New("exit status 3")
	p.Ended(second)
	p.end([]programs.Result{first, second})
	want := `berth: plate.yaml: 2 runs, 2 side by side on GPUs, 1 wave
berth: well[0] starts on GPU 0
berth: well[1] starts on GPU 1, and not as planned: GPU 0: it is full
berth: well[0] is done after 12 s
berth: well[1] failed after 12 s: exit status 3
berth: 2 runs in 0.0 s: 1 done, 1 failed; 1 on the GPU of the plan, 1 on another
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// On a terminal the line that counts stays below, and is gone at the end.
func TestProgressOnATerminal(t *testing.T) {
	p, _, out := newShown(60)
	first := on("GPU-a", "well[0]", api.PlacedAsPlanned)
	p.begin()
	p.Started(first)
	p.Ended(first)
	p.end([]programs.Result{first})
	counted := "██████████░░░░░░░░░░ 1 of 2 done, 0 running, 0 s"
	if !strings.Contains(out.String(), "\r\x1b[Kberth: well[0] is done after 12 s\n"+counted) {
		t.Errorf("%q does not count %q", out, counted)
	}
	if !strings.HasSuffix(out.String(), "\r\x1b[K") {
		t.Errorf("%q is left on the terminal", out)
	}
}

// What is said of a single run, which has the files themselves, does not wait for their
// reader once it is stopped.
func TestSingleRunThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, out := io.Pipe()
		con := &console.Console{Env: console.Env{Out: out, Err: out, Now: time.Now}}
		ctx, stop := context.WithCancel(t.Context())
		p := newProgress(ctx, con, nil, api.Plan{Pipelines: []api.PlannedPipeline{{Runs: []api.PlannedRun{{Name: "well"}}}}}, nil)
		stop()
		p.begin() // it would wait for ever
		_ = read.Close()
	})
}

func TestRunsAreStoppedWithOneLine(t *testing.T) {
	p, _, out := newShown(0)
	for _, r := range []programs.Result{on("GPU-a", "well[0]", api.PlacedAsPlanned), {RunningRun: api.RunningRun{Name: "well[1]"}}} {
		r.Err = fmt.Errorf("run: %w", programs.ErrStopped)
		p.Ended(r)
	}
	p.end(nil)
	if want := "berth: 2 runs in"; !strings.HasPrefix(out.String(), want) || !strings.HasSuffix(out.String(), "; 2 stopped, or not started\n") {
		t.Errorf("said %q", out)
	}
}

func TestLinesSayWhoseTheyAre(t *testing.T) {
	long := strings.Repeat("x", term.LongestLine)
	for _, c := range []struct {
		name    string
		written []string
		want    string
	}{
		{"whole lines", []string{"a\nb\n"}, "well[0]: a\nwell[0]: b\n"},
		{"in pieces", []string{"a", "b\nc", "d"}, "well[0]: ab\nwell[0]: cd\n"},
		{"empty lines", []string{"\n\n"}, "well[0]: \nwell[0]: \n"},
		{"carriage returns", []string{"a\r\n"}, "well[0]: a\n"},
		{"without an end", []string{long, "y"}, "well[0]: " + long + "\nwell[0]: y\n"},
		{"nothing", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, out, _ := newShown(0)
			stdout, _, done := p.Output("well[0]")
			for _, text := range c.written {
				if n, err := stdout.Write([]byte(text)); n != len(text) || err != nil {
					t.Fatal(n, err)
				}
			}
			done()
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A run by itself writes where the command writes, terminal and all; with
// --json it leaves standard output to the answer.
func TestOutputOfOneRun(t *testing.T) {
	p, out, err := newShown(0)
	p.runs.Total = 1
	if stdout, stderr, _ := p.Output("well"); stdout != out || stderr != err {
		t.Error("the output of one run takes a way around")
	}
	p.JSON = true
	stdout, _, done := p.Output("well")
	_, _ = stdout.Write([]byte("a"))
	done()
	if out.String() != "" || err.String() != "a" {
		t.Errorf("standard output has %q, standard error %q", out, err)
	}
}

// A run by itself has the terminal: nothing is drawn over what it writes.
func TestProgressOfOneRunOnATerminal(t *testing.T) {
	p, _, out := newShown(80)
	p.runs.Total = 1
	only := on("GPU-a", "well", api.PlacedAsPlanned)
	p.begin()
	p.Started(only)
	p.Ended(only)
	p.end([]programs.Result{only})
	if text := out.String(); strings.ContainsAny(text, "\r\x1b█░") || strings.Count(text, "\n") != 4 {
		t.Errorf("%q", text)
	}
}

func TestFailureOfARun(t *testing.T) {
	for _, c := range []struct {
		err   error
		alone bool
		want  int
	}{
		{errors.New("exit status 3"), true, 1},
		{&programs.KilledError{Signal: syscall.SIGKILL}, true, 1},
		{&programs.KilledError{Signal: syscall.SIGINT}, true, 130},
		{&programs.KilledError{Signal: syscall.SIGINT}, false, 1}, // not from the keyboard
	} {
		con := &console.Console{}
		con.Begin(&cobra.Command{})
		if err := failure(c.err, c.alone); con.ExitCode(t.Context(), err) != c.want || !errors.Is(err, console.ErrReported) {
			t.Errorf("%v, alone %t: %v, exit code %d", c.err, c.alone, err, con.ExitCode(t.Context(), err))
		}
	}
}

func TestRefusalInTheWordsOfTheFile(t *testing.T) {
	o := &planOptions{Console: &console.Console{}, path: "a.yaml"}
	problems := []any{map[string]any{"code": "no_gpu", "line": 4.0, "pipeline": "p", "step": "s", "reason": "it needs a GPU", "remedy": "buy one"}}
	refused := &api.Problem{Status: 422, Code: "plan_refused", Extra: map[string]any{"problems": problems}}
	want := "compile a.yaml: 1 problem\n  line 4: pipeline \"p\", step \"s\": it needs a GPU\n    → buy one"
	wrong := (*pipeline.Error)(nil)
	if err := o.asRead(refused); !errors.As(err, &wrong) || err.Error() != want {
		t.Errorf("refusal is %v", err)
	}
	for _, other := range []error{errors.New("x"), &api.Problem{Code: "stopping"}, &api.Problem{Code: "plan_refused"}} {
		if got := o.asRead(other); got != other {
			t.Errorf("%v became %v", other, got)
		}
	}
}
