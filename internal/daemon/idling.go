package daemon

import (
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// parkable reports whether berth may park a lease by itself.
func (d *Daemon) parkable(l *lease.Lease) bool {
	service := quota.Service{Parkable: d.settings.load().Config.Services[l.Holder.Service].MayPark()}
	return service.ParksItself(l)
}
