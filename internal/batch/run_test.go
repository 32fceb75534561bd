package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
	workers "github.com/berth-gpu/berth/internal/batch/worker"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envTestWorker) != "":
		runTestWorker()
	case os.Getenv(envTestRunner) != "":
		os.Exit(runTestRunner())
	}
	goleak.VerifyTestMain(m)
}

// quickExit keeps the race detector from waiting a second at the end of each
// worker.
const quickExit = "GORACE=atexit_sleep_ms=0"

// bench is a folder with an input, and options to run it.
type bench struct {
	t       *testing.T
	dir     string
	machine *machine
	opt     Options
	command workers.Command
	starter *workers.Starter

	mu     sync.Mutex
	events []Event
}

func newBench(t *testing.T, jobs []job) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), machine: newMachine(2, 1)}
	if err := os.Mkdir(b.path("marks"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.write("in.jsonl", jobs)
	b.opt = Options{
		Input:  record.Spec{Paths: []string{b.path("in.jsonl")}},
		Output: b.path("out.jsonl"),
		Shape:  outcome.Shape{Ordered: true},
		Start:  func(prefix string, env []string) (Process, error) { return b.starter.Start(prefix, env) },
		Leases: b.machine,
		Batch:  16, Backoff: time.Millisecond, CommitEvery: time.Millisecond, StopGrace: 20 * time.Second,
	}
	b.command = workers.Command{
		Args: []string{os.Args[0]},
		Env:  []string{envTestWorker + "=1", "BERTH_TEST_MARKS=" + b.path("marks"), quickExit},
	}
	b.opt.Notify = func(e Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, e)
	}
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) write(name string, jobs []job) {
	b.t.Helper()
	var text strings.Builder
	for _, j := range jobs {
		line, _ := json.Marshal(j)
		text.Write(line)
		text.WriteByte('\n')
	}
	if err := os.WriteFile(b.path(name), []byte(text.String()), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// open opens a run with workers of the command.
func (b *bench) open() (*Run, error) {
	b.t.Helper()
	starter, err := workers.NewStarter(b.command)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(starter.Close)
	b.starter = starter
	return Open(context.Background(), b.opt)
}

func (b *bench) run(ctx context.Context) (Summary, error) {
	b.t.Helper()
	r, err := b.open()
	if err != nil {
		return Summary{}, err
	}
	s, err := r.Run(ctx)
	if held := b.machine.held(); held != 0 {
		b.t.Errorf("%d places were not given back", held)
	}
	return s, err
}

func (b *bench) mustRun() Summary {
	b.t.Helper()
	s, err := b.run(context.Background())
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.story())
	}
	return s
}

// on calls do once, at the first event of a kind after skip others.
func (b *bench) on(code EventCode, skip int, do func()) {
	before := b.opt.Notify
	var mu sync.Mutex
	b.opt.Notify = func(e Event) {
		before(e)
		mu.Lock()
		defer mu.Unlock()
		if e.Code == code {
			if skip == 0 {
				do()
			}
			skip--
		}
	}
}

func (b *bench) count(code EventCode) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, e := range b.events {
		if e.Code == code {
			n++
		}
	}
	return n
}

// story is what happened, for a test that failed.
func (b *bench) story() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var s strings.Builder
	for _, e := range b.events {
		if e.Code != EventCommitted {
			fmt.Fprintf(&s, "%s %s GPU %d: %s\n", e.Code, e.Worker, e.GPU.Index, e.Text)
		}
	}
	return s.String()
}

func (b *bench) lines() []string {
	b.t.Helper()
	data, err := os.ReadFile(b.opt.Output)
	if err != nil {
		b.t.Fatal(err)
	}
	return slices.Collect(strings.Lines(string(data)))
}

// plain makes n jobs in which nothing goes wrong.
func plain(n int) []job {
	jobs := make([]job, n)
	for i := range jobs {
		jobs[i].ID = i
	}
	return jobs
}

// with puts a fault into the middle.
func with(n int, do ...string) []job {
	jobs := plain(n)
	for i, d := range do {
		jobs[(i+1)*n/(len(do)+1)].Do = d
	}
	return jobs
}

// check compares an ordered output with what the jobs should give.
func check(t *testing.T, jobs []job, lines []string) {
	t.Helper()
	if len(lines) != len(jobs) {
		t.Fatalf("%d lines for %d records", len(lines), len(jobs))
	}
	for i, j := range jobs {
		checkLine(t, j, lines[i])
	}
}

// guilty are the faults that end in an error.
var guilty = []string{"bad", "poison", "stuck", "giant", "refuse"}

