// Package services holds the commands about services whose programs berth runs: those that
// show them, that start, stop and move them, and that read the configuration of llama-swap.
package services

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/door/front/route"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Commands returns the commands about services.
func Commands() []console.Command {
	return []console.Command{
		console.Make(newServices, "services", "service"),
		console.Make(newStart, "start"),
		console.Make(newStop, "stop"),
		console.Make(newRestart, "restart"),
		console.Make(newMove, "move"),
		console.Make(newImport, "import"),
	}
}

func newServices(con *console.Console) *cobra.Command {
	return console.Watch(con, &cobra.Command{
		Use:     "services [NAME]",
		Aliases: []string{"service"},
		Short:   "Show the services whose programs berth runs",
		Long: `Show the services that have a command in berth.yaml: their state, devices and
memory, how many requests are open and wait, and how long each takes to come and
to go, as measured. With NAME, show everything about one: a name, the beginning
of one, or the name of a model.

  away       its program does not run
  waiting    it waits for its lease, and the table says for what
  starting   its program runs, and is not ready yet
  ready      it takes requests
  closing    it takes no more, and ends those that it has
  leaving    it is being parked, put to sleep or stopped
  parked     its memory is in the memory of the machine
  asleep     its server has given its memory up by itself
  returning  it comes back from there
  failed     it failed, and is started again after a pause
  stopped    a person stopped it: berth start NAME

Who may look sees all of them; commands, folders and logs are for the user of a
service and for operators.`,
		Example:           "  berth services\n  berth services chat\n  berth services --watch\n  berth services --json | jq '.services[].state'",
		ValidArgsFunction: complete(con),
	}, func(names []string) error {
		if len(names) > 1 {
			return console.Usage("services shows all services or one, not %q and %q", names[0], names[1])
		}
		return nil
	}, func(ctx context.Context, c *client.Client, names []string) (console.Shown, error) {
		gpus, err := con.Indexes(ctx, c)
		if err != nil {
			return console.Shown{}, err
		}
		if len(names) == 0 {
			all, err := c.Services(ctx)
			return console.Shown{Answer: all, Lines: (&view.Services{Services: all, GPUs: gpus}).Lines}, err
		}
		one, err := byName(ctx, c, names[0], true, func(name string) (api.Service, error) { return c.Service(ctx, name) })
		return console.Shown{Answer: one, Lines: (&view.Service{Service: one, Indexes: gpus}).Lines}, err
	})
}

func newStart(con *console.Console) *cobra.Command {
	var why string
	var all bool
	cmd := &cobra.Command{
		Use:   "start NAME...",
		Short: "Start services",
		Long: `Start services now, also those that a person stopped or that failed. The command
does not wait until they are ready. A request for a service that is away starts
it too, so you need this only for those with start: never, after berth stop, or
to have one ready before the first request.

You can start the services that run as you; operators start all. With --all, it
starts those that a person stopped.`,
		Example:           "  berth start chat\n  berth start chat coder --why \"the new weights are there\"\n  berth start --all",
		Args:              namesOr(&all),
		ValidArgsFunction: complete(con),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all {
				var err error
				if args, err = names(cmd.Context(), con, func(s api.Service) bool { return s.Stopped != nil }); err != nil {
					return err
				}
				if len(args) == 0 {
					return tell(con, "No service is stopped.")
				}
			}
			return console.Each(cmd.Context(), con, args, order(&why, (*client.Client).StartService), view.ServiceStarted)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "start all services that a person stopped")
	whyFlag(cmd, &why)
	return cmd
}

func newStop(con *console.Console) *cobra.Command {
	var why string
	var all bool
	cmd := &cobra.Command{
		Use:   "stop NAME...",
		Short: "Stop services until somebody starts them",
		Long: `Stop services. Each ends its open requests first. Later requests are refused
with 503, and their callers read who stopped it and why, until berth start; a
restart of the daemon changes nothing about it.

You can stop the services that run as you; operators stop all. To stop one only
until the next request, do nothing: berth sends it away when others need its
room, or after its idle_after.

With --all, it stops every service, and returns when all their programs have
ended: do that before you stop the daemon for good, which leaves them running.`,
		Example:           "  berth stop chat\n  berth stop chat --why \"new weights, back at 15:00\"\n  berth stop --all --why maintenance",
		Args:              namesOr(&all),
		ValidArgsFunction: complete(con),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all {
				return stopAll(cmd.Context(), con, why)
			}
			return console.Each(cmd.Context(), con, args, order(&why, (*client.Client).StopService), view.ServiceStopped)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "stop all services, and wait until they have ended")
	whyFlag(cmd, &why)
	return cmd
}

func newRestart(con *console.Console) *cobra.Command {
	var why string
	cmd := console.ActOnEach(con, &cobra.Command{
		Use:   "restart NAME...",
		Short: "Stop services and start them again",
		Long: `Stop services, each when its open requests have ended, and start them again.
What changed in berth.yaml about their programs since the last start holds from
then on. Requests that come meanwhile wait.`,
		Example:           "  berth restart chat\n  berth restart chat --why \"new settings\"",
		ValidArgsFunction: complete(con),
	}, order(&why, (*client.Client).RestartService), view.ServiceRestarted)
	whyFlag(cmd, &why)
	return cmd
}

