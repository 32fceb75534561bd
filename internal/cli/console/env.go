package console

import (
	"context"
	"io"
	"time"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/config"
)

// Env is the environment of a command.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Environ  func() []string  // all variables, for processes that the command starts
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
