package park

import "github.com/berth-gpu/berth/gpu"

// HostMemory says how much memory of the machine parked leases may take.
type HostMemory struct {
	Total     gpu.MiB
	Available gpu.MiB          // without swapping
	Most      gpu.Opt[gpu.MiB] // that parked leases may take together; half of Total if absent
	Taken     gpu.MiB          // by leases that are parked or being parked
	Coming    gpu.MiB          // the part of Taken that may not be in use yet
	Group     gpu.Opt[gpu.MiB] // what the control groups of the processes let them take; absent if there is no limit
}

// Limit returns how much memory parked leases may take together.
func (h HostMemory) Limit() gpu.MiB { return h.Most.Or(h.Total / 2) }

// Spare returns how much memory the machine keeps free for everything else.
func (h HostMemory) Spare() gpu.MiB { return max(2048, h.Total/20) }

// Room returns how much one more lease may take.
func (h HostMemory) Room() gpu.MiB {
	room := min(h.Limit()-h.Taken, h.Available-h.Coming-h.Spare())
	if group, limited := h.Group.Get(); limited {
		room = min(room, group)
	}
	return max(room, 0)
}

// Refuse returns why a lease with this much memory must not be parked, or "" if it may.
func (h HostMemory) Refuse(memory gpu.MiB) string {
	group, limited := h.Group.Get()
	switch {
	case memory <= h.Room():
		return ""
	case h.Limit() == 0:
		return "park_host_mb is 0, so nothing is parked; raise optimization.park_host_mb"
	case memory > h.Limit()-h.Taken:
		return "it has " + memory.String() + " on its device, and parked leases may take " + max(h.Limit()-h.Taken, 0).String() +
			" more of the machine's memory; raise park_host_mb, or resume others first"
	case limited && memory > group:
		return "it has " + memory.String() + " on its device, and the limit of its control group leaves " + group.String() + "; raise memory.max of the group"
	}
	return "it has " + memory.String() + " on its device, and the machine has " + max(h.Available-h.Coming-h.Spare(), 0).String() + " to spare in memory"
}
