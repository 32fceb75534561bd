// Package console is what the commands of berth share: the world as they see
// it, the way to the daemon, how an answer is printed and watched, what a
// failure looks like and which exit code it gives, and the flags, their values
// and the completions that several commands have.
//
// It knows no command.
package console

import "github.com/spf13/cobra"

// Console is the world of one command line, and the flags that every command
// takes. Each command embeds it in its options.
type Console struct {
	Env
	Socket, URL string // of the daemon; empty: its usual place
	JSON        bool   // write JSON

	started      bool // a command runs: see isUsage
	devicesGiven bool // by --devices
	outage       bool // the daemon went away, and that has been said
}

// Begin notes that the framework has accepted the command line, and runs cmd.
func (c *Console) Begin(cmd *cobra.Command) {
	c.started, c.devicesGiven = true, cmd.Flags().Changed("devices")
}
