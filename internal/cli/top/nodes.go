package top

import (
	"context"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/tui"
)

// nodesCame are the answers of several machines.
type nodesCame struct {
	all api.Nodes
	at  time.Time
}

// across shows several machines until the user quits, or one frame.
func (o *options) across(ctx context.Context, which console.Across) error {
	nodes, err := o.Nodes(which)
	if err != nil {
		return err
	}
	defer nodes.Close()
	done := o.SlowlyDoing(nodes.Doing)
	first, err := nodes.Ask(ctx) // an error is reported before the screen changes
	done()
	if err != nil {
		return err
	}
	screen := tui.NewNodes()
	screen.Colours, screen.Interval = bool(o.Screen().Painter), o.interval
	screen.Tick(o.Now())
	screen.Take(first, o.Now())
	if !o.once {
		return o.liveAcross(ctx, nodes, screen)
	}
	screen.Resize(o.Screen().Width, o.height())
	if err := o.Print(screen.Frame()...); err != nil {
		return err
	}
	return console.Missing(first)
}

// liveAcross runs the screen until the user quits or ctx ends.
func (o *options) liveAcross(ctx context.Context, nodes *console.Nodes, screen *tui.Nodes) error {
	return o.show(ctx, &nodesProgram{screen, o.Now, nodes.Doing}, func(ctx context.Context, send func(tea.Msg), running *sync.WaitGroup) {
		r := &runner{options: o, send: send}
		running.Go(func() { r.pollNodes(ctx, nodes) })
		running.Go(func() { r.tick(ctx) })
	})
}

// pollNodes asks the machines repeatedly, each time an interval after all have
// answered.
func (r *runner) pollNodes(ctx context.Context, nodes interface {
	Ask(context.Context) (api.Nodes, error)
}) {
	next := time.NewTimer(r.interval)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		all, err := nodes.Ask(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.send(daemonLost{reason(err)})
		default:
			r.send(nodesCame{all, r.Now()})
		}
		next.Reset(r.interval)
	}
}

// nodesProgram is the screen of several machines in the form that the terminal library
// takes.
type nodesProgram struct {
	screen *tui.Nodes
	now    func() time.Time
	doing  func() string
}

// Init does nothing: the machines are asked beside the program.
func (p *nodesProgram) Init() tea.Cmd { return nil }

// Update handles a message.
func (p *nodesProgram) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	p.screen.Tick(p.now())
	want := hand(p.screen, msg)
	switch m := msg.(type) {
	case nodesCame:
		p.screen.Take(m.all, m.at)
	case daemonLost:
		p.screen.Lose(m.err.Error(), p.now())
	case ticked:
		p.screen.Ask(p.doing())
	}
	return p, leave(want)
}

// View draws the screen.
func (p *nodesProgram) View() tea.View { return written(p.screen) }
