package console

import (
	"fmt"
	"sync"
	"time"

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
		next := time.NewTimer(time.Second)
		defer next.Stop()
		for said := false; ; said = true {
			select {
			case <-finished:
				live.Draw()
				return
			case <-next.C:
			}
			if width, ok := c.LiveWidth(); ok {
				live.Draw(term.Cut(fmt.Sprintf("%s, %s …", doing(), words.Age(time.Since(begun))), width-1))
				next.Reset(time.Second)
				continue
			}
			if said {
				fmt.Fprintf(c.Err, "berth: still %s (%s)\n", doing(), words.Age(time.Since(begun)))
			} else {
				fmt.Fprintf(c.Err, "berth: %s\n", doing())
			}
			next.Reset(10 * time.Second)
		}
	})
	return func() { close(finished); telling.Wait() }
}
