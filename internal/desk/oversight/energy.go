package oversight

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// Bill adds to an event about the end of a lease how much energy the lease used.
func (o *Oversight) Bill(n lease.Notice) lease.Notice {
	switch n.Code {
	case gpu.EventReleased, gpu.EventExpired, gpu.EventRevoked:
		if used, known := o.Energy.Close(n.Fence, n.Time).Get(); known {
			rest := n.Rest
			n.Rest = func(e *gpu.Event) {
				if rest != nil {
					rest(e)
				}
				e.Data["energy_joules"] = float64(used)
			}
		}
	}
	return n
}

// consumers returns the processes that the energy of a device belongs to: those on the
// device and on its instances. If the driver lists no processes, the leases on the device
// stand for them.
func (o *Oversight) consumers(on gpu.Device, processes []ledger.Process, listed bool) []energy.Process {
	var all []energy.Process
	seen := map[int]bool{}
	add := func(uuid string, processes []ledger.Process) {
		for _, p := range processes {
			if pid := p.Line[0].PID; !seen[pid] {
				seen[pid] = true
				all = append(all, o.behind(uuid, p)...)
			}
		}
	}
	for _, instance := range on.Instances {
		add(instance, o.Leases.Processes(instance))
	}
	add(on.UUID, processes)
	if !listed && len(on.Instances) == 0 {
		for _, h := range o.Leases.Holdings(on.UUID) {
			all = append(all, energy.Process{Lease: h.Lease})
		}
	}
	return all
}

// behind returns a process, or the leases that it works for: an MPS daemon works for the
// leases that it enforces.
func (o *Oversight) behind(uuid string, p ledger.Process) []energy.Process {
	pid := p.Line[0].PID
	if p.Lease != nil || !o.MPS.Serves(p.Line) {
		return []energy.Process{{PID: pid, Lease: p.Lease}}
	}
	var clients []energy.Process
	for _, h := range o.Leases.Holdings(uuid) {
		if h.Lease.EnforcedBy == launch.MPS {
			clients = append(clients, energy.Process{PID: pid, Lease: h.Lease})
		}
	}
	return clients
}
