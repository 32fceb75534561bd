package batch

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
)

// piped makes the bench write to a pipe.
func (b *bench) piped(to io.Writer) {
	b.opt.Pipe, b.opt.Output, b.opt.Shape = to, "embed", outcome.Shape{}
}

// A run that writes to a pipe has every outcome once, whatever dies, and leaves
// nothing behind.
func TestPipe(t *testing.T) {
	jobs := plain(200)
	jobs[7].Do, jobs[70].Do = "exit", "bad"
	b := newBench(t, jobs)
	var out strings.Builder
	b.piped(&out)
	s := b.mustRun()
	if s.Records != 200 || s.Failed != 1 {
		t.Errorf("%d records, %d failed\n%s", s.Records, s.Failed, b.story())
	}
	var ids []int
	for line := range strings.Lines(out.String()) {
		var o struct{ ID int }
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		ids = append(ids, o.ID)
	}
	slices.Sort(ids)
	if len(ids) != 200 || len(slices.Compact(ids)) != 200 {
		t.Errorf("%d outcomes, %d different ones", len(ids), len(slices.Compact(ids)))
	}
	files, err := os.ReadDir(b.dir)
	if err != nil || len(files) != 2 { // the input and the marks
		t.Errorf("%v, %v", files, err)
	}
}

// An outcome is written while the input goes on: a pipe can be one end of a
// conversation.
func TestPipeHandsOutcomesOnAtOnce(t *testing.T) {
	b := newBench(t, nil)
	in, records := io.Pipe()
	outcomes, out := io.Pipe()
	b.piped(out)
	b.opt.Input = record.Spec{Stream: in, Format: record.JSONL}
	b.opt.Expect = 2
	r, err := b.open()
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Progress(); p.Output != "embed" || p.Total != gpu.Some(int64(2)) || p.Exact {
		t.Errorf("%+v", p)
	}
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(context.Background())
		done <- errors.Join(err, out.Close())
	}()
	answers := json.NewDecoder(outcomes)
	for id := range 3 {
		line, _ := json.Marshal(job{ID: id})
		if _, err := records.Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
		var o struct{ ID int }
		if err := answers.Decode(&o); err != nil || o.ID != id {
			t.Fatalf("%v: %+v, want %d", err, o, id)
		}
	}
	if p := r.Progress(); p.Total != gpu.Some(int64(3)) {
		t.Errorf("%v records are expected, and there are more already", p.Total)
	}
	_ = records.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A program that numbers outcomes gets them for the records that it has written,
// the field _error included.
func TestPipeWithNumbers(t *testing.T) {
	b := newBench(t, nil)
	var out strings.Builder
	b.piped(&out)
	b.opt.Shape.Format = outcome.Numbered
	b.opt.Input = record.Spec{Stream: strings.NewReader(`{"ID":5,"_error":"old"}` + "\n" + `{"ID":6,"Do":"bad"}` + "\n"), Format: record.JSONL}
	b.mustRun()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines)
	if len(lines) != 2 || !strings.HasPrefix(lines[0], `[0,{`) || !strings.HasPrefix(lines[1], `[1,{"ID":6,"Do":"bad","_error":`) {
		t.Errorf("%q", lines)
	}
}

// A run whose reader leaves ends.
func TestPipeThatNobodyReads(t *testing.T) {
	b := newBench(t, plain(50))
	outcomes, out := io.Pipe()
	_ = outcomes.Close()
	b.piped(out)
	if _, err := b.run(context.Background()); !errors.Is(err, io.ErrClosedPipe) || strings.Contains(err.Error(), "again") {
		t.Errorf("%v", err)
	}
}

// stuck is a writer that nobody reads, until it is closed.
type stuck struct {
	begun  func()
	closed chan struct{}
}

func (s stuck) Write([]byte) (int, error) {
	s.begun()
	<-s.closed
	return 0, io.ErrClosedPipe
}

// A run can be stopped, and a run that fails ends, though nobody reads its outcomes: no
// worker keeps its place for a reader.
func TestPipeThatNobodyReadsEnds(t *testing.T) {
	for name, end := range map[string]func(r *Run, cancel func()){
		"stopped": func(_ *Run, cancel func()) { cancel() },
		"failed":  func(r *Run, _ func()) { r.fail(io.ErrNoProgress) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, plain(400))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			begun := make(chan struct{})
			out := stuck{begun: sync.OnceFunc(func() { close(begun) }), closed: make(chan struct{})}
			defer close(out.closed)
			b.piped(out)
			b.opt.CommitBytes, b.opt.StopGrace = 1, 100*time.Millisecond // workers wait for the reader, too
			r, err := b.open()
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				<-begun
				end(r, cancel)
			}()
			if _, err := r.Run(ctx); !errors.Is(err, ErrStopped) && !errors.Is(err, io.ErrNoProgress) {
				t.Errorf("%v", err)
			}
			if held := b.machine.held(); held != 0 {
				t.Errorf("%d places were not given back", held)
			}
		})
	}
}

func TestPipeThatIsStoppedCannotBeResumed(t *testing.T) {
	b := newBench(t, plain(50))
	b.piped(io.Discard)
	ctx, cancel := context.WithCancel(context.Background())
	b.on(EventReady, 0, cancel)
	if _, err := b.run(ctx); !errors.Is(err, ErrStopped) || !strings.Contains(err.Error(), "cannot be resumed") {
		t.Errorf("%v", err)
	}
}

func TestPipeOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"cannot be resumed":         func(o *Options) { o.Spool = true },
		"in the order of the input": func(o *Options) { o.Shape.Ordered = true },
		"must be 0 or more":         func(o *Options) { o.Expect = -1 },
	} {
		b := newBench(t, plain(1))
		b.piped(io.Discard)
		change(&b.opt)
		if _, err := b.open(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
