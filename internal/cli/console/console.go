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
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/spf13/pflag"
)

// Console is the environment of one command line, and the flags that every command
// takes. Each command embeds it in its options.
type Console struct {
	Env
	Socket, URL string // of the daemon; empty for the usual place
	JSON        bool   // write JSON

	DaemonUID gpu.Opt[int] // who must listen on the socket; see client.Options.PeerUID

	started      bool   // a command has begun; see isUsage
	devicesGiven bool   // by --devices
	endures      bool   // see Endure
	outage       uint32 // not 0: the daemon went away, and the user knows
}

// Begin records that the framework has accepted the command line, and runs cmd.
func (c *Console) Begin(cmd *cobra.Command) {
	c.started, c.devicesGiven = true, cmd.Flags().Changed("devices")
	for _, text := range slices.Compact(amounts(cmd)) {
		parts := decimal().FindStringSubmatch(text)
		if memory, err := gpu.ParseMiB(text); err == nil && parts != nil {
			fmt.Fprintf(c.Err, "berth: %s is taken as %s: write %s%siB, because units of memory are powers of 1024 here\n", text, memory, parts[1], strings.ToUpper(parts[2]))
		}
	}
}

// decimal finds amounts of memory in units that are powers of 1000 elsewhere.
var decimal = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^\s*(.*[0-9])\s*([kmgt])b\s*$`) })

// written is the value of a flag that takes memory, with the text that it was given.
type written struct {
	pflag.Value
	text string
}

// Set parses the text.
func (w *written) Set(text string) error {
	w.text = text
	return w.Value.Set(text)
}

// keepAmounts has the flags of a command keep the amounts of memory that they are given as
// they were written, for [Console.Begin].
func keepAmounts(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "memory" {
			f.Value = &written{Value: f.Value}
		}
	})
}

// amounts returns the amounts of memory on a command line, as they were written: the
// values of flags, the argument MEMORY, what a device must have at least, and settings.
func amounts(cmd *cobra.Command) (texts []string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch w, kept := f.Value.(*written); {
		case kept:
			texts = append(texts, w.text)
		case strings.Contains(f.Name, "memory"):
			texts = append(texts, f.Value.String())
		case f.Name == "where":
			for term := range strings.SplitSeq(f.Value.String(), ",") {
				if field, least, _ := strings.Cut(term, ">="); strings.TrimSpace(field) == "memory" {
					texts = append(texts, strings.TrimSpace(least))
				}
			}
		}
	})
	if strings.Contains(cmd.Use, "FIELD=VALUE") {
		for _, arg := range cmd.Flags().Args() {
			if field, value, _ := strings.Cut(arg, "="); strings.Contains(field, "memory") {
				texts = append(texts, value)
			}
		}
	}
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

	// Checker returns what finds out whether a daemon would start with settings. It is
	// asked before anything is read, because the process may become another program.
	Checker func() (Checker, error)
}

// Checker returns everything for which a daemon would refuse to start with settings. It
// calls warn with what is unsafe but no reason to refuse.
type Checker func(s *config.Settings, warn func(string)) error

// OwnEnviron returns variables without those of the job and the lease that this command
// runs under, which are not those of a new job.
func OwnEnviron(environ []string) []string {
	return slices.DeleteFunc(launch.Outside(environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"BERTH_JOB", "BERTH_TASK", "BERTH_MINDER"}, name) || strings.HasPrefix(name, "BERTH_PARAM_")
	})
}
