// Package doctor finds out what is wrong with a machine, with its configuration
// and with its daemon, and mends a damaged journal.
//
// It reports findings as data; the command line prints them.
package doctor

import (
	"context"
	"fmt"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/file"
)

// Doctor examines one machine.
type Doctor struct {
	Root    string // folder with the files of the system; "/" except in tests
	Version string // version of the program that asks

	// Settings reads the configuration as a daemon would.
	Settings func() (*config.Settings, error)
	// Daemon returns a client of the daemon, without checking that it runs.
	Daemon func() (Daemon, error)
	// Probe opens the libraries of the vendors. It is nil if there are none to open.
	Probe func(context.Context) []Finding
}

// Daemon answers the questions of a doctor. A client implements it.
type Daemon interface {
	StatusAll(context.Context) (api.StatusAll, error)
	Leases(context.Context) (api.Leases, error)
	Ready(context.Context) (api.Ready, error)
	Orphans(context.Context) (api.Strays, error)
	Close()
}

// Examine examines everything: first what other things depend on.
func (d *Doctor) Examine(ctx context.Context) []Finding {
	found := append(d.system(), d.hardware()...)
	if d.Probe != nil {
		found = append(found, d.Probe(ctx)...)
	}
	settings, finding := d.configuration()
	found = append(found, finding)
	if settings != nil {
		found = append(found, shortToken(settings.Config.Daemon.Token)...)
	}
	running, daemon := d.daemon(ctx)
	found = append(found, daemon...)
	if settings != nil && !running { // a running daemon knows better, and may have its state elsewhere
		state := settings.Config.Daemon.StateDir
		found = append(found, stateDir(state), leases(state), auditLog(state))
		found = append(found, leftStopped(state)...)
		for _, name := range file.Asides(state) {
			found = append(found, damagedFile(name))
		}
	}
	return append(found, d.unit())
}

func (d *Doctor) configuration() (*config.Settings, Finding) {
	settings, err := d.Settings()
	if err != nil {
		return nil, Finding{"config", Broken, err.Error(), "mend it, and check it with: berth config check FILE"}
	}
	return settings, Finding{Topic: "config", Grade: Fine, Text: "valid"}
}

// shortToken finds a token of the configuration that somebody could guess.
func shortToken(secret string) []Finding {
	if secret == "" || len(secret) >= tokens.ShortestSecret {
		return nil
	}
	return []Finding{{"token", Notice, fmt.Sprintf("daemon.token has fewer than %d characters, so it could be guessed; the next release refuses it", tokens.ShortestSecret),
		"set a longer one, as openssl rand -base64 32 makes it, or use named tokens: berth token create"}}
}
