package jobs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/process/minder"
)

// Mind minds a run, as the daemon asks with these arguments, and returns the exit code. It
// is not a command for people.
func Mind(arguments []string) int {
	var at minder.Post
	flags := flag.NewFlagSet(minder.Verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error says it
	flags.StringVar(&at.Runs, "runs", "", "")
	flags.StringVar(&at.Run, "run", "", "")
	flags.Func("group", "", func(folder string) error {
		at.Groups = append(at.Groups, folder)
		return nil
	})
	socket := flags.String("socket", "", "")
	err := flags.Parse(arguments)
	if err == nil && (at.Runs == "" || at.Run == "" || *socket == "") {
		err = errors.New("it needs --runs, --run and --socket, which the daemon gives it: people write berth submit")
	}
	if err == nil {
		err = minder.Mind(context.Background(), at, asker(*socket))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "berth minder:", err)
		return 1
	}
	return 0
}

// asker returns a function that asks the daemon at a socket for the order of a run. The
// daemon has started this process, which does not become another user before it has the
// order: whoever listens there as somebody else is not the daemon, and is asked nothing.
func asker(socket string) func(context.Context, string) (api.MinderOrder, error) {
	return func(ctx context.Context, run string) (api.MinderOrder, error) {
		c, err := client.New(client.Options{Socket: socket, PeerUID: gpu.Some(os.Geteuid())})
		if err != nil {
			return api.MinderOrder{}, err
		}
		defer c.Close()
		order, err := c.MinderOrder(ctx, run)
		// Only that the daemon has no order is an end. Whatever else it refuses passes: it is
		// busy or going away, or does not know now who asks.
		if console.IsProblem(err, "no_order") {
			err = fmt.Errorf("%w: %w", minder.ErrRefused, err)
		}
		return order, err
	}
}
