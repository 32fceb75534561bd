package console

import (
	"slices"

	"github.com/spf13/cobra"
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
	return Command{Words: words, New: new}
}

// MakeWith does the same as Make for a command that needs something else too.
func MakeWith[T any](new func(*Console, T) *cobra.Command, with T, words ...string) Command {
	return Command{Words: words, New: func(con *Console) *cobra.Command { return new(con, with) }}
}
