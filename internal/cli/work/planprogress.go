package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/programs"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

// progress shows the runs of a plan: their output, their beginnings and ends and, on a
// terminal, a line below that counts them.
type progress struct {
	*console.Console
	client *client.Client
	plan   api.Plan
	gpus   view.GPUs
	folder *runFolder  // nil if nothing is kept
	files  console.Env // with Out and Err themselves, for a single run

	mu    sync.Mutex // guards what follows, and all output
	live  *term.Live
	begun time.Time
	runs  view.Runs
}

func newProgress(ctx context.Context, con *console.Console, c *client.Client, plan api.Plan, gpus view.GPUs) *progress {
	p := &progress{Console: con, client: c, plan: plan, gpus: gpus, files: con.Env}
	for i := range plan.Pipelines {
		p.runs.Total += len(plan.Pipelines[i].Runs)
	}
	con.Out, con.Err = hurried(ctx, con.Out), hurried(ctx, con.Err)
	p.live = term.NewLive(con.Err)
	return p
}

func (p *progress) begin() {
	p.begun = p.Now()
	p.Say("%s", p.runs.Begin(p.plan))
}

// Started says where a run starts.
func (p *progress) Started(r programs.Result) {
	p.count(func(n *view.Runs) { n.Running++ })
	p.Say("%s", p.gpus.RunStarts(r.RunningRun))
}

// Ended says how a run ended, and nothing of one that was stopped: all are stopped, and
// end says so once.
func (p *progress) Ended(r programs.Result) {
	started, stopped := !r.Begun.IsZero(), errors.Is(r.Err, programs.ErrStopped)
	p.count(func(n *view.Runs) {
		if started {
			n.Running--
		}
		switch {
		case r.Err == nil:
			n.Done++
		case stopped:
			n.Stopped++
		default:
			n.Failed++
		}
	})
	if !stopped {
		p.Say("%s", view.RunEnds(r.Name, started, r.Took, r.Err))
	}
	if err := p.folder.ended(r.Name, r.Err == nil); err != nil {
		p.Say("how %s ended could not be kept, so --failed runs it again: %v", term.Clean(r.Name), err)
	}
}

// end sums up the runs.
func (p *progress) end(results []programs.Result) {
	runs := make([]api.RunningRun, len(results))
	for i, r := range results {
		runs[i] = r.RunningRun
	}
	p.Say("%s", p.runs.End(p.Now().Sub(p.begun), runs))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live.Draw()
	p.runs.Total = 0 // nothing more is counted
}

// Waits says what a run waits for, if that takes more than a moment and none of this
// plan's runs is in its way. Call done to end it.
func (p *progress) Waits(ctx context.Context, run, id string) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if p.idle() {
			if e, err := p.client.ExplainWaiting(ctx, id); err == nil && e.Position > 0 {
				p.Say("%s waits: %s", term.Clean(run), p.gpus.Why(e))
			}
		}
	})
	return func() { cancel(); telling.Wait() }
}

func (p *progress) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs.Running == 0
}

func (p *progress) count(change func(*view.Runs)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.runs)
}

// Say writes a line for people.
func (p *progress) Say(format string, args ...any) {
	p.line(p.Err, []byte("berth: "+fmt.Sprintf(format, args...)+"\n"))
}

// line writes whole lines above the line that counts.
func (p *progress) line(to io.Writer, text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.live.Above(to, text, p.counting()...) // the reader may be gone; the runs go on
}

// counting returns the line that counts. A single run has no such line, because it has
// the terminal.
func (p *progress) counting() []string {
	width, ok := p.LiveWidth()
	if !ok || p.runs.Total <= 1 {
		return nil
	}
	return []string{term.Cut(p.runs.Line(p.Now().Sub(p.begun)), width-1)}
}

// Output returns the writers for the output of a run. A single run has the terminal as
// it is; of several, every line names its run. With --json, standard output is for the
// answer.
func (p *progress) Output(run string) (stdout, stderr io.Writer, done func()) {
	to := p.Env
	if p.runs.Total == 1 {
		to = p.files
	}
	if p.JSON {
		to.Out = to.Err
	}
	if p.runs.Total == 1 {
		return to.Out, to.Err, func() {}
	}
	lead := term.Clean(run) + ": "
	lines := func(to io.Writer) *term.LineWriter {
		return term.NewLineWriter(func(line []byte) { p.line(to, fmt.Appendf(nil, "%s%s\n", lead, line)) })
	}
	first, second := lines(to.Out), lines(to.Err)
	flush := func() { first.Flush(); second.Flush() }
	if p.folder == nil {
		return first, second, flush
	}
	log, err := p.folder.openLog(run)
	if err != nil {
		p.Say("no log of %s is kept: %v", term.Clean(run), err)
		return first, second, flush
	}
	kept := &logged{to: log}
	return io.MultiWriter(first, kept), io.MultiWriter(second, kept), func() { flush(); _ = log.Close() }
}

// logged writes to a log, from several goroutines. A disk that is full ends the log and
// not the run.
type logged struct {
	mu sync.Mutex // guards to
	to io.Writer
}

func (l *logged) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.to.Write(text)
	return len(text), nil
}
