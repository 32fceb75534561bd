package top

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/tui"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
)

// The messages to the program beside keys.
type (
	factsCame  struct{ facts tui.Facts }
	nodesCame  struct{ all api.Nodes } // of several machines
	eventsCame struct{ list []gpu.Event }
	daemonLost struct{ err error }
	actDone    struct {
		act tui.Act
		did string
		err error
	}
	ticked struct{ asking string } // the clock goes on while nobody answers
)

// program is the screen in the form that the terminal library takes.
type program struct {
	*runner
	screen *tui.State
}

// Init does nothing: the feed runs beside the program.
func (p *program) Init() tea.Cmd { return nil }

// Update handles a message.
func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	p.screen.Tick(p.Now())
	var want tui.Want
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		p.screen.Resize(m.Width, m.Height)
	case tea.KeyPressMsg:
		want = p.screen.Press(m.String())
	case tea.MouseWheelMsg:
		switch m.Button {
		case tea.MouseWheelUp:
			p.screen.Wheel(m.X, m.Y, -1)
		case tea.MouseWheelDown:
			p.screen.Wheel(m.X, m.Y, 1)
		}
	case tea.MouseClickMsg:
		if m.Button == tea.MouseLeft {
			p.screen.Click(m.X, m.Y)
		}
	case tea.PasteMsg:
		for _, r := range m.Content {
			p.screen.Type(string(r))
		}
	case factsCame:
		p.screen.Take(m.facts)
		p.share(p.screen.Explained())
		p.feed.watch(p.screen.Watched())
	case nodesCame:
		p.screen.TakeNodes(m.all, p.Now())
	case eventsCame:
		p.screen.TakeEvents(m.list...)
	case daemonLost:
		p.screen.Lose(m.err.Error(), p.Now())
	case actDone:
		p.screen.Done(m.act, m.did, m.err)
		p.hurry()
	case ticked:
		p.screen.Asking = m.asking
	}
	switch {
	case want.Act != nil:
		p.acts <- *want.Act
	case want.Quit:
		return p, tea.Quit
	case want.Suspend:
		return p, tea.Suspend
	}
	return p, nil
}

// View draws the screen.
func (p *program) View() tea.View {
	v := tea.NewView(strings.Join(p.screen.Frame(), "\n"))
	v.AltScreen, v.MouseMode, v.WindowTitle = true, tea.MouseModeCellMotion, "berth top"
	return v
}

// runner asks and acts while the program runs.
type runner struct {
	*options
	feed    *feed // nil with several machines
	send    func(tea.Msg)
	hurried chan struct{}      // has room for one; signals to ask at once
	stirred chan struct{}      // has room for one; signals that leases may have changed
	wanted  chan []tui.Request // has room for one; requests whose reasons the screen shows
	acts    chan tui.Act       // what the user has confirmed
}

// frames limits the frames per second that are written to a terminal, so that a slow
// line gets no more than it can carry.
const frames = 20

// show runs the program until the user quits or ctx ends, and beside it the work. It
// waits until that has ended, too.
func (r *runner) show(ctx context.Context, screen *tui.State, beside ...func(context.Context)) error {
	said := r.Err
	r.Err = io.Discard // the screen reports it
	ctx, cancel := context.WithCancel(ctx)
	loop := tea.NewProgram(&program{r, screen}, tea.WithContext(ctx), tea.WithInput(r.In), tea.WithOutput(r.Out), tea.WithEnvironment(r.Environ),
		tea.WithoutSignalHandler(), tea.WithFPS(frames))
	r.send = loop.Send
	var running sync.WaitGroup
	for _, work := range beside {
		running.Go(func() { work(ctx) })
	}
	_, err := loop.Run()
	ended := context.Cause(ctx)
	cancel()
	running.Wait()
	r.Err = said
	if ended != nil {
		return ended
	}
	return err
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

// tick advances the clock, and says what takes long of several machines.
func (r *runner) tick(ctx context.Context, nodes *console.Nodes) {
	for each := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			each.Stop()
			return
		case <-each.C:
			asking := ""
			if nodes != nil {
				asking = nodes.Doing()
			}
			r.send(ticked{asking})
		}
	}
}

// repeat asks repeatedly, each time an interval after the answer or as soon as it is hurried.
// What ask returns goes to the screen.
func (r *runner) repeat(ctx context.Context, ask func(ctx context.Context, stirred bool) (tea.Msg, error)) {
	for {
		stirred := false
		select {
		case <-ctx.Done():
			return
		case <-time.After(r.Interval):
		case <-r.hurried:
			stirred = true
		}
		select {
		case <-r.stirred:
			stirred = true
		default:
		}
		answer, err := ask(ctx, stirred)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.send(daemonLost{reason(err)})
			continue
		}
		r.send(answer)
		if r.feed != nil {
			r.explain(ctx, stirred)
		}
	}
}

// poll asks the only daemon.
func (r *runner) poll(ctx context.Context) {
	r.repeat(ctx, func(ctx context.Context, stirred bool) (tea.Msg, error) {
		facts, err := r.feed.ask(ctx, &stirred)
		return factsCame{facts}, err
	})
}

// pollNodes asks several machines.
func (r *runner) pollNodes(ctx context.Context, ask func(context.Context) (api.Nodes, error)) {
	r.repeat(ctx, func(ctx context.Context, _ bool) (tea.Msg, error) {
		all, err := ask(ctx)
		return nodesCame{all}, err
	})
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

// work makes the daemon carry out what the user has confirmed, each act beside the others.
func (r *runner) work(ctx context.Context) {
	var doing sync.WaitGroup
	defer doing.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-r.acts:
			doing.Go(func() { r.do(ctx, a) })
		}
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
	case "cancel":
		if a.Job != "" {
			j, err := c.CancelJob(ctx, a.Job, "")
			return view.JobCancelled(j, to), err
		}
		ended, err := c.Cancel(ctx, a.ID, api.Cancel{Fence: a.Fence})
		return oneLine(gpus.Cancelled(ended, to)), err
	case "park", "resume":
		before, _ := c.Lease(ctx, a.ID)
		if a.Verb == "park" {
			after, err := c.Park(ctx, a.ID, api.Park{Fence: a.Fence})
			return oneLine(gpus.Parked(view.Moved{Before: before, After: after}, to)), err
		}
		after, err := c.Resume(ctx, a.ID, api.Resume{Fence: a.Fence})
		return oneLine(gpus.Resumed(view.Moved{Before: before, After: after}, to)), err
	case "start":
		one, err := c.StartService(ctx, a.Service, "")
		return view.ServiceStarted(one, to), err
	case "stop":
		one, err := c.StopService(ctx, a.Service, "")
		return view.ServiceStopped(one, to), err
	case "restart":
		one, err := c.RestartService(ctx, a.Service, "")
		return view.ServiceRestarted(one, to), err
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
