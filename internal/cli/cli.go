package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// app holds what the commands share: the world, and the flags that every command
// takes.
type app struct {
	Env
	socket, url string
	json        bool
	started     bool // a command runs: see isUsage
	outage      bool // the daemon went away, and that has been said
	answered    bool // the daemon has answered once

	devicesGiven bool // by --devices
}

// New returns the berth command with everything below it.
func New(env Env) *cobra.Command { return (&app{Env: env}).root() }

// Run runs one command line, reports on Err what went wrong, and returns the exit
// code.
func Run(ctx context.Context, env Env, args []string) int {
	a := &app{Env: env}
	root := a.root()
	refuseStrayWords(root)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	a.report(err)
	return a.exitCode(ctx, err)
}

const longHelp = `berth manages the GPUs of this machine. It measures each one, and decides who
may use it.

"berth serve" runs the daemon. The other commands find the daemon by --socket or
BERTH_SOCKET, by --url or BERTH_URL (with BERTH_TOKEN), or else at its usual
place. Commands that only look work without a daemon too.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no daemon, 4 refused by the
daemon, 130 interrupted, 143 terminated.`

// The groups of the help page.
const (
	groupDaemon = "daemon"
	groupLeases = "leases"
	groupLook   = "look"

	groupPipelines = "pipelines"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "berth",
		Short:         "GPU resource manager",
		Long:          longHelp,
		Example:       "  berth serve --devices sim:4\n  berth status --watch\n  berth allocate embedder 4GiB\n  berth doctor",
		Version:       a.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			a.started, a.devicesGiven = true, cmd.Flags().Changed("devices")
		},
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	flags := root.PersistentFlags()
	flags.StringVar(&a.socket, "socket", "", "`PATH` of the daemon's Unix socket")
	flags.StringVar(&a.url, "url", "", "`ADDRESS` of a daemon on another machine, as in\nhttp://host:8000")
	flags.BoolVar(&a.json, "json", false, "write JSON")

	root.AddGroup(
		&cobra.Group{ID: groupLook, Title: "Look:"},
		&cobra.Group{ID: groupLeases, Title: "Leases:"},
		&cobra.Group{ID: groupPipelines, Title: "Pipelines:"},
		&cobra.Group{ID: groupDaemon, Title: "The daemon:"},
	)
	root.AddCommand(
		newStatus(a), newEvents(a), newExport(a), newReport(a),
		newExec(a), newAllocate(a), newDeallocate(a), newLeases(a), newRelease(a), newRenew(a), newExplain(a), newAdopt(a),
		newPlan(a), newRun(a), newBecome(a),
		newServe(a), newConfig(a), newDoctor(a), newJournal(a), newVersion(a),
	)
	return root
}
