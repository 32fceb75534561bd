// Package console has the parts that the commands of berth share: their environment,
// the connection to the daemon, printing and watching of answers, failures and their
// exit codes, and the common flags, values and completions.
//
// It knows no command.
package console

import "github.com/spf13/cobra"

// Console is the environment of one command line, and the flags that every command
// takes. Each command embeds it in its options.
type Console struct {
	Env
	Socket, URL string // of the daemon; empty for the usual place
	JSON        bool   // write JSON

	started      bool // a command has begun; see isUsage
	devicesGiven bool // by --devices
	outage       bool // the daemon went away, and the user knows
}

// Begin records that the framework has accepted the command line, and runs cmd.
func (c *Console) Begin(cmd *cobra.Command) {
	c.started, c.devicesGiven = true, cmd.Flags().Changed("devices")
}
