package batch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
)

// Stopping is clean, and going on ends with the output of a run that was never
// stopped.
func TestStopAndResume(t *testing.T) {
	t.Parallel()
	jobs := with(3000, "hang") // so that it cannot end before it is stopped
	b := newBench(t, jobs)
	b.opt.Batch = 4
	b.opt.StopGrace = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	b.on(EventCommitted, 0, cancel)
	s, err := b.run(ctx)
	if !errors.Is(err, ErrStopped) || s.Stage != StageStopped {
		t.Fatalf("%v, %+v", err, s)
	}
	if s.Records == 0 || s.Records == 3000 {
		t.Fatalf("stopped after %d records", s.Records)
	}
	if _, err := os.Stat(b.opt.Output); err == nil {
		t.Error("a run that was stopped has an output")
	}
	again := b.mustRun()
	check(t, jobs, b.lines())
	if again.Before != s.Records || again.Records != 3000 || b.count(EventResumed) != 1 {
		t.Errorf("stopped with %d, went on with %d", s.Records, again.Before)
	}
}

// With --force the same command would begin again.
func TestStoppedForcedRunSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	jobs := with(500, "hang")
	b := newBench(t, jobs)
	b.opt.Batch, b.opt.Force = 4, true
	b.opt.StopGrace = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	b.on(EventCommitted, 0, cancel)
	s, err := b.run(ctx)
	if !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "without --force") || s.Error != err.Error() {
		t.Fatalf("%v, %+v", err, s)
	}
	b.opt.Force = false
	if s := b.mustRun(); s.Before == 0 {
		t.Errorf("it began again: %+v", s)
	}
	check(t, jobs, b.lines())
}

func TestFailuresAreCountedOverRuns(t *testing.T) {
	t.Parallel()
	jobs := with(400, "hang")
	for i := range 10 {
		jobs[i*40+1].Do = "bad"
	}
	b := newBench(t, jobs)
	b.opt.Batch = 4
	b.opt.StopGrace = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	b.on(EventCommitted, 0, cancel)
	if _, err := b.run(ctx); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	if s := b.mustRun(); s.Failed != 10 || s.Records != 400 {
		t.Errorf("%+v", s)
	}
	check(t, jobs, b.lines())
}

func TestResumeRefusesAnotherRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, with(500, "hang"))
	b.opt.Batch = 4
	b.opt.Command = []string{"python", "my worker.py"}
	b.opt.StopGrace = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	b.on(EventCommitted, 0, cancel)
	if _, err := b.run(ctx); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	b.write("in.jsonl", plain(501))
	if _, err := b.run(context.Background()); !errors.Is(err, outcome.ErrChanged) || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("a longer input: %v", err)
	}
	b.write("in.jsonl", with(500, "hang"))
	b.opt.Shape.Ordered = false
	if _, err := b.run(context.Background()); !errors.Is(err, outcome.ErrChanged) {
		t.Errorf("another shape: %v", err)
	}
	b.opt.Shape.Ordered = true
	b.opt.Command = []string{"python", "other.py"}
	if _, err := b.run(context.Background()); !errors.Is(err, outcome.ErrChanged) || !strings.Contains(err.Error(), "its workers are python 'my worker.py', and outcomes of both would be mixed: use that command") {
		t.Errorf("another worker: %v", err)
	}
	b.opt.Command = []string{"python", "my worker.py"}
	b.opt.Batch = 8 // how it is done may change
	b.mustRun()
	check(t, with(500, "hang"), b.lines())
}

