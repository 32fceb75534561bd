package leasing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// manyUnanswered is how many questions in a row the daemon may leave unanswered before
// await gives up the request and its place in the queue.
const manyUnanswered = 3

// await asks for a lease. After a second, it says on Err what the request waits for. An
// interrupt withdraws the request. A caller that has asked the daemon for the indexes
// passes them as gpus; nil means that the daemon has not answered yet, and await does
// not wait for one that never does.
func await(ctx context.Context, con *console.Console, c *client.Client, id string, gpus view.GPUs,
	ask func(context.Context) (api.Lease, error)) (api.Lease, error) {
	asking, leave := context.WithCancel(ctx)
	defer leave()
	looking, answer := context.WithCancel(ctx) // until the request has its answer: a look must not hold that up
	note := notice{Console: con, live: term.NewLive(con.Err), id: id, gpus: gpus, since: con.Now()}
	answered := gpus != nil
	unanswered := 0 // questions in a row
	granted, err := eachSecond(func() (api.Lease, error) {
		defer answer()
		return ask(asking)
	}, func() error {
		e, err := c.ExplainWaiting(looking, id)
		switch {
		case !console.IsUnanswered(err):
			unanswered, answered = 0, true
		case !answered, unanswered == manyUnanswered-1: // the daemon will not answer the request either
			return err
		default:
			if unanswered++; unanswered == 1 {
				note.unanswered()
			}
		}
		if err != nil {
			if missing := (*client.NoDaemonError)(nil); errors.As(err, &missing) {
				note.position = 0 // say the place again when the daemon is back
			}
			return nil
		}
		con.Back()
		if e.Position > 0 {
			if note.gpus == nil {
				note.gpus, _ = con.Indexes(looking, c) // if they are missing, devices are named by their UUIDs
			}
			note.say(e)
		}
		return nil
	})
	note.live.Draw()
	if console.IsInterrupted(ctx, err) {
		return api.Lease{}, fmt.Errorf("the request for %s was withdrawn: %w", id, context.Cause(ctx))
	}
	return granted, err
}

// eachSecond returns what ask returns. Until then it calls look every second, whose
// error it returns at once.
func eachSecond(ask func() (api.Lease, error), look func() error) (api.Lease, error) {
	type outcome struct {
		lease api.Lease
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		answer, err := ask()
		done <- outcome{answer, err}
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case o := <-done:
			return o.lease, o.err
		case <-tick.C:
			if err := look(); err != nil {
				return api.Lease{}, err
			}
		}
	}
}

// notice says that a request waits: on a terminal in one line that changes,
// elsewhere in a new line whenever the place in the queue changes.
type notice struct {
	*console.Console
	live     *term.Live
	id       string
	gpus     view.GPUs
	since    time.Time
	position int // the last one reported; 0 if none was yet
}

func (n *notice) say(e api.Explanation) {
	place := fmt.Sprintf("number %d in the queue: %s", e.Position, n.gpus.Why(e))
	n.show(fmt.Sprintf("%s waits %s, %s", term.Clean(n.id), words.Age(n.Now().Sub(n.since)), place),
		fmt.Sprintf("%s waits, %s", term.Clean(n.id), place), e.Position != n.position)
	n.position = e.Position
}

// show draws a line on a terminal, and elsewhere writes another one if it says something new.
func (n *notice) show(line, elsewhere string, new bool) {
	if width, ok := n.LiveWidth(); ok {
		const interrupt = 3 // the terminal writes ^C after the line, which must not begin a new line
		n.live.Draw(term.Cut(line, width-interrupt))
	} else if new {
		fmt.Fprintln(n.Err, "berth: "+elsewhere)
	}
}

// unanswered says that the daemon does not answer.
func (n *notice) unanswered() {
	n.live.Draw()
	fmt.Fprintf(n.Err, "berth: the daemon does not answer; %s keeps its place and waits on\n", term.Clean(n.id))
}

// move asks the daemon to change a lease in a way that takes a while, and prints the
// lines that say makes of the lease before and after. After a second, move reports the
// progress on Err. The text interrupted says what an interrupt means.
func move(ctx context.Context, con *console.Console, name, interrupted string,
	ask func(ctx context.Context, c *client.Client, id string) (api.Lease, error), say func(view.GPUs, view.Moved, term.Screen) []string) error {
	c, err := con.Daemon(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	gpus, err := con.Indexes(ctx, c)
	if err != nil {
		return err
	}
	var before api.Lease
	after, err := byName(ctx, c, name, func(c *client.Client, id string) (api.Lease, error) {
		before, _ = c.Lease(ctx, id) // if there is none, the daemon refuses the request and names it
		p := progress{notice: notice{Console: con, live: term.NewLive(con.Err), id: id, gpus: gpus, since: con.Now()}, client: c, state: before.State}
		return p.follow(ctx, func(ctx context.Context) (api.Lease, error) { return ask(ctx, c, id) })
	})
	switch {
	case console.IsInterrupted(ctx, err):
		return fmt.Errorf("%s: %w", interrupted, context.Cause(ctx))
	case err != nil:
		return err
	}
	return con.Answer(after, say(gpus, view.Moved{Before: before, After: after}, con.Screen())...)
}

// progress reports how far the daemon is with a lease that it moves.
type progress struct {
	notice
	client *client.Client
	state  string // the last one reported
}

// follow calls ask, and until it returns reports every second what happens to the
// lease.
func (p *progress) follow(ctx context.Context, ask func(context.Context) (api.Lease, error)) (api.Lease, error) {
	defer p.live.Draw()
	return eachSecond(func() (api.Lease, error) { return ask(ctx) }, func() error {
		p.look(ctx)
		return nil
	})
}

// look reports where the memory of the lease is, or what the lease waits for.
func (p *progress) look(ctx context.Context) {
	l, err := p.client.Lease(ctx, p.id)
	if err != nil {
		return // the answer to the request comes anyway
	}
	text := p.gpus.Moving(l, p.Now())
	if text == "" {
		if e, err := p.client.ExplainWaiting(ctx, p.id); err == nil && e.Position > 0 {
			p.say(e)
		}
		return
	}
	p.show(text, text, l.State != p.state)
	p.state = l.State
}
