package console

import (
	"context"
	"io"
	"time"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/config"
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

	// Local opens devices in this process and returns a client that sees them
	// as it would see a daemon's, and a function that lets go of them. Empty
	// devices are what the configuration says.
	Local func(ctx context.Context, devices string) (*client.Client, func(), error)

	// Settings reads the configuration as the daemon would, from the file (empty:
	// the default place), the environment, and what was saved at run time.
	Settings func(file string) (*config.Settings, error)
}
