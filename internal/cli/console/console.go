// Package console has the parts that the commands of berth share: their environment,
// the connection to the daemon, printing and watching of answers, failures and their
// exit codes, and the common flags, values and completions.
//
// It knows no command.
package console

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/spf13/pflag"
)

// Console is the environment of one command line, and the flags that every command
// takes. Each command embeds it in its options.
type Console struct {
	Env
	Socket, URL string // of the daemon; empty for the usual place
	JSON        bool   // write JSON

	started      bool   // a command has begun; see isUsage
	devicesGiven bool   // by --devices
	outage       uint32 // not 0: the daemon went away, and the user knows
}

// Begin records that the framework has accepted the command line, and runs cmd.
func (c *Console) Begin(cmd *cobra.Command) {
	c.started, c.devicesGiven = true, cmd.Flags().Changed("devices")
	for _, text := range amounts(cmd) {
		if memory, err := gpu.ParseMiB(text); err == nil && decimal.MatchString(text) {
			fmt.Fprintf(c.Err, "berth: %s is taken as %s: write %s, because units of memory are powers of 1024 here\n", text, memory, strings.ReplaceAll(memory.Exact(), " ", ""))
		}
	}
}

// decimal finds amounts of memory in units that are powers of 1000 elsewhere.
var decimal = regexp.MustCompile(`(?i)[0-9]\s*[kmgt]b$`)

// amounts returns the amounts of memory on a command line, as they were written.
func amounts(cmd *cobra.Command) (texts []string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if strings.Contains(f.Name, "memory") {
			texts = append(texts, f.Value.String())
		}
	})
	if at := slices.Index(strings.Fields(cmd.Use), "MEMORY") - 1; at >= 0 && at < cmd.Flags().NArg() {
		texts = append(texts, cmd.Flags().Arg(at))
	}
	return texts
}

// Env is the environment of a command.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Environ  []string         // all variables, for processes that the command starts
	CPUs     int              // number of CPUs of the machine
	Now      func() time.Time // times are shown in its location
	Version  string

	// Terminal returns the width of the terminal that is Out. It returns false if Out
	// is not a terminal.
	Terminal func() (width int, ok bool)

	// ErrTerminal is the same for Err. It is nil if Err is never a terminal.
	ErrTerminal func() (width int, ok bool)

	// Local opens devices in this process. It returns a client that sees them like
	// those of a daemon, and a function that releases them. Empty devices stand for the
	// configured ones.
	Local func(ctx context.Context, devices string) (*client.Client, func(), error)

	// Settings reads the configuration as the daemon would: from the file (the default
	// one if empty), the environment, and the settings saved at run time.
	Settings func(file string) (*config.Settings, error)
}
