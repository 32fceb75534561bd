// Package cli assembles the command line: the root command, and below it the commands
// of the neighbouring packages, one group of the help page each.
//
// Every command is a function that makes the cobra command, with its flags as variables;
// those with several steps have a struct of options. Commands about one object share a
// file. Env is the environment of the commands, which a test can replace.
package cli

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/jobs"
	"github.com/berth-gpu/berth/internal/cli/leasing"
	"github.com/berth-gpu/berth/internal/cli/look"
	"github.com/berth-gpu/berth/internal/cli/rights"
	"github.com/berth-gpu/berth/internal/cli/services"
	"github.com/berth-gpu/berth/internal/cli/upkeep"
	"github.com/berth-gpu/berth/internal/cli/work"
)

// Env is the environment of the commands.
type Env struct {
	console.Env
	upkeep.Daemon
	Become leasing.Become
	Top    look.Top
	Agents rights.Agents
	Topics Topics
}

// New returns the berth command with all its subcommands.
func New(env Env) *cobra.Command { return root(env, &console.Console{Env: env.Env}) }

// Run runs one command line, reports an error on Err, and returns the exit code.
func Run(ctx context.Context, env Env, args []string) int {
	con := &console.Console{Env: env.Env}
	berth := root(env, con)
	refuseStrayWords(berth)
	berth.SetArgs(args)
	cmd, err := berth.ExecuteContextC(ctx)
	err = translated(cmd, err)
	con.Report(err)
	return con.ExitCode(ctx, err)
}

const longHelp = `berth manages the GPUs of this machine. It measures each one, and decides who
may use it.

"berth serve" runs the daemon. The other commands find the daemon by --socket or
BERTH_SOCKET, by --url or BERTH_URL (with BERTH_TOKEN), or else at its usual
place. Commands that only look work without a daemon too.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no daemon, 4 refused by the
daemon, 130 interrupted, 143 terminated.`

func root(env Env, con *console.Console) *cobra.Command {
	root := &cobra.Command{
		Use:              "berth",
		Short:            "GPU resource manager",
		Long:             longHelp,
		Example:          "  berth serve --devices sim:4\n  berth status --watch\n  berth allocate embedder 4GiB\n  berth doctor",
		Version:          con.Version,
		SilenceErrors:    true,
		SilenceUsage:     true,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) { con.Begin(cmd) },
	}
	root.SetIn(con.In)
	root.SetOut(con.Out)
	root.SetErr(con.Err)
	flags := root.PersistentFlags()
	flags.StringVar(&con.Socket, "socket", "", "`PATH` of the daemon's Unix socket")
	flags.StringVar(&con.URL, "url", "", "`ADDRESS` of a daemon on another machine, as in\nhttp://host:8000")
	flags.BoolVar(&con.JSON, "json", false, "write JSON")

	addGroup(root, "Look:", look.Commands(con, env.Top))
	addGroup(root, "Jobs:", jobs.Commands(con))
	addGroup(root, "Services:", services.Commands(con))
	addGroup(root, "Leases:", leasing.Commands(con, env.Become))
	addGroup(root, "Pipelines:", work.Commands(con))
	addGroup(root, "Access:", rights.Commands(con, env.Agents))
	addGroup(root, "The daemon:", upkeep.Commands(con, env.Daemon))
	root.SetHelpCommand(newHelp(con, env.Topics))
	nameTopics(root)
	console.KeepAmounts(root)
	return root
}

// addGroup adds commands under a title of the help page.
func addGroup(root *cobra.Command, title string, commands []*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
	}
	root.AddCommand(commands...)
}

// refuseStrayWords makes commands that only group other commands refuse an unknown
// word. Otherwise they would show their help, as if nothing were wrong.
func refuseStrayWords(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if !cmd.Runnable() {
			cmd.Args = cobra.NoArgs
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// ThisMachine returns the environment of a process on this machine. The caller sets the
// fields that need other packages: Serve, Local, Settings, Become and Probe.
func ThisMachine(version string) Env {
	return Env{Env: console.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ(), CPUs: runtime.NumCPU(), Now: time.Now, Version: version,
		Terminal: terminal(os.Stdout), ErrTerminal: terminal(os.Stderr),
	}}
}

// terminal returns a function that returns the width of f if it is a terminal.
func terminal(f *os.File) func() (width int, ok bool) {
	return func() (width int, ok bool) {
		width, _, err := term.GetSize(int(f.Fd()))
		return width, err == nil
	}
}

// UntilSignal returns a context that ends with the first of these signals. The signal
// is the cause of the context.
func UntilSignal(signals ...os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	came := make(chan os.Signal, 1)
	signal.Notify(came, signals...)
	go func() {
		select {
		case s := <-came:
			cancel(&console.SignalError{Signal: s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(came)
		cancel(nil)
	}
}
