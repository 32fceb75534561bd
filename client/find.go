package client

import (
	"os"

	"github.com/berth-gpu/berth/internal/config"
)

// Find returns a client for the daemon that o names, or else the environment;
// env is [os.Getenv]. It looks in this order: o.Transport, o.Socket, o.URL;
// BERTH_SOCKET; BERTH_URL; the socket of the user's own daemon; the socket of
// the machine's daemon. BERTH_TOKEN is the token for a URL; it is not sent to a
// socket, where the daemon knows the caller without it. BERTH_TOKEN_FILE names a
// file with a token for both. BERTH_CA, BERTH_CERT and BERTH_KEY name the files
// for https.
func Find(o Options, env func(string) string) (*Client, error) {
	o, err := o.withEnv(env)
	if err != nil {
		return nil, err
	}
	if o.Transport != nil || o.Socket != "" || o.URL != "" {
		return New(o)
	}
	return overSockets(o, defaultSockets(os.Geteuid() == 0, env)), nil
}

func (o Options) withEnv(env func(string) string) (Options, error) {
	if o.CA == "" {
		o.CA = env("BERTH_CA")
	}
	if o.Cert == "" && o.Key == "" {
		o.Cert, o.Key = env("BERTH_CERT"), env("BERTH_KEY")
	}
	if o.Transport == nil && o.Socket == "" && o.URL == "" {
		if o.Socket = env("BERTH_SOCKET"); o.Socket == "" {
			o.URL = env("BERTH_URL")
		}
	}
	if path := env("BERTH_TOKEN_FILE"); o.Token == "" && o.TokenFile == "" && path != "" {
		token, err := ReadToken(path)
		if err != nil {
			return o, err
		}
		o.Token, o.TokenFile = token, path
	}
	if o.Token == "" && o.TokenFile == "" && o.URL != "" {
		o.Token = env("BERTH_TOKEN")
	}
	return o, nil
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
