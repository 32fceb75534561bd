// Package top holds berth top, the live view in a terminal.
//
// It feeds the screen of package tui with the answers and events of the daemon,
// hands it the keys, and carries out what the user has confirmed.
package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/tui"
	"github.com/berth-gpu/berth/internal/process"
)

type options struct {
	*console.Console
	console.Live
}

// Run shows the live view until the user ends it, or one frame.
func Run(ctx context.Context, con *console.Console, what console.Live) error {
	o := &options{con, what}
	if !o.Once {
		if err := o.needsTerminal(); err != nil {
			return err
		}
	}
	screen := tui.New()
	screen.Version, screen.Several, screen.Colours, screen.Interval = o.Version, o.Across.Any(), bool(o.Screen().Painter), o.Interval
	if screen.Several {
		return o.across(ctx, screen)
	}
	v, err := o.Look(ctx, o.Devices)
	if err != nil {
		return err
	}
	defer v.Close()
	screen.Local = v.Local
	f := &feed{from: v, gpu: o.GPU, now: o.Now}
	if v.Local || !o.Remote() {
		f.programs = &programs{from: process.Proc()}
	}
	if o.Once {
		return o.frame(ctx, f, screen)
	}
	first, err := f.ask(ctx, nil) // an error is reported before the screen changes
	if err != nil {
		return err
	}
	screen.Tick(o.Now())
	screen.Take(first)
	f.watch(screen.Watched())
	r := &runner{options: o, feed: f, hurried: make(chan struct{}, 1), stirred: make(chan struct{}, 1), wanted: make(chan []tui.Request, 1), acts: make(chan tui.Act, 1)}
	return r.show(ctx, screen, r.poll, r.follow, r.work, func(ctx context.Context) { r.tick(ctx, nil) })
}

// across shows several machines until the user quits, or one frame.
func (o *options) across(ctx context.Context, screen *tui.State) error {
	nodes, err := o.Nodes(o.Across)
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
	screen.Tick(o.Now())
	screen.TakeNodes(first, o.Now())
	if !o.Once {
		r := &runner{options: o}
		return r.show(ctx, screen, func(ctx context.Context) { r.pollNodes(ctx, nodes.Ask) }, func(ctx context.Context) { r.tick(ctx, nodes) })
	}
	screen.Resize(o.Screen().Width, o.height())
	if err := o.Print(screen.Frame()...); err != nil {
		return err
	}
	return console.Missing(first)
}

// needsTerminal says what to use if there is no terminal that can be overwritten.
func (o *options) needsTerminal() error {
	hint := "use berth status --watch, or berth top --once"
	if _, ok := o.Terminal(); !ok {
		return console.Hinted(console.Usage("top needs a terminal, and this output is none"), hint)
	}
	if in, ok := o.In.(*os.File); ok && !term.IsTerminal(int(in.Fd())) {
		return console.Hinted(console.Usage("top needs a terminal to read keys from, and this input is none"), hint)
	}
	if name := o.Getenv("TERM"); name == "dumb" || name == "" {
		return console.Hinted(console.Usage("top cannot write over this terminal, which TERM calls %q", name), hint)
	}
	return nil
}

// frame prints one frame.
func (o *options) frame(ctx context.Context, f *feed, screen *tui.State) error {
	facts, err := f.ask(ctx, nil)
	if err != nil {
		return err
	}
	screen.Tick(o.Now())
	screen.Resize(o.Screen().Width, o.height())
	screen.Take(facts)
	if f.programs != nil {
		f.watch(screen.Watched())
		screen.Take(tui.Facts{Programs: f.programs.look(o.Now())})
	}
	for e, err := range f.from.Events(ctx, 0, false) {
		if err != nil {
			break // a frame without events is better than none
		}
		screen.TakeEvents(e)
	}
	if screen.Take(f.explain(ctx, screen.Explained())); screen.Lost() {
		return errors.New("the daemon went away")
	}
	return o.Print(screen.Frame()...)
}

// height returns the number of lines of a printed frame.
func (o *options) height() int {
	if n, err := strconv.Atoi(o.Getenv("LINES")); err == nil && n > 0 {
		return n
	}
	if out, ok := o.Out.(*os.File); ok {
		if _, height, err := term.GetSize(int(out.Fd())); err == nil && height > 1 {
			return height - 1 // the shell goes on in the last line
		}
	}
	return 24
}

// reason returns the text of an error for the screen, with the next step if there is
// one.
func reason(err error) error {
	var hinted interface{ Hint() string }
	problem := (*api.Problem)(nil)
	if errors.As(err, &problem) || !errors.As(err, &hinted) || hinted.Hint() == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, hinted.Hint())
}
