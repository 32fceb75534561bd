package console

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/text/term"
)

// Command is a command that is not made yet. To make all of them takes longer than most of
// them take to answer, so a command line makes the one that it names.
type Command struct {
	Words []string // its name, and its aliases after that
	New   func(*Console) *cobra.Command
}

// Is reports whether word names the command.
func (c Command) Is(word string) bool { return slices.Contains(c.Words, word) }

// Make returns a command that is made by new when it is needed.
func Make(new func(*Console) *cobra.Command, words ...string) Command {
	return Command{Words: words, New: func(con *Console) *cobra.Command { return prepared(new(con)) }}
}

// MakeWith does the same as Make for a command that needs something else too.
func MakeWith[T any](new func(*Console, T) *cobra.Command, with T, words ...string) Command {
	return Make(func(con *Console) *cobra.Command { return new(con, with) }, words...)
}

// prepared returns a command that has all its flags: it and those below it take the arguments
// that their usage lines name, and keep amounts of memory as they were written, for
// [Console.Begin].
func prepared(cmd *cobra.Command) *cobra.Command {
	if cmd.Args == nil && cmd.Runnable() {
		cmd.Args = counted(cmd)
	}
	keepAmounts(cmd)
	for _, below := range cmd.Commands() {
		prepared(below)
	}
	return cmd
}

// counted returns what demands as many arguments as the usage line of a command names. The
// interval of --watch may be one more.
func counted(cmd *cobra.Command) cobra.PositionalArgs {
	required, most := arguments(cmd)
	if cmd.Flags().Lookup("watch") != nil {
		most++
	}
	switch {
	case most == 0:
		return cobra.NoArgs
	case strings.HasSuffix(cmd.Use, "..."):
		return cobra.MinimumNArgs(len(required))
	case most == len(required):
		return cobra.ExactArgs(most)
	}
	return cobra.RangeArgs(len(required), most)
}

// Act returns a command that has the daemon do something: do asks for that, with the
// arguments, and say makes lines of the answer.
func Act[T any](con *Console, cmd *cobra.Command, do func(ctx context.Context, daemon *client.Client, args []string) (T, error), say func(T, term.Screen) []string) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return Ask(cmd.Context(), con, func(daemon *client.Client, ctx context.Context) (T, error) { return do(ctx, daemon, args) }, say)
	}
	return cmd
}

// Show returns a command without arguments that shows an answer of the daemon.
func Show[T any](con *Console, cmd *cobra.Command, ask func(*client.Client, context.Context) (T, error), say func(T, term.Screen) []string) *cobra.Command {
	return Act(con, cmd, func(ctx context.Context, daemon *client.Client, _ []string) (T, error) { return ask(daemon, ctx) }, say)
}

// ActOnEach returns a command that has the daemon do something with what its first argument
// names, or with all that its arguments name if the usage line ends in "...": one after the
// other, and a failure does not keep it from the next. It says what became of each.
func ActOnEach[T any](con *Console, cmd *cobra.Command, do func(ctx context.Context, daemon *client.Client, name string) (T, error), say func(T, term.Screen) string) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !strings.HasSuffix(cmd.Use, "...") {
			args = args[:1]
		}
		return Each(cmd.Context(), con, args, do, say)
	}
	return cmd
}

// Each does what the command of ActOnEach does, with these names.
func Each[T any](ctx context.Context, con *Console, names []string, do func(ctx context.Context, daemon *client.Client, name string) (T, error), say func(T, term.Screen) string) error {
	return con.With(ctx, func(daemon *client.Client) error {
		var failures []error
		for _, name := range names {
			done, err := do(ctx, daemon, name)
			if err == nil {
				err = AnswerOne(con, done, say)
			}
			failures = append(failures, err)
		}
		return errors.Join(failures...)
	})
}