func checkLine(t *testing.T, j job, line string) {
	t.Helper()
	line = strings.TrimSuffix(line, "\n")
	if !slices.Contains(guilty, j.Do) {
		if line != answerTo(j) {
			t.Fatalf("job %+v has the outcome %s", j, line)
		}
		return
	}
	var got struct {
		job
		Error string `json:"_error"`
	}
	if err := json.Unmarshal([]byte(line), &got); err != nil || got.job != j || got.Error == "" {
		t.Fatalf("job %+v has the outcome %s", j, line)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	jobs := plain(2000)
	b := newBench(t, jobs)
	b.machine = newMachine(2, 2)
	b.opt.Leases = b.machine
	s := b.mustRun()
	check(t, jobs, b.lines())
	if s.Records != 2000 || s.Failed != 0 || s.Restarts != 0 || s.Stage != StageDone || s.Took() <= 0 {
		t.Errorf("%+v", s)
	}
	var sum int64
	for _, g := range s.GPUs {
		sum += g.Records
	}
	if sum != 2000 {
		t.Errorf("the GPUs did %d records together", sum)
	}
	if _, err := os.Stat(outcome.Dir(b.opt.Output)); err == nil {
		t.Error("the folder beside the output is still there")
	}
}

// TestHeadStart: few records start one worker, however many GPUs there are.
func TestHeadStart(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain(2000))
	b.machine = newMachine(16, 1)
	b.opt.Leases, b.opt.HeadStart = b.machine, time.Hour
	if s := b.mustRun(); s.Records != 2000 || b.machine.taken != 1 {
		t.Errorf("%+v, %d places were taken", s, b.machine.taken)
	}
	check(t, plain(2000), b.lines())
}

// TestHeadStartEnds: other workers come when the first one takes its time, or fails.
func TestHeadStartEnds(t *testing.T) {
	t.Parallel()
	slow := newBench(t, plain(100))
	slow.opt.HeadStart = time.Millisecond
	slow.command.Env[0] = envTestWorker + "=unready"
	ctx, cancel := context.WithCancel(t.Context())
	slow.on(EventStarted, 1, cancel)
	if _, err := slow.run(ctx); !errors.Is(err, ErrStopped) {
		t.Errorf("%v\n%s", err, slow.story())
	}
	broken := newBench(t, plain(100))
	broken.opt.HeadStart = time.Hour
	broken.command.Env[0] = envTestWorker + "=early exit"
	if _, err := broken.run(t.Context()); err == nil || !strings.Contains(broken.story(), "on GPU 1") && !strings.Contains(broken.story(), "GPU 1:") {
		t.Errorf("%v\n%s", err, broken.story())
	}
}

func TestNoRecords(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	s := b.mustRun()
	if s.Records != 0 || len(b.lines()) != 0 || b.machine.taken != 0 {
		t.Errorf("%+v, %d places were taken", s, b.machine.taken)
	}
}

// Each fault in the middle of a run costs at most the guilty record.
func TestFaults(t *testing.T) {
	t.Parallel()
	for do := range faults {
		if do == "runner" { // has a test of its own
			continue
		}
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			jobs := with(60, do)
			b := newBench(t, jobs)
			b.opt.AnswerBytes = 64 << 10
			if do == "hang" || do == "stuck" {
				b.opt.Timeout = 2 * time.Second // an innocent record may be late twice
				b.opt.Batch = 4                 // so that few time limits have to pass
			}
			s := b.mustRun()
			check(t, jobs, b.lines())
			want := int64(0)
			if slices.Contains(guilty, do) {
				want = 1
			}
			if s.Records != 60 || s.Failed != want {
				t.Errorf("%+v\n%s", s, b.story())
			}
		})
	}
}

func TestARecordIsTriedOnceIfSo(t *testing.T) {
	t.Parallel()
	jobs := with(30, "poison")
	b := newBench(t, jobs)
	b.opt.Tries, b.opt.Batch = 1, 1
	s := b.mustRun()
	line := b.lines()[15]
	if s.Failed != 1 || !strings.Contains(line, `"_error":"died: signal: killed`) {
		t.Errorf("%+v\n%s\n%s", s, line, b.story())
	}
}

func TestErrorsSayWhatHappened(t *testing.T) {
	t.Parallel()
	jobs := with(30, "poison", "refuse", "bad")
	b := newBench(t, jobs)
	s := b.mustRun()
	lines := b.lines()
	check(t, jobs, lines)
	for i, want := range map[int]string{7: "given up after 3 tries by itself, the last one: died: signal: killed", 15: `"_error":"ValueError: refused"`, 22: `"_error":"a bad record"`} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d: %s does not say %s", i, lines[i], want)
		}
	}
	if s.Failed != 3 || s.Marked != 1 || s.Retries == 0 || s.Restarts == 0 || b.count(EventMarked) != 1 {
		t.Errorf("%+v\n%s", s, b.story())
	}
	if want := "the record of " + b.path("in.jsonl") + " line 8 is marked: "; !strings.Contains(b.story(), want) {
		t.Errorf("it does not say %q:\n%s", want, b.story())
	}
}

