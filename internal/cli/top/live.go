package top

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/tui"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

// The messages to the program beside keys.
type (
	factsCame  struct{ facts tui.Facts }
	eventsCame struct{ list []gpu.Event }
	daemonLost struct{ err error }
	actDone    struct {
		act tui.Act
		did string
		err error
	}
	ticked struct{} // the clock goes on while the daemon does not answer
)

// program is the screen in the form that the terminal library takes.
type program struct {
	screen *tui.State
	now    func() time.Time
	act    func(tui.Act)
	hurry  func() // asks the daemon at once
	share  func([]tui.Request)
}

// Init does nothing: the feed runs beside the program.
func (p *program) Init() tea.Cmd { return nil }

// Update handles a message.
func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	p.screen.Tick(p.now())
	want := hand(p.screen, msg)
	if want.Act != nil {
		p.act(*want.Act)
	}
	switch m := msg.(type) {
	case factsCame:
		p.screen.Take(m.facts)
		p.share(p.screen.Explained())
	case eventsCame:
		p.screen.TakeEvents(m.list...)
	case daemonLost:
		p.screen.Lose(m.err.Error(), p.now())
	case actDone:
		p.screen.Done(m.act, m.did, m.err)
		p.hurry()
	}
	return p, leave(want)
}

// View draws the screen.
func (p *program) View() tea.View { return written(p.screen) }

// live runs the screen until the user quits or ctx ends.
func (o *options) live(ctx context.Context, f *feed, screen *tui.State) error {
	first, err := f.ask(ctx, nil) // an error is reported before the screen changes
	if err != nil {
		return err
	}
	screen.Tick(o.Now())
	screen.Take(first)
	r := &runner{options: o, feed: f, hurried: make(chan struct{}, 1), stirred: make(chan struct{}, 1), wanted: make(chan []tui.Request, 1)}
	p := &program{screen: screen, now: o.Now, hurry: r.hurry, share: r.share}
	return o.show(ctx, p, func(ctx context.Context, send func(tea.Msg), running *sync.WaitGroup) {
		r.send = send
		p.act = func(a tui.Act) { running.Go(func() { r.do(ctx, a) }) }
		running.Go(func() { r.poll(ctx) })
		running.Go(func() { r.follow(ctx) })
		running.Go(func() { r.tick(ctx) })
	})
}

// runner asks and acts while the program runs.
type runner struct {
	*options
	feed    *feed
	send    func(tea.Msg)
	hurried chan struct{}      // has room for one; signals to ask at once
	stirred chan struct{}      // has room for one; signals that leases may have changed
	wanted  chan []tui.Request // has room for one; requests whose reasons the screen shows
}

func (r *runner) hurry() { signal(r.hurried) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// share passes the newest list of requests to the feed.
func (r *runner) share(list []tui.Request) {
	select {
	case <-r.wanted:
	default:
	}
	select {
	case r.wanted <- list:
	default:
	}
}

// tick advances the clock.
func (r *runner) tick(ctx context.Context) {
	for each := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			each.Stop()
			return
		case <-each.C:
			r.send(ticked{})
		}
	}
}

// poll asks the daemon repeatedly.
func (r *runner) poll(ctx context.Context) {
	next := time.NewTimer(r.interval)
	defer next.Stop()
	for {
		stirred := false
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		case <-r.hurried:
			stirred = true
		}
		select {
		case <-r.stirred:
			stirred = true
		default:
		}
		facts, err := r.feed.ask(ctx, &stirred)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.send(daemonLost{reason(err)})
		default:
			r.send(factsCame{facts})
			r.explain(ctx, stirred)
		}
		next.Reset(r.interval)
	}
}

// explain asks why requests wait, after a change and every few seconds.
func (r *runner) explain(ctx context.Context, stirred bool) {
	if now := r.Now(); !stirred && now.Sub(r.feed.explained) < rarely {
		return
	}
	select {
	case list := <-r.wanted:
		r.feed.explained = r.Now()
		if facts := r.feed.explain(ctx, list); ctx.Err() == nil {
			r.send(factsCame{facts})
		}
	default:
	}
}

// follow passes on events as they come, many at once if they come fast.
func (r *runner) follow(ctx context.Context) {
	list := make(chan gpu.Event)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(list)
		last := uint64(0)
		for ctx.Err() == nil {
			for e, err := range r.feed.from.Events(ctx, last, true) {
				if err != nil {
					break // the daemon is away, or refuses; poll says so
				}
				last = e.ID
				select {
				case list <- e:
				case <-ctx.Done():
				}
			}
			pause(ctx, rarely)
		}
	})
	const together = 200 * time.Millisecond
	var some []gpu.Event
	var send <-chan time.Time
	for {
		select {
		case e, more := <-list:
			if !more {
				reading.Wait()
				return
			}
			if some = append(some, e); send == nil {
				send = time.After(together)
			}
		case <-send:
			r.send(eventsCame{some})
			signal(r.stirred)
			some, send = nil, nil
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// do makes the daemon carry out an act, and reports the result.
func (r *runner) do(ctx context.Context, a tui.Act) {
	did, err := r.act(ctx, a)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		err = reason(err)
	}
	r.send(actDone{a, did, err})
}

func (r *runner) act(ctx context.Context, a tui.Act) (string, error) {
	c := r.feed.from.Of(a.User)
	to := term.Screen{Width: 1 << 20, Now: r.Now()}
	gpus, err := r.Indexes(ctx, r.feed.from.Client)
	if err != nil {
		return "", err
	}
	switch a.Verb {
	case "release":
		ended, err := c.Release(ctx, a.ID, a.Fence)
		return oneLine(gpus.Ended(ended, to)), err
	case "park":
		before, _ := c.Lease(ctx, a.ID)
		after, err := c.Park(ctx, a.ID, api.Park{Fence: a.Fence})
		return oneLine(gpus.Parked(view.Moved{Before: before, After: after}, to)), err
	case "resume":
		before, _ := c.Lease(ctx, a.ID)
		after, err := c.Resume(ctx, a.ID, api.Resume{Fence: a.Fence})
		return oneLine(gpus.Resumed(view.Moved{Before: before, After: after}, to)), err
	case "drain":
		done, err := c.Drain(ctx, api.DrainRequest{GPU: gpu.Ref(a.GPU)})
		return view.Drained(done, to)[0], err
	case "undrain":
		done, err := c.Undrain(ctx, api.UndrainRequest{GPU: gpu.Ref(a.GPU)})
		return oneLine(view.Undrained(done, to)), err
	}
	return "", errors.New("berth top cannot " + a.Verb)
}

func oneLine(lines []string) string { return strings.Join(lines, " ") }
