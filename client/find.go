package client

import (
	"os"

	"github.com/berth-gpu/berth/internal/config"
)

// Find makes a client for the daemon that o names or else the environment does;
// env is [os.Getenv]. In this order: o.Transport, o.Socket, o.URL; BERTH_SOCKET;
// BERTH_URL; the socket of the user's own daemon, and when nobody listens there,
// that of the machine's. BERTH_TOKEN is the token for a URL that comes without
// one.
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

// defaultSockets is where daemons listen that were not told otherwise. A user
// without so much as a home has only the machine's.
func defaultSockets(root bool, env func(string) string) []string {
	_, own := config.DefaultPaths(root, env)
	_, machine := config.DefaultPaths(true, env)
	if own == "" || own == machine {
		return []string{machine}
	}
	return []string{own, machine}
}
