package daemon

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/ledger"
)

// charge adds to an event about a device whose leases it concerns: a fault of
// a program is put down to the lease that it runs under, and of a device that
// is not to be used any more all who hold a part are named, so that each of
// them can find out.
func (d *Daemon) charge(e gpu.Event) gpu.Event {
	switch e.Code {
	case gpu.EventDeviceFault:
		if e.Data["class"] == string(device.ClassApplication) {
			if e.Lease = d.culprit(e.GPU, e.Data["pid"]); e.Lease != "" {
				e.Text += "; it is put down to " + e.Lease
				if held, found := d.ledger.Find(e.Lease); found {
					e.User = held.Holder.User
				}
			}
		}
	case gpu.EventDeviceQuarantined, gpu.EventDeviceLost, gpu.EventCritical:
		var leases []string
		for _, h := range d.ledger.Holdings(e.GPU) {
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

// culprit is the lease of the process that the driver named. Often it names
// none: then it can only be said if there is one lease on the device, and
// nobody else.
func (d *Daemon) culprit(uuid string, pid any) string {
	processes := d.ledger.Processes(uuid)
	if pid, named := pid.(int); named {
		i := slices.IndexFunc(processes, func(p ledger.Process) bool { return p.Line[0].PID == pid })
		if i < 0 || processes[i].Lease == nil {
			return ""
		}
		return processes[i].Lease.ID
	}
	holdings := d.ledger.Holdings(uuid)
	foreign := slices.ContainsFunc(processes, func(p ledger.Process) bool { return p.Lease == nil })
	if len(holdings) != 1 || foreign {
		return ""
	}
	return holdings[0].Lease.ID
}
