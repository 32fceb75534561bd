package leasing

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

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
	after, err := byName(c, name, func(c *client.Client, id string) (api.Lease, error) {
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
	type outcome struct {
		lease api.Lease
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		changed, err := ask(ctx)
		done <- outcome{changed, err}
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case o := <-done:
			p.live.Draw()
			return o.lease, o.err
		case <-tick.C:
			p.look(ctx)
		}
	}
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
	if width, ok := p.LiveWidth(); ok {
		const interrupt = 3 // the terminal writes ^C after it
		p.live.Draw(term.Cut(text, width-interrupt))
	} else if l.State != p.state {
		fmt.Fprintln(p.Err, "berth: "+text)
	}
	p.state = l.State
}
