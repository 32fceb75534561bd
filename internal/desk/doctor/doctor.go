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
	"github.com/berth-gpu/berth/internal/file/journal"
)

// Doctor examines one machine.
type Doctor struct {
	Root    string // folder with the files of the system; "/" except in tests
	Version string // version of the program that asks

	UID  int    // of the user who asks
	User string // login name; empty if not known
	Home string // folder of the user

	Settings      *config.Settings // as a daemon would read them
	Misconfigured error            // why there are no Settings; nil if there are
	Daemon        Daemon           // a client of the daemon, which need not run; nil if there can be none
	Unreachable   error            // why Daemon is nil
	Probed        []Finding        // about the libraries of the vendors

	OfJobs func() func(journal.Entry) error // returns a function that complains about entries of jobs that make no sense
}

// Daemon answers the questions of a doctor. A client implements it.
type Daemon interface {
	StatusAll(context.Context) (api.StatusAll, error)
	Leases(context.Context) (api.Leases, error)
	Ready(context.Context) (api.Ready, error)
	Orphans(context.Context) (api.Strays, error)
	Services(context.Context) (api.Services, error)
}

// Examine examines everything: first what other things depend on.
func (d *Doctor) Examine(ctx context.Context) []Finding {
	found := append(d.system(), d.hardware()...)
	found = append(append(found, d.Probed...), d.configuration())
	if d.Misconfigured == nil {
		found = append(found, shortToken(d.Settings.Config.Daemon.Token)...)
	}
	running, daemon := d.daemon(ctx)
	found = append(found, daemon...)
	if d.Misconfigured == nil && !running { // a running daemon knows better, and may have its state elsewhere
		state := d.Settings.Config.Daemon.StateDir
		found = append(found, stateDir(state), leases(state))
		found = append(append(found, d.jobJournal(state)...), auditLog(state))
		found = append(found, d.frontAccount()...)
		found = append(found, leftStopped(state)...)
		for _, name := range file.Asides(state) {
			found = append(found, damagedFile(name))
		}
	}
	return append(append(append(append(found, d.unit()), d.rights()...), d.hugePages()...), d.jobs()...)
}

func (d *Doctor) configuration() Finding {
	if d.Misconfigured != nil {
		return Finding{"config", Broken, d.Misconfigured.Error(), "mend it, and check it with: berth config check FILE"}
	}
	return Finding{Topic: "config", Grade: Fine, Text: "valid"}
}

// shortToken finds a token of the configuration that somebody could guess.
func shortToken(secret string) []Finding {
	if secret == "" || len(secret) >= tokens.ShortestSecret {
		return nil
	}
	return []Finding{{"token", Notice, fmt.Sprintf("daemon.token has fewer than %d characters, so it could be guessed; the next release refuses it", tokens.ShortestSecret),
		"set a longer one, as openssl rand -base64 32 makes it, or use named tokens: berth token create"}}
}
