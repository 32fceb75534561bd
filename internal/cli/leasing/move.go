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

// move asks the daemon to change a lease in a way that takes a while, and prints
// what say makes of the lease before and after. If it takes longer than a second,
// move says on Err how far it is. Interrupted says what an interrupt means.
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
		before, _ = c.Lease(ctx, id) // if there is none, the daemon refuses what is asked, and says what that was
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

// progress says how far the daemon is with a lease that it moves.
type progress struct {
	notice
	client *client.Client
	state  string // that was said last
}

// follow calls ask, and says every second until it returns what happens to the
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

// look says where the memory of the lease is, or what it waits for.
func (p *progress) look(ctx context.Context) {
	l, err := p.client.Lease(ctx, p.id)
	if err != nil {
		return // the answer to the request comes all the same
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
