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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/jobs"
	"github.com/berth-gpu/berth/internal/cli/leasing"
	"github.com/berth-gpu/berth/internal/cli/look"
	"github.com/berth-gpu/berth/internal/cli/programs"
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
func New(env Env) *cobra.Command {
	root, _ := tree(env, &console.Console{Env: env.Env}, "")
	return root
}

// Run runs one command line, reports an error on Err, and returns the exit code.
func Run(ctx context.Context, env Env, args []string) int {
	con := &console.Console{Env: env.Env}
	berth, grow := tree(env, con, firstWord(args))
	refuseStrayWords(berth)
	berth.SetArgs(args)
	cmd, err := berth.ExecuteContextC(ctx)
	if err != nil {
		grow()
		err = translated(cmd, err)
	}
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

// tree returns the root command with the command below it that word names, and a function
// that adds the others, which an explanation of a mistake looks at. If word names none, they
// are all there.
func tree(env Env, con *console.Console, word string) (root *cobra.Command, grow func()) {
	root = &cobra.Command{
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

	root.SetHelpCommand(newHelp(con, env.Topics))
	nameTopics(root)
	all := groups(env)
	named := func(c console.Command) bool { return c.Is(word) }
	if !slices.ContainsFunc(all, func(g group) bool { return slices.ContainsFunc(g.commands, named) }) {
		add(root, con, all, func(console.Command) bool { return true })
		return root, func() {}
	}
	add(root, con, all, named)
	root.CompletionOptions.DisableDefaultCmd = true
	return root, func() {
		add(root, con, all, func(c console.Command) bool { return !named(c) })
		root.CompletionOptions.DisableDefaultCmd = false
		root.InitDefaultCompletionCmd()
	}
}

// group is what stands under one title of the help page.
type group struct {
	title    string
	commands []console.Command
}

func groups(env Env) []group {
	return []group{
		{"Look:", look.Commands(env.Top)},
		{"Jobs:", jobs.Commands()},
		{"Services:", services.Commands()},
		{"Leases:", leasing.Commands(env.Become)},
		{"Pipelines:", work.Commands(env.Become)},
		{"Access:", rights.Commands(env.Agents)},
		{"The daemon:", upkeep.Commands(env.Daemon)},
	}
}

// add makes the commands that are wanted, and adds them to the root.
func add(root *cobra.Command, con *console.Console, all []group, wanted func(console.Command) bool) {
	for _, g := range all {
		if !root.ContainsGroup(g.title) {
			root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		}
		for _, named := range g.commands {
			if !wanted(named) {
				continue
			}
			cmd := named.New(con)
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
}

// firstWord returns the word of a command line that names the command, or "" if that takes
// a look at the flags of commands.
func firstWord(args []string) string {
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "--socket" || arg == "--url":
			i++ // its value
		case arg == "--json" || strings.HasPrefix(arg, "--socket=") || strings.HasPrefix(arg, "--url="):
		case strings.HasPrefix(arg, "-"):
			return ""
		default:
			return arg
		}
	}
	return ""
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
// is the cause of the context. From the call of stop on, signals end the process by
// themselves; stop returns the cause if one came before, so that none is lost.
func UntilSignal(signals ...os.Signal) (_ context.Context, stop func() error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	came, heard := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(came, signals...)
	go func() {
		defer close(heard)
		if s := <-came; s != nil {
			cancel(&console.SignalError{Signal: s.(syscall.Signal)})
		}
	}()
	return ctx, sync.OnceValue(func() error {
		signal.Stop(came) // returns when no signal is on its way to the channel any more
		close(came)
		<-heard
		return context.Cause(ctx)
	})
}

// Become returns what makes this process a program, unless a signal came before.
func Become(stop func() error) leasing.Become {
	return func(file string, command, environ []string) error {
		programs.KeepIgnored() // what was ignored at the start must not end this process now
		if err := stop(); err != nil {
			return err
		}
		return programs.Become(file, command, environ)
	}
}
