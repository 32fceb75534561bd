package client

import (
	"os"

	"github.com/berth-gpu/berth/internal/config"
)

// Find returns a client for the daemon that o names, or else the environment;
// env is [os.Getenv]. It looks in this order: o.Transport, o.Socket, o.URL;
// BERTH_SOCKET; BERTH_URL; the socket of the user's own daemon; the socket of
// the machine's daemon. BERTH_TOKEN is the token for a URL without one.
func Find(o Options, env func(string) string) (*Client, error) {
	o = o.withEnv(env)
	if o.Transport != nil || o.Socket != "" || o.URL != "" {
		return New(o)
	}
	return overSockets(o, defaultSockets(os.Geteuid() == 0, env)), nil
}

func (o Options) withEnv(env func(string) string) Options {
	if o.Token == "" {
		o.Token = env("BERTH_TOKEN")
	}
	if o.Transport == nil && o.Socket == "" && o.URL == "" {
		if o.Socket = env("BERTH_SOCKET"); o.Socket == "" {
			o.URL = env("BERTH_URL")
		}
	}
	return o
}

// defaultSockets returns where daemons listen by default. For a user without a
// home directory, that is only the socket of the machine's daemon.
func defaultSockets(root bool, env func(string) string) []string {
	_, own := config.DefaultPaths(root, env)
	_, machine := config.DefaultPaths(true, env)
	if own == "" || own == machine {
		return []string{machine}
	}
	return []string{own, machine}
}
