package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
)

// shortestWatch keeps a typing error from turning into a busy loop.
const shortestWatch = 100 * time.Millisecond

// repeat shows the status until it is interrupted, which is no failure. A
// daemon that goes away is waited for; one that refuses is not.
func (o *statusOptions) repeat(ctx context.Context, v *view) error {
	tick := time.NewTicker(o.watch)
	defer tick.Stop()
	for first := true; ; first = false {
		if err := o.show(ctx, v, first); err != nil {
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

func (o *statusOptions) show(ctx context.Context, v *view, first bool) error {
	status, err := o.ask(ctx, v)
	if problem := (*api.Problem)(nil); errors.As(err, &problem) {
		return err
	}
	switch {
	case err != nil && ctx.Err() == nil:
		o.lost(err.Error())
		return nil
	case err != nil:
		return err
	}
	o.back()
	if o.json {
		return o.printJSONLine(status.answer())
	}
	return o.draw(status.lines(o.screen(), v.local), first)
}

// draw puts a block in place of the last one on a terminal, line over line so
// that nothing flickers, and after it elsewhere.
func (o *statusOptions) draw(lines []string, first bool) error {
	if !o.isTerminal() {
		return o.print(append([]string{o.Now().Format(time.RFC3339)}, append(lines, "")...)...)
	}
	const home, clear, clearLine, clearBelow = "\x1b[H", "\x1b[2J", "\x1b[K", "\x1b[J"
	var b strings.Builder
	if first {
		b.WriteString(clear)
	}
	b.WriteString(home)
	for _, line := range strings.Split(strings.Join(lines, "\n"), "\n") {
		b.WriteString(line + clearLine + "\n")
	}
	b.WriteString(clearBelow)
	_, err := io.WriteString(o.Out, b.String())
	return err
}
