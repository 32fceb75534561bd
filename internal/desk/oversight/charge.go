package oversight

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

// Charge adds to an event about a device the leases that it concerns. It attributes the
// fault of a program to the lease that the program runs under. To an event about a device
// that must not be used any more, it adds the ids and fences of all leases there, so that
// each holder can find out.
func (o *Oversight) Charge(e gpu.Event) gpu.Event {
	switch {
	case e.Is(gpu.EventDeviceFault):
		if e.Data["class"] == string(gpu.FaultProgram) {
			if culprit := o.culprit(e.GPU, e.Data["pid"]); culprit != nil {
				e.Lease, e.User = culprit.ID, culprit.Holder.User
				e.Text += "; it is put down to " + e.Lease
				e.Data["fence"] = culprit.Fence
			}
		}
	case e.Is(gpu.EventDeviceQuarantined, gpu.EventDeviceLost, gpu.EventCritical):
		var leases []string
		var fences []uint64
		for _, h := range o.holdingsOn(e.GPU) {
			leases, fences = append(leases, h.Lease.ID), append(fences, h.Lease.Fence)
		}
		if len(leases) > 0 {
			if e.Data == nil {
				e.Data = map[string]any{}
			}
			e.Data["leases"], e.Data["fences"] = leases, fences
		}
	}
	return e
}

// culprit returns the lease of the process that the driver named. The driver often names
// none: then culprit returns the only lease on the device if nobody else runs there, and
// nil otherwise.
func (o *Oversight) culprit(uuid string, pid any) *lease.Lease {
	var processes []ledger.Process
	for _, part := range o.parts(uuid) {
		processes = append(processes, o.Leases.Processes(part)...)
	}
	if pid, named := pid.(int); named {
		i := slices.IndexFunc(processes, func(p ledger.Process) bool { return p.Line[0].PID == pid })
		if i < 0 {
			return nil
		}
		return processes[i].Lease
	}
	holdings := o.holdingsOn(uuid)
	foreign := slices.ContainsFunc(processes, func(p ledger.Process) bool { return p.Lease == nil })
	if len(holdings) != 1 || foreign {
		return nil
	}
	return holdings[0].Lease
}

// parts returns a device and its instances, which share the fate of the device.
func (o *Oversight) parts(uuid string) []string {
	return append([]string{uuid}, o.Leases.Sum(uuid).Device.Instances...)
}

// holdingsOn returns the leases on a device and on its instances.
func (o *Oversight) holdingsOn(uuid string) (all []lease.Holding) {
	for _, part := range o.parts(uuid) {
		all = append(all, o.Leases.Holdings(part)...)
	}
	return all
}
