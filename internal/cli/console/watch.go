package console

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/text/term"
)

// shortestWatch keeps a typing error from causing a busy loop.
const shortestWatch = 100 * time.Millisecond

// WatchFlag adds the flag that makes a command show its answer repeatedly. A flag with an
// optional value takes it only after "=", so in "--watch 2s" the interval comes as an argument
// after those that the command needs, and WatchFlag keeps it from the command.
func WatchFlag(cmd *cobra.Command, watch *time.Duration) {
	cmd.Flags().DurationVar(watch, "watch", 0, "repeat every `INTERVAL`")
	cmd.Flags().Lookup("watch").NoOptDefVal = "1s"
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		required, _ := arguments(cmd)
		others, err := takeInterval(args[len(required):], watch)
		if err != nil {
			return err
		}
		return run(cmd, append(args[:len(required):len(required)], others...))
	}
}

// Watch returns a command that shows an answer of the daemon, once or with --watch repeatedly:
// ask asks with the arguments, if check does not refuse them.
func Watch(con *Console, cmd *cobra.Command, check func(args []string) error, ask func(ctx context.Context, daemon *client.Client, args []string) (Shown, error)) *cobra.Command {
	var watch time.Duration // 0 to show once
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := check(args); err != nil {
			return err
		}
		return con.With(cmd.Context(), func(daemon *client.Client) error {
			return con.Tell(cmd.Context(), watch, func(ctx context.Context) (Shown, error) { return ask(ctx, daemon, args) })
		})
	}
	WatchFlag(cmd, &watch)
	return cmd
}

// takeInterval takes the interval out of the arguments. It recognizes it by its unit.
func takeInterval(args []string, watch *time.Duration) (others []string, err error) {
	others = slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		interval, err := time.ParseDuration(arg)
		if *watch == 0 || err != nil || strings.TrimRight(arg, "0123456789") == "" {
			return false
		}
		*watch = interval
		return true
	})
	if *watch != 0 && *watch < shortestWatch {
		return nil, Usage("--watch must be at least %s, not %s", shortestWatch, *watch)
	}
	return others, nil
}

// Shown is an answer, and what writes it for people.
type Shown struct {
	Answer any
	Lines  func(to term.Screen) []string
}

// question returns the answer to show.
type question func(context.Context) (Shown, error)

// Tell asks and shows once or, with an interval, repeatedly until it is interrupted,
// which is not a failure.
func (c *Console) Tell(ctx context.Context, every time.Duration, ask question) error {
	if every != 0 {
		return c.repeat(ctx, every, ask)
	}
	found, err := ask(ctx)
	if err != nil {
		return err
	}
	return c.Answer(found.Answer, found.Lines(c.Screen())...)
}

// repeat waits for a daemon that goes away, but not for one that refuses.
func (c *Console) repeat(ctx context.Context, every time.Duration, ask question) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for first := true; ; first = false {
		if err := c.showAgain(ctx, first, ask); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (c *Console) showAgain(ctx context.Context, first bool, ask question) error {
	found, err := ask(ctx)
	switch {
	case err != nil && ctx.Err() == nil && c.Lost(err):
		return nil
	case err != nil:
		return err
	}
	c.Back()
	if c.JSON {
		return c.PrintJSONLine(found.Answer)
	}
	return c.draw(found.Lines(c.Screen()), first)
}

// draw overwrites the last lines on a terminal, and appends lines elsewhere.
func (c *Console) draw(lines []string, first bool) error {
	if !c.isTerminal() {
		return c.Print(append([]string{c.Now().Format(time.RFC3339)}, append(lines, "")...)...)
	}
	_, err := io.WriteString(c.Out, term.Page(lines, first))
	return err
}
