package oversight

import (
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// idlers returns the leases on a device that berth may park, with their processes
// there.
func (o *Oversight) idlers(holdings []lease.Holding, processes []ledger.Process) []idle.Holding {
	var list []idle.Holding
	services := o.Config().Services
	for _, h := range holdings {
		service := quota.Service{Parkable: services[h.Lease.Holder.Service].MayPark()}
		if !service.ParksItself(h.Lease) {
			continue
		}
		one := idle.Holding{Holding: h, Alone: true}
		for _, p := range processes {
			if p.Lease != nil && p.Lease.Fence == h.Lease.Fence {
				one.PIDs = append(one.PIDs, p.Line[0].PID)
			} else {
				one.Alone = false
			}
		}
		list = append(list, one)
	}
	return list
}
