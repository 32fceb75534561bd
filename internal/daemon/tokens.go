package daemon

import ()

// trustToken puts the token of the configuration into force, and reports whether it has
// changed.
func (d *Daemon) trustToken(secret string) (changed bool) {
	changed, short := d.tokens.SetDaemon(secret)
	if short {
		d.log.Warn("daemon.token has fewer than 32 characters, so it could be guessed: the next release refuses it. Set one that openssl rand -base64 32 makes, or use named tokens: berth token create")
	}
	return changed
}
