package oversight

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/ledger"
)

// Charge adds to an event about a device the leases that it concerns. It blames
// a fault of a program on the lease that the program runs under. To an event
// about a device that must not be used any more, it adds the ids of all leases
// there, so that each holder can find out.
func (o *Oversight) Charge(e gpu.Event) gpu.Event {
	switch e.Code {
	case gpu.EventDeviceFault:
		if e.Data["class"] == string(gpu.FaultProgram) {
			if e.Lease = o.culprit(e.GPU, e.Data["pid"]); e.Lease != "" {
				e.Text += "; it is put down to " + e.Lease
				if held, found := o.Book.Find(e.Lease); found {
					e.User = held.Holder.User
				}
			}
		}
	case gpu.EventDeviceQuarantined, gpu.EventDeviceLost, gpu.EventCritical:
		var leases []string
		for _, h := range o.Book.Holdings(e.GPU) {
			leases = append(leases, h.Lease.ID)
		}
		if len(leases) > 0 {
			if e.Data == nil {
				e.Data = map[string]any{}
			}
			e.Data["leases"] = leases
		}
	}
	return e
}

// culprit returns the id of the lease of the process that the driver named. The
// driver often names none: then culprit returns the only lease on the device, if
// nobody else runs there, and nothing otherwise.
func (o *Oversight) culprit(uuid string, pid any) string {
	processes := o.Book.Processes(uuid)
	if pid, named := pid.(int); named {
		i := slices.IndexFunc(processes, func(p ledger.Process) bool { return p.Line[0].PID == pid })
		if i < 0 || processes[i].Lease == nil {
			return ""
		}
		return processes[i].Lease.ID
	}
	holdings := o.Book.Holdings(uuid)
	foreign := slices.ContainsFunc(processes, func(p ledger.Process) bool { return p.Lease == nil })
	if len(holdings) != 1 || foreign {
		return ""
	}
	return holdings[0].Lease.ID
}
