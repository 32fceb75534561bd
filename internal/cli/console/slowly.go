package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Slowly says on Err what the command is doing, after a second and then every ten
// seconds. Call done to end it.
func (c *Console) Slowly(what string) (done func()) {
	return c.SlowlyDoing(func() string { return what })
}

// SlowlyDoing does the same as Slowly for work whose description changes.
func (c *Console) SlowlyDoing(doing func() string) (done func()) {
	finished := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		begun, live := time.Now(), term.NewLive(c.Err)
		next := time.Second
		for said := false; ; said = true {
			select {
			case <-finished:
				live.Draw()
				return
			case <-time.After(next):
			}
			if width, ok := c.LiveWidth(); ok {
				live.Draw(term.Cut(fmt.Sprintf("%s, %s …", doing(), words.Age(time.Since(begun))), width-1))
				next = time.Second
				continue
			}
			if said {
				fmt.Fprintf(c.Err, "berth: still %s (%s)\n", doing(), words.Age(time.Since(begun)))
			} else {
				fmt.Fprintf(c.Err, "berth: %s\n", doing())
			}
			next = 10 * time.Second
		}
	})
	return func() { close(finished); telling.Wait() }
}

// FollowEvents shows the events that match a filter while the daemon works: on a
// terminal, in one line that changes. Elsewhere, the answer has the steps. Call done to
// end it.
func (c *Console) FollowEvents(ctx context.Context, daemon *client.Client, filter gpu.EventFilter) (done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		live, begun := term.NewLive(c.Err), c.Now()
		defer live.Draw()
		for e, err := range daemon.EventsWhere(ctx, client.EventQuery{Follow: true, Filter: filter}) {
			if err != nil {
				return // the answer comes anyway
			}
			if width, ok := c.LiveWidth(); ok && !e.Time.Before(begun) {
				live.Draw(term.Cut(term.Clean(e.Text), width-1))
			}
		}
	})
	return func() { cancel(); following.Wait() }
}