// A record that is too large by itself cannot get a smaller batch.
func TestRecordThatIsTooLarge(t *testing.T) {
	t.Parallel()
	jobs := with(1, "giant")
	b := newBench(t, jobs)
	b.mustRun()
	check(t, jobs, b.lines())
	if story := b.story(); !strings.Contains(story, "a single record was too large (out of memory)\n") || strings.Contains(story, "from now on") {
		t.Error(story)
	}
}

// On the only GPU, a batch that does not fit is made smaller at once: each size that is
// too large is tried once, although half of the batch waits as a suspect, and the worker
// does not wait for a GPU that is not there.
func TestBatchesThatAreTooLargeForTheOnlyGPU(t *testing.T) {
	t.Parallel()
	jobs := plain(300)
	for i := range jobs {
		jobs[i].Do = "sixteen"
	}
	b := newBench(t, jobs)
	b.machine = newMachine(1, 1)
	b.opt.Leases = b.machine
	b.opt.Batch, b.opt.MinBatch = 128, 128
	b.mustRun()
	check(t, jobs, b.lines())
	sizes := map[string]int{}
	for _, e := range b.events {
		if e.Code == EventMemory {
			size, _, _ := strings.Cut(strings.TrimPrefix(e.Text, "a batch of "), " ")
			sizes[size]++
		}
	}
	if sizes["128"] != 1 || sizes["64"] != 1 || sizes["32"] != 1 {
		t.Errorf("batches that were too large, by size: %v", sizes)
	}
}

// A worker rests after a single record was too large, which cannot be made smaller, and
// not after a batch.
func TestRestAfterMemoryRanOut(t *testing.T) {
	r := &Run{opt: Options{Backoff: time.Hour}.withDefaults()}
	w := &worker{run: r, card: &card{}}
	lose := func(n int) {
		w.flight = []*group{{records: make([]record.Record, n), probe: true}} // a probe is not given back
		if err := w.outOfMemory("out of memory", time.Now()); err != nil {
			t.Fatal(err)
		}
		w.took = 0
	}
	for n := 128; n > 1; n /= 2 {
		if lose(n); w.rest(1) != 0 {
			t.Fatalf("after a batch of %d records it rests for %s", n, w.rest(1))
		}
	}
	if lose(1); w.rest(1) != time.Hour {
		t.Errorf("after a single record it rests for %s", w.rest(1))
	}
}

// What a worker printed before it hung may say why.
func TestHungWorkerIsQuoted(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain(1))
	b.command.Args = []string{"/bin/sh", "-c", `echo waiting for the licence >&2; echo '{"type":"ready","protocol":1}' >&4; while read line <&3; do :; done`}
	b.opt.Tries, b.opt.Timeout = 1, time.Millisecond
	b.mustRun()
	if lines := b.lines(); !strings.Contains(lines[0], "; it last printed: waiting for the licence") {
		t.Error(lines[0])
	}
}

