package daemon

import (
	"time"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// parkable reports whether berth may park a lease by itself.
func (d *Daemon) parkable(l *lease.Lease) bool {
	service := quota.Service{Parkable: saidTrue(d.settings.load().Config.Services[l.Holder.Service].Parkable)}
	return service.ParksItself(l)
}

// idleSince returns since when a lease has not used its devices. It returns false if the
// lease does use them, or if that is not known.
func (d *Daemon) idleSince(fence uint64) (since time.Time, idle bool) {
	f, idle := d.idle.Of(fence)
	return f.Since, idle
}
