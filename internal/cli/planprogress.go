package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/crew"
	"github.com/berth-gpu/berth/internal/term"
	"github.com/berth-gpu/berth/internal/view"
	"github.com/berth-gpu/berth/internal/words"
)

// progress shows how the runs of a plan go: what they write, which one begins
// and which one ends and, on a terminal, a line below that counts.
type progress struct {
	*app
	plan  api.Plan
	gpus  view.GPUs
	total int

	mu      sync.Mutex // guards what follows, and everything that is written
	live    *term.Live
	begun   time.Time
	running int
	done    int // and ended well
	failed  int
	stopped int // before the end, or before the beginning
}

func newProgress(a *app, plan api.Plan, gpus view.GPUs) *progress {
	p := &progress{app: a, plan: plan, gpus: gpus, live: term.NewLive(a.Err)}
	for i := range plan.Pipelines {
		p.total += len(plan.Pipelines[i].Runs)
	}
	return p
}

func (p *progress) begin() {
	p.begun = p.Now()
	text := words.Count(p.total, "run")
	if p.plan.SideBySide > 0 {
		text += fmt.Sprintf(", %d side by side on GPUs, %s", p.plan.SideBySide, words.Count(p.plan.Waves, "wave"))
	}
	p.say("%s: %s", term.Clean(p.plan.File), text)
}

func (p *progress) started(r crew.Result) {
	p.count(func() { p.running++ })
	switch r.Placement {
	case api.PlacedAsPlanned:
		p.say("%s starts on %s", term.Clean(r.Name), p.where(r))
	case api.PlacedElsewhere:
		p.say("%s starts on %s, and not as planned: %s", term.Clean(r.Name), p.where(r), term.Clean(r.Reason))
	default:
		p.say("%s starts, without a GPU", term.Clean(r.Name))
	}
}

func (p *progress) where(r crew.Result) string { return p.gpus.Name(r.Lease.Parts[0].GPU) }

func (p *progress) ended(r crew.Result) {
	p.count(func() {
		if !r.Begun.IsZero() {
			p.running--
		}
		switch {
		case r.Err == nil:
			p.done++
		case errors.Is(r.Err, crew.ErrStopped):
			p.stopped++
		default:
			p.failed++
		}
	})
	switch {
	case errors.Is(r.Err, crew.ErrStopped): // all are, and that is said once
	case r.Err == nil:
		p.say("%s is done after %s", term.Clean(r.Name), view.Took(r.Took))
	case r.Begun.IsZero():
		p.say("%s did not start: %s", term.Clean(r.Name), term.CleanLines(r.Err.Error()))
	default:
		p.say("%s failed after %s: %s", term.Clean(r.Name), view.Took(r.Took), term.Clean(r.Err.Error()))
	}
}

// end sums up.
func (p *progress) end(results []crew.Result) {
	planned, elsewhere := 0, 0
	for _, r := range results {
		switch r.Placement {
		case api.PlacedAsPlanned:
			planned++
		case api.PlacedElsewhere:
			elsewhere++
		}
	}
	text := fmt.Sprintf("%s in %s: %d done, %d failed", words.Count(p.total, "run"), view.Took(p.Now().Sub(p.begun)), p.done, p.failed)
	if planned+elsewhere > 0 {
		text += fmt.Sprintf("; %d on the GPU of the plan, %d on another", planned, elsewhere)
	}
	if p.stopped > 0 {
		text += fmt.Sprintf("; %d stopped, or not started", p.stopped)
	}
	p.say("%s", text)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live.Draw()
	p.total = 0 // nothing more is counted
}

// waits says what a run waits for, if that takes more than a moment and none of
// ours is in its way. The function that it returns ends it.
func (p *progress) waits(ctx context.Context, c *client.Client, run, id string) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if p.idle() {
			if e, err := c.ExplainWaiting(ctx, id); err == nil && e.Position > 0 {
				p.say("%s waits: %s", term.Clean(run), p.gpus.Why(e))
			}
		}
	})
	return func() { cancel(); telling.Wait() }
}

func (p *progress) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running == 0
}

func (p *progress) count(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// say writes a line for people.
func (p *progress) say(format string, args ...any) {
	p.line(p.Err, []byte("berth: "+fmt.Sprintf(format, args...)+"\n"))
}

// line writes whole lines above the one that counts.
func (p *progress) line(to io.Writer, text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.live.Above(to, text, p.counting()...) // whoever reads may be gone; the runs go on
}

// counting returns the line that counts. There is none for a run by itself, which
// has the terminal.
func (p *progress) counting() []string {
	width, ok := p.errTerminal()
	if !ok || p.total <= 1 {
		return nil
	}
	ended := p.done + p.failed + p.stopped
	text := fmt.Sprintf("%s %d of %d done, %d running, %s", term.Bar(100*float64(ended)/float64(p.total), 20),
		p.done, p.total, p.running, words.Age(p.Now().Sub(p.begun)))
	if p.failed > 0 {
		text += fmt.Sprintf(", %d failed", p.failed)
	}
	return []string{term.Cut(text, width-1)}
}

// output returns where a run writes to. A run by itself has the terminal as it
// is; of several, every line says whose it is. With --json standard output is
// for the answer.
func (p *progress) output(run string) (stdout, stderr io.Writer, done func()) {
	out := p.Out
	if p.json {
		out = p.Err
	}
	if p.total == 1 {
		return out, p.Err, func() {}
	}
	lead := term.Clean(run) + ": "
	lines := func(to io.Writer) *term.LineWriter {
		return term.NewLineWriter(func(line []byte) { p.line(to, fmt.Appendf(nil, "%s%s\n", lead, line)) })
	}
	first, second := lines(out), lines(p.Err)
	return first, second, func() { first.Flush(); second.Flush() }
}
