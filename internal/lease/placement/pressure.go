package placement

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// Pressure is who has what, and who waits for what, at one moment.
type Pressure struct {
	Holdings []Holding
	Wants    []Want  // in the order in which they are served
	Host     gpu.MiB // memory of the machine that more parked leases may take
}

// Holding is a lease that takes room on one device.
type Holding struct {
	Key      lease.Key
	Fence    uint64
	GPU      string  // UUID
	Memory   gpu.MiB // what the device has free for others when it is parked
	Slots    int     // that others can have then
	Measured gpu.MiB // what its processes have on the device: that is moved
	Priority int
	Parkable bool      // berth may park it by itself
	Since    time.Time // of its grant, or of its last return

	// What the book does not know. Package park fills these in.
	Idle   time.Time // since when it does not use its device; zero: it does, or that is not known
	Leaves bool      // it is being parked
	Warned time.Time // when its holder was told that it is about to be parked; zero: not yet
	Barred time.Time // until when it must not be parked, because it could not be; zero: never barred
}

// Want is a request that waits.
type Want struct {
	Key      lease.Key
	Into     uint64 // fence of the lease that wants to return or to grow; zero: it wants a new lease
	Priority int
	Since    time.Time
	Memory   gpu.MiB // on each device
	Slots    int     // on each device
	GPUs     int     // how many devices; zero: one
	Rooms    []Room  // the devices that it could ever be granted on; none: room would not help it
}

// Room is what a request lacks on one device.
type Room struct {
	GPU          string // UUID
	Missing      gpu.MiB
	MissingSlots int
}

// HoldingOf returns an active lease on a device for those who decide whose turn it
// is.
func HoldingOf(uuid string, h lease.Holding, parkable bool) Holding {
	held := h.Lease
	p := Holding{
		Key: held.Key(), Fence: held.Fence, GPU: uuid, Memory: max(h.Part.Memory, h.Measured), Slots: h.Part.Slots, Measured: h.Measured,
		Priority: held.Priority, Parkable: parkable, Since: held.Granted,
	}
	if !held.Returned.IsZero() {
		p.Since = held.Returned
	}
	return p
}

// WantOf returns a waiting request for those who decide whose turn it is. Memory
// is what it takes of each device beyond what is taken already. The rooms are the
// devices that it could ever have, without those on which nothing is granted now.
func (s *Snapshot) WantOf(r *lease.Request, memory gpu.MiB) Want {
	w := Want{
		Key: r.Key(), Into: r.Into, Priority: r.Priority, Since: r.Requested, Memory: memory, Slots: r.Slots, GPUs: r.Devices(),
	}
	for i := range s.devices {
		if s.free[i] >= 0 && r.Load().Within(s.most(i)) && s.allows(i, r) {
			w.Rooms = append(w.Rooms, Room{
				GPU: s.devices[i].UUID, Missing: max(memory-s.room[i], 0), MissingSlots: max(r.Slots-int(s.free[i]), 0),
			})
		}
	}
	return w
}
