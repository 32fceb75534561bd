package daemon

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// openIdle opens the watch that tracks since when leases have not used their devices.
func (d *Daemon) openIdle() {
	d.idle = idle.New(idle.Options{
		Busy:    d.busy,
		After:   func() time.Duration { return d.settings.load().Config.Optimization.ParkIdleAfter },
		Publish: func(e gpu.Event) { d.publish(e) },
	})
}

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