func TestStream(t *testing.T) {
	t.Parallel()
	jobs := with(300, "hang")
	b := newBench(t, jobs)
	b.opt.StopGrace = 50 * time.Millisecond
	text, err := os.ReadFile(b.path("in.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	stop := func() error {
		b.opt.Input.Paths, b.opt.Input.Stream = nil, strings.NewReader(string(text))
		b.opt.Batch = 2
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		before := b.opt.Notify
		b.on(EventCommitted, 0, cancel)
		_, err := b.run(ctx)
		b.opt.Notify = before
		return err
	}
	if err := stop(); !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "cannot be resumed") {
		t.Fatal(err)
	}
	b.opt.Input.Stream = strings.NewReader(string(text))
	if _, err := b.run(context.Background()); !errors.Is(err, outcome.ErrGone) || !strings.Contains(err.Error(), "stream") {
		t.Errorf("a stream was resumed: %v", err)
	}
	if err := os.RemoveAll(b.path("marks")); err != nil { // it hangs once more
		t.Fatal(err)
	}
	if err := os.Mkdir(b.path("marks"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.opt.Force = true
	b.opt.Spool = true
	if err := stop(); !errors.Is(err, ErrStopped) || strings.Contains(err.Error(), "cannot be resumed") {
		t.Fatal(err)
	}
	b.opt.Force = false
	b.opt.Input.Stream = strings.NewReader("not read again")
	b.mustRun()
	check(t, jobs, b.lines())
}

// kill -9 of the runner, by a worker in the middle of a batch: its workers die
// with it, and the next one goes on.
func TestKilledRunner(t *testing.T) {
	t.Parallel()
	jobs := with(600, "runner", "runner", "runner")
	b := newBench(t, jobs)
	spec := runnerSpec{Input: b.path("in.jsonl"), Output: b.opt.Output, Marks: b.path("marks"), Shape: b.opt.Shape, GPUs: 2, PerGPU: 1, Batch: 8}
	kills := 0
	for {
		code, story := runRunner(t, spec, nil)
		if code == runnerDone {
			break
		}
		if kills++; code != -1 || kills > 3 {
			t.Fatalf("exit code %d\n%s", code, story)
		}
	}
	if kills == 0 {
		t.Error("the runner was never killed")
	}
	check(t, jobs, b.lines())
}

// A disk that is full ends the run with a word about it; when there is room,
// the run goes on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	jobs := plain(2000)
	for _, ordered := range []bool{false, true} {
		b := newBench(t, jobs)
		shape := outcome.Shape{Ordered: ordered}
		spec := runnerSpec{Input: b.path("in.jsonl"), Output: b.opt.Output, Marks: b.path("marks"), Shape: shape, GPUs: 2, PerGPU: 1, Batch: 8}
		counted := 0
		for _, limit := range []uint64{10, 3000, 20000, 30000} {
			spec.FileLimit = limit
			code, story := runRunner(t, spec, nil)
			if code != runnerFull {
				t.Fatalf("with files of at most %d bytes: exit code %d\n%s", limit, code, story)
			}
			if _, err := os.Stat(b.opt.Output); err == nil {
				t.Fatal("there is an output")
			}
			if counted > 0 && !strings.Contains(story, fmt.Sprintf("the outcomes of %d of the records are there", counted)) {
				t.Errorf("outcomes were counted that are not there: %d\n%s", counted, story)
			}
			if _, after, ok := strings.Cut(story, "summary "); ok {
				if _, err := fmt.Sscan(after, &counted); err != nil {
					t.Fatal(err)
				}
			}
		}
		spec.FileLimit = 0
		if code, story := runRunner(t, spec, nil); code != runnerDone {
			t.Fatalf("exit code %d\n%s", code, story)
		}
		if ordered {
			check(t, jobs, b.lines())
		} else {
			checkSet(t, jobs, b.lines())
		}
	}
}

// checkSet compares an output in any order.
func checkSet(t *testing.T, jobs []job, lines []string) {
	t.Helper()
	want, got := map[string]int{}, map[string]int{}
	for _, j := range jobs {
		want[answerTo(j)+"\n"]++
	}
	for _, l := range lines {
		got[l]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

// A run that has every outcome needs no input: a stream is not asked for again if only the
// end was not reached.
func TestCompleteStreamIsFinished(t *testing.T) {
	t.Parallel()
	jobs := plain(50)
	for name, shape := range map[string]outcome.Shape{"as it comes": {}, "ordered": {Ordered: true, Packing: outcome.Gzip}} {
		b := newBench(t, jobs)
		b.opt.Shape = shape
		text, err := os.ReadFile(b.path("in.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		b.opt.Input.Paths, b.opt.Input.Stream = nil, strings.NewReader(string(text))
		// Something is in the way of the end.
		obstacle := b.opt.Output
		if shape.Ordered {
			obstacle = outcome.Dir(b.opt.Output) + "/ordered"
		}
		b.on(EventCommitted, 0, func() {
			if err := os.Mkdir(obstacle, 0o700); err != nil {
				t.Error(err)
			}
		})
		if s, err := b.run(context.Background()); err == nil {
			t.Fatalf("%s: it ended: %+v", name, s)
		}
		if err := os.Remove(obstacle); err != nil {
			t.Fatal(err)
		}
		b.write("other.jsonl", jobs)
		b.opt.Input = record.Spec{Paths: []string{b.path("other.jsonl")}}
		if _, err := b.run(context.Background()); !errors.Is(err, outcome.ErrChanged) {
			t.Errorf("%s: it took another input: %v", name, err)
		}
		b.opt.Input = record.Spec{Stream: strings.NewReader("not read again")}
		if s := b.mustRun(); s.Before != 50 || s.Records != 50 {
			t.Errorf("%s: %+v", name, s)
		}
		if _, err := os.Stat(b.opt.Output); err != nil {
			t.Error(err)
		}
	}
}