// The folder beside the output is not found by the pattern of the input: the
// run goes on.
func TestPatternAroundTheOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	for _, name := range []string{"sc", "sc/a", "sc/b"} {
		if err := os.Mkdir(b.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.write("sc/a/1", nil)
	b.write("sc/b/2", nil)
	b.opt.Input.Paths = []string{b.path("sc/*/*")}
	b.opt.Output = b.path("sc/out.jsonl")
	b.opt.Batch, b.opt.Workers = 1, 1
	ctx, cancel := context.WithCancel(context.Background())
	b.on(EventCommitted, 0, cancel)
	// The second record waits until the first one is on disk and the run stops.
	b.command.Args = []string{"/bin/sh", "-c", `
		echo '{"type":"ready","protocol":1}' >&4
		read line <&3; echo '{"type":"result","id":1,"outcomes":[1]}' >&4
		while read line <&3; do case $line in *bye*) exit;; esac; done`}
	b.opt.StopGrace = time.Millisecond
	if _, err := b.run(ctx); !errors.Is(err, ErrStopped) {
		t.Fatalf("%v\n%s", err, b.story())
	}
	b.command.Args = []string{os.Args[0]}
	b.opt.StopGrace = 20 * time.Second
	if s := b.mustRun(); s.Before != 1 || s.Records != 2 {
		t.Errorf("%+v\n%s", s, b.story())
	}
}

func TestBadInputIsMarked(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	text := `{"id":0}` + "\nnot json\n" + `{"id":2}` + "\n\"" + strings.Repeat("x", 200) + "\"\n{\"id\":4}\n"
	if err := os.WriteFile(b.path("in.jsonl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b.opt.Input.MaxBytes = 100
	s := b.mustRun()
	lines := b.lines()
	if len(lines) != 5 || s.Failed != 2 || s.Records != 5 {
		t.Fatalf("%+v\n%s", s, lines)
	}
	for i, want := range map[int]string{1: `{"_input":"not json","_error":"` + b.path("in.jsonl") + ` line 2: not JSON`, 3: `line 4: longer than 100 bytes`} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d: %s", i, lines[i])
		}
	}
}

// The reference worker, in the language most workers are written in.
func TestPythonWorker(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	b := newBench(t, nil)
	var text, want strings.Builder
	for i := range 3000 {
		if i == 1234 {
			fmt.Fprintln(&text, `{"m":"ü"}`)
			fmt.Fprintln(&want, `{"m":"ü","_error":"KeyError: 'n'"}`)
			continue
		}
		fmt.Fprintf(&text, "{\"n\":%d}\n", i)
		fmt.Fprintf(&want, "{\"n\":%d,\"double\":%d}\n", i, 2*i)
	}
	if err := os.WriteFile(b.path("in.jsonl"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	b.command.Log = &log
	b.command.Args = []string{python, "testdata/worker.py"}
	b.opt.Batch = 500
	s := b.mustRun()
	if diff := cmp.Diff(want.String(), strings.Join(b.lines(), "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.Failed != 1 || s.Restarts != 0 {
		t.Errorf("%+v\n%s", s, b.story())
	}
	if !strings.Contains(log.String(), "] this goes to the log, not into the protocol\n") {
		t.Errorf("what a worker prints is not in the log: %q", log.String())
	}
}

func TestWorkersThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ kind, want string }{
		{"unready", "did not say that it is ready within 50ms"},
		{"early exit", "No module named 'model'"},
		{"quiet exit", "exit status 0; a worker calls berth.worker"},
		{"old", "version 99 of the protocol"},
		{"impatient", "began with result instead of ready"},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, plain(10))
			b.command.Env[0] = envTestWorker + "=" + test.kind
			b.opt.ReadyTimeout = 20 * time.Second
			if test.kind == "unready" {
				b.opt.ReadyTimeout = 50 * time.Millisecond
			}
			s, err := b.run(context.Background())
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "no worker can be started") {
				t.Errorf("%v, want something about %q", err, test.want)
			}
			if s.Stage != StageFailed || s.Records != 0 {
				t.Errorf("%+v", s)
			}
			// With a worker that works, the same run goes on.
			b.command.Env[0] = envTestWorker + "=1"
			b.opt.ReadyTimeout = time.Minute
			b.mustRun()
			check(t, plain(10), b.lines())
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain(3))
	for _, test := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"no output", func(o *Options) { o.Output = "" }, "no output"},
		{"no input", func(o *Options) { o.Input = record.Spec{} }, "no input"},
		{"numbers below zero", func(o *Options) { o.Batch, o.Workers, o.Tries, o.Timeout = -1, -1, -1, -1 }, "batch: -1"},
		{"all of them", func(o *Options) { o.Batch, o.Workers, o.Tries, o.Timeout = -1, -1, -1, -1 }, "timeout: -1ns"},
		{"its own input", func(o *Options) { o.Output, o.Force = o.Input.Paths[0], true }, "among the inputs"},
		{"one of its inputs the next time", func(o *Options) { o.Input.Paths = []string{b.path("*.jsonl")} }, "among the inputs"},
		{"a minimum above the maximum", func(o *Options) { o.MinBatch = 99 }, "min batch: 99"},
	} {
		o := b.opt
		test.change(&o)
		if _, err := Open(context.Background(), o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want something about %q", test.name, err, test.want)
		}
	}
	if entries, _ := os.ReadDir(b.dir); len(entries) != 2 {
		t.Errorf("refused runs left something behind: %v", entries)
	}
}

func TestOutputThatExists(t *testing.T) {
	t.Parallel()
	jobs := plain(5)
	b := newBench(t, jobs)
	if err := os.WriteFile(b.opt.Output, []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.run(context.Background()); !errors.Is(err, outcome.ErrExists) {
		t.Fatalf("%v, want %v", err, outcome.ErrExists)
	}
	b.opt.Force = true
	b.mustRun()
	check(t, jobs, b.lines())
}
