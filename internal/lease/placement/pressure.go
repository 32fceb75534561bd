package placement

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/park"
	"github.com/berth-gpu/berth/internal/lease"
)

// HoldingOf returns an active lease on a device as package park sees it.
func HoldingOf(uuid string, h lease.Holding, parkable bool) park.Holding {
	held := h.Lease
	p := park.Holding{
		Key: parkKey(held.Key()), Fence: held.Fence, GPU: uuid, Memory: max(h.Part.Memory, h.Measured), Slots: h.Part.Slots, Measured: h.Measured,
		Priority: held.Priority, Parkable: parkable, Since: held.Granted,
	}
	if !held.Returned.IsZero() {
		p.Since = held.Returned
	}
	return p
}

// WantOf returns a waiting request as package park sees it. Memory is what it takes
// of each device beyond what is taken already. The rooms are the devices that it
// could ever have, without those on which nothing is granted now.
func (s *Snapshot) WantOf(r *lease.Request, memory gpu.MiB) park.Want {
	w := park.Want{
		Key: parkKey(r.Key()), Into: r.Into, Priority: r.Priority, Since: r.Requested, Memory: memory, Slots: r.Slots, GPUs: r.Devices(),
	}
	for i := range s.devices {
		if s.free[i] >= 0 && r.Load().Within(s.most(i)) && s.allows(i, r) {
			w.Rooms = append(w.Rooms, park.Room{
				GPU: s.devices[i].UUID, Missing: max(memory-s.room[i], 0), MissingSlots: max(r.Slots-int(s.free[i]), 0),
			})
		}
	}
	return w
}

func parkKey(k lease.Key) park.Key { return park.Key{UID: k.UID, User: k.User, ID: k.ID} }