func newMove(con *console.Console) *cobra.Command {
	var order api.ServiceOrder
	cmd := &cobra.Command{
		Use:   "move NAME GPU",
		Short: "Let a service go, and come again on another GPU",
		Long: `Let a service go from where it is when its open requests have ended, and come
again on another GPU, given by index or UUID. Requests that come meanwhile wait.
This makes room on a GPU whose free memory is in too small parts.`,
		Example: "  berth move chat 1\n  berth move chat GPU-5a1c0b7e --why \"room for training\"",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return con.GPUs()(cmd, nil, part)
			}
			return complete(con)(cmd, args, part)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			order.GPU = args[1]
			ctx := cmd.Context()
			return con.With(ctx, func(c *client.Client) error {
				moved, err := byName(ctx, c, args[0], false, func(name string) (api.Service, error) { return c.MoveService(ctx, name, order) })
				if err != nil {
					return err
				}
				gpus, err := con.Indexes(ctx, c)
				if err != nil {
					return err
				}
				to := term.Clean(args[1])
				if _, known := gpus[to]; known {
					to = gpus.Name(to)
				} else {
					to = "GPU " + to
				}
				return console.AnswerOne(con, moved, func(s api.Service, _ term.Screen) string { return view.ServiceMoved(s, to) })
			})
		},
	}
	whyFlag(cmd, &order.Why)
	return cmd
}

// namesOr demands the names of services, unless all are meant.
func namesOr(all *bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if *all && len(args) > 0 {
			return console.Usage("--all means every service: leave it out, or %s", args[0])
		}
		if *all {
			return nil
		}
		return cobra.MinimumNArgs(1)(cmd, args)
	}
}

// names returns the names of the services for which a function is true.
func names(ctx context.Context, con *console.Console, which func(api.Service) bool) (list []string, err error) {
	err = con.With(ctx, func(c *client.Client) error {
		all, err := c.Services(ctx)
		for _, s := range all.Services {
			if which(s) {
				list = append(list, s.Name)
			}
		}
		return err
	})
	return list, err
}

// tell writes a line for people.
func tell(con *console.Console, line string) error {
	if con.JSON {
		return nil
	}
	return con.Print(line)
}

// lookPause is how often stopAll looks how far the services are.
const lookPause = 250 * time.Millisecond

// stopAll stops every service, and waits until their programs have ended. Those that it
// may not stop are failures.
func stopAll(ctx context.Context, con *console.Console, why string) error {
	running, err := names(ctx, con, func(s api.Service) bool { return s.Stopped == nil })
	if err != nil {
		return err
	}
	failed := console.Each(ctx, con, running, order(&why, (*client.Client).StopService), view.ServiceStopped)
	for {
		left, err := names(ctx, con, func(s api.Service) bool { return s.Stopped != nil && s.State != "stopped" })
		switch {
		case err != nil || failed != nil && len(left) == 0:
			return errors.Join(failed, err)
		case len(left) == 0:
			return tell(con, "All services are stopped.")
		}
		select {
		case <-time.After(lookPause):
		case <-ctx.Done():
			return errors.Join(failed, context.Cause(ctx))
		}
	}
}

func whyFlag(cmd *cobra.Command, why *string) {
	cmd.Flags().StringVar(why, "why", "", "`TEXT` that people read about it")
}

// order returns a function that gives an order to the service that a name means.
func order(why *string, give func(c *client.Client, ctx context.Context, name, why string) (api.Service, error)) func(context.Context, *client.Client, string) (api.Service, error) {
	return func(ctx context.Context, c *client.Client, name string) (api.Service, error) {
		return byName(ctx, c, name, false, func(name string) (api.Service, error) { return give(c, ctx, name, *why) })
	}
}

// byName calls do with the service that a text means: its name, else the only one that has
// a model of that name or whose name begins so. With patterns, it may also be the one whose
// pattern of models the text matches, as for the front: that is for what changes nothing.
func byName(ctx context.Context, c *client.Client, text string, patterns bool, do func(name string) (api.Service, error)) (api.Service, error) {
	answer, err := do(text)
	if text == "" || !console.IsProblem(err, "unknown_service") {
		return answer, err
	}
	all, listed := c.Services(ctx)
	if listed != nil {
		return answer, err
	}
	var named []console.Named
	var names []string
	var models []route.Names
	for _, s := range all.Services {
		names = append(names, s.Name)
		named = append(named, console.Named{ID: s.Name})
		for _, model := range s.Models {
			named = append(named, console.Named{ID: s.Name, Name: model})
		}
		// A pattern that takes every name means no service.
		models = append(models, route.Names{Service: s.Name, Models: slices.DeleteFunc(slices.Clone(s.Models), func(model string) bool { return strings.Trim(model, "*") == "" })})
	}
	name, found := console.Pick(text, named)
	if model, is := route.ByModel(models, text); is && patterns && errors.Is(found, console.ErrNothing) {
		name, found = model, nil
	}
	switch {
	case errors.Is(found, console.ErrNothing):
		next := "no service has a command: berth help models shows how to give it one"
		if len(names) > 0 {
			next = words.Suggest(text, names, "berth services lists them")
		}
		return answer, console.Hinted(console.Reworded(err, fmt.Sprintf("there is no service %s that berth runs a program for", text)), next)
	case found != nil:
		return answer, found
	}
	return do(name)
}

// complete returns a completion that offers the names of services.
func complete(con *console.Console) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (offers []string, _ cobra.ShellCompDirective) {
		for _, s := range console.Known(con, cmd, (*client.Client).Services).Services {
			offers = append(offers, term.Clean(s.Name)+"\t"+term.Clean(s.State))
		}
		return offers, console.NoFiles
	}
}
