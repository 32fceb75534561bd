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
	type outcome struct {
		lease api.Lease
		err   error
	}
	done := make(chan outcome, 1)
	asking, leave := context.WithCancel(ctx)
	defer leave()
	go func() {
		granted, err := ask(asking)
		done <- outcome{granted, err}
	}()
	note := notice{Console: con, live: term.NewLive(con.Err), id: id, gpus: gpus, since: con.Now()}
	answered := gpus != nil
	unanswered := 0 // questions in a row
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case o := <-done:
			note.live.Draw()
			if console.IsInterrupted(ctx, o.err) {
				return api.Lease{}, fmt.Errorf("the request for %s was withdrawn: %w", id, context.Cause(ctx))
			}
			return o.lease, o.err
		case <-tick.C:
			e, err := c.ExplainWaiting(ctx, id)
			switch {
			case !console.IsUnanswered(err):
				unanswered, answered = 0, true
			case !answered, unanswered == manyUnanswered-1: // the daemon will not answer the request either
				return api.Lease{}, err
			default:
				if unanswered++; unanswered == 1 {
					note.unanswered()
				}
			}
			if err == nil && e.Position > 0 {
				if note.gpus == nil {
					note.gpus, _ = con.Indexes(ctx, c) // if they are missing, devices are named by their UUIDs
				}
				note.say(e)
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
	if width, ok := n.LiveWidth(); ok {
		const interrupt = 3 // the terminal writes ^C after the line, which must not begin a new line
		line := fmt.Sprintf("%s waits %s, %s", term.Clean(n.id), words.Age(n.Now().Sub(n.since)), place)
		n.live.Draw(term.Cut(line, width-interrupt))
	} else if e.Position != n.position {
		fmt.Fprintf(n.Err, "berth: %s waits, %s\n", term.Clean(n.id), place)
	}
	n.position = e.Position
}

// unanswered says that the daemon does not answer.
func (n *notice) unanswered() {
	n.live.Draw()
	fmt.Fprintf(n.Err, "berth: the daemon does not answer; %s keeps its place and waits on\n", term.Clean(n.id))
}
