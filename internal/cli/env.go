package cli

import (
	"context"
	"io"
	"time"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/doctor"
)

// Env is the world as a command sees it.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Environ  func() []string  // all of it, for processes that are started
	CPUs     int              // of the machine
	Now      func() time.Time // times are shown in its location
	Version  string

	// Terminal is the width of the terminal that Out is, and false where Out
	// is none.
	Terminal func() (width int, ok bool)

	// ErrTerminal is the same for Err; nil where Err is never a terminal.
	ErrTerminal func() (width int, ok bool)

	// Serve runs the daemon until ctx ends.
	Serve func(ctx context.Context, o ServeOptions) error

	// Local opens devices in this process and returns a client that sees them
	// as it would see a daemon's, and a function that lets go of them. Empty
	// devices are what the configuration says.
	Local func(ctx context.Context, devices string) (*client.Client, func(), error)

	// Settings reads the configuration as Serve would, from the file (empty:
	// the default place), the environment, and what was saved at run time.
	Settings func(file string) (*config.Settings, error)

	// Become makes this process a program; it returns only if it cannot.
	Become func(file string, command, environ []string) error

	// Probe looks at drivers and their libraries, for doctor.
	Probe func(ctx context.Context) []doctor.Finding
}

// ServeOptions holds the command-line options of the daemon.
type ServeOptions struct {
	// Config is the configuration file; empty means the default place.
	Config string
	// Flags holds the flags that were given, by the field they set, as in
	// daemon.listen. A flag that was given empty is there too.
	Flags map[string]string
	// JSON asks for a log that programs can read.
	JSON bool
}
