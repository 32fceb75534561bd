package daemon

import (
	"path/filepath"

	"github.com/berth-gpu/berth/internal/tokens"
)

// openTokens opens the named tokens in the state folder.
func openTokens(o Options) (*tokens.Keeper, error) {
	if o.ReadOnly {
		return tokens.New(), nil
	}
	k, note, err := tokens.Open(filepath.Join(o.Settings.Config.Daemon.StateDir, tokensName))
	if note != "" {
		o.Log.Error(note)
	}
	return k, err
}

// trustToken takes over the token of the configuration, and reports whether it is
// another one than before.
func (d *Daemon) trustToken(secret string) (changed bool) {
	changed, short := d.tokens.SetDaemon(secret)
	if short {
		d.log.Warn("daemon.token has fewer than 32 characters, so it could be guessed: the next release refuses it. Set one that openssl rand -base64 32 makes, or use named tokens: berth token create")
	}
	return changed
}
