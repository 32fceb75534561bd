package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/crew"
)

// progress shows how the runs of a plan go: what they write, who begins and who
// ends and, on a terminal, a line below that counts.
type progress struct {
	*app
	plan  api.Plan
	gpus  indexes
	total int

	mu      sync.Mutex // guards what follows, and everything that is written
	begun   time.Time
	running int
	done    int // and ended well
	failed  int
	stopped int // before the end, or before the beginning
}

func newProgress(a *app, plan api.Plan, gpus indexes) *progress {
	p := &progress{app: a, plan: plan, gpus: gpus}
	for i := range plan.Pipelines {
		p.total += len(plan.Pipelines[i].Runs)
	}
	return p
}

func (p *progress) begin() {
	p.begun = p.Now()
	text := plural(p.total, "run")
	if p.plan.SideBySide > 0 {
		text += fmt.Sprintf(", %d side by side on GPUs, %s", p.plan.SideBySide, plural(p.plan.Waves, "wave"))
	}
	p.say("%s: %s", clean(p.plan.File), text)
}

func (p *progress) started(r crew.Result) {
	p.count(func() { p.running++ })
	switch r.Placement {
	case api.PlacedAsPlanned:
		p.say("%s starts on %s", clean(r.Name), p.where(r))
	case api.PlacedElsewhere:
		p.say("%s starts on %s, and not as planned: %s", clean(r.Name), p.where(r), clean(r.Reason))
	default:
		p.say("%s starts, without a GPU", clean(r.Name))
	}
}

func (p *progress) where(r crew.Result) string { return p.gpus.of(r.Lease.Parts[0].GPU) }

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
		p.say("%s is done after %s", clean(r.Name), length(r.Took))
	case r.Begun.IsZero():
		p.say("%s did not start: %s", clean(r.Name), cleanLines(r.Err.Error()))
	default:
		p.say("%s failed after %s: %s", clean(r.Name), length(r.Took), clean(r.Err.Error()))
	}
}

// length says how long a run took.
func length(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return span(d)
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
	text := fmt.Sprintf("%s in %s: %d done, %d failed", plural(p.total, "run"), length(p.Now().Sub(p.begun)), p.done, p.failed)
	if planned+elsewhere > 0 {
		text += fmt.Sprintf("; %d on the GPU of the plan, %d on another", planned, elsewhere)
	}
	if p.stopped > 0 {
		text += fmt.Sprintf("; %d stopped, or not started", p.stopped)
	}
	p.say("%s", text)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe(p.total > 1)
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
				p.say("%s waits: %s", clean(run), p.gpus.why(e))
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

// line writes whole lines above the one that counts. There is none for a run by
// itself, which has the terminal.
func (p *progress) line(to io.Writer, text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe(p.total > 1)
	_, _ = to.Write(text) // whoever reads may be gone; the runs go on
	width, ok := p.errTerminal()
	if !ok || p.total <= 1 {
		return
	}
	ended := p.done + p.failed + p.stopped
	share := gpu.Some(gpu.Percent(100 * float64(ended) / float64(p.total)))
	counted := fmt.Sprintf("%s %d of %d done, %d running, %s", bar(share, 20), p.done, p.total, p.running, span(p.Now().Sub(p.begun)))
	if p.failed > 0 {
		counted += fmt.Sprintf(", %d failed", p.failed)
	}
	_, _ = io.WriteString(p.Err, cut(counted, width-1))
}

// output is where a run writes to. A run by itself has the terminal as it is;
// of several, every line says whose it is. With --json standard output is for
// the answer.
func (p *progress) output(run string) (stdout, stderr io.Writer, done func()) {
	out := p.Out
	if p.json {
		out = p.Err
	}
	if p.total == 1 {
		return out, p.Err, func() {}
	}
	first, second := &lines{p: p, to: out, name: run}, &lines{p: p, to: p.Err, name: run}
	return first, second, func() { first.flush(); second.flush() }
}

// lines gathers what a run writes until there is a line to pass on.
type lines struct {
	p    *progress
	to   io.Writer
	name string
	rest []byte // of a line that is not complete
}

// longestLine is passed on even if it is not complete.
const longestLine = 64 << 10

func (l *lines) Write(text []byte) (int, error) {
	l.rest = append(l.rest, text...)
	for {
		end := bytes.IndexByte(l.rest, '\n') + 1
		if end == 0 && len(l.rest) < longestLine {
			return len(text), nil
		}
		if end == 0 {
			end = len(l.rest)
		}
		l.pass(l.rest[:end])
		l.rest = l.rest[end:]
	}
}

func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.pass(l.rest)
		l.rest = nil
	}
}

func (l *lines) pass(line []byte) {
	text := append([]byte(clean(l.name)+": "), bytes.TrimRight(line, "\r\n")...)
	l.p.line(l.to, append(text, '\n'))
}
