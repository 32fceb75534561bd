package placement

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// Pressure lists the leases and the waiting requests at one moment.
type Pressure struct {
	Holdings []Holding
	Wants    []Want  // in the order in which they are served
	Host     gpu.MiB // memory of the machine that more parked leases may take
}

// Holding is a lease that takes room on one device.
type Holding struct {
	Key      lease.Key
	Fence    uint64
	Service  string  // may be empty
	GPU      string  // UUID
	Memory   gpu.MiB // memory that parking it frees for others
	Slots    int     // slots that parking it frees for others
	Measured gpu.MiB // memory that its processes have on the device, which parking moves
	Priority int
	Parkable bool      // berth may park it by itself
	Since    time.Time // time of its grant, or of its last return

	// The book does not know these fields. Package park fills them in.
	Rules   Rules
	Program bool      // berth runs its program, which can leave without being parked: Parkable means that it may
	Idle    time.Time // since when it has not used its device; zero if it does, or if that is not known
	Leaves  bool      // it is being parked, or sent away
	Warned  time.Time // when its holder was told that it is about to be parked; zero if not yet
	Barred  time.Time // until when it must not be parked, because parking it failed; zero if never barred
}

// Rules say how long a lease keeps its device while others wait for it.
type Rules struct {
	IdleAfter time.Duration // it is idle after it has not used its device for this long
	Grace     time.Duration // from the warning to the parking
	Keep      time.Duration // it keeps its device at least this long, after its grant and after each return
	Slice     time.Duration // it keeps its device this long while others wait, even if it uses it
	Wait      time.Duration // others wait this long for it at most, if it is idle or has kept its device for Keep; zero means as long as the other rules say
}

// Want is a waiting request.
type Want struct {
	Key      lease.Key
	Into     uint64 // fence of the lease that wants to return or to grow; zero for a new lease
	Priority int
	Since    time.Time
	GPUs     int    // number of devices; zero means one
	Rooms    []Room // the devices that it could ever be granted on; empty if room would not help it
}

// Room says how much a request lacks on one device.
type Room struct {
	GPU          string // UUID
	Missing      gpu.MiB
	MissingSlots int
}

// HoldingOf returns the Holding of an active lease on a device.
func HoldingOf(uuid string, h lease.Holding, parkable bool) Holding {
	held := h.Lease
	p := Holding{
		Key: held.Key(), Fence: held.Fence, Service: held.Holder.Service, GPU: uuid, Memory: max(h.Part.Memory, h.Measured), Slots: h.Part.Slots, Measured: h.Measured,
		Priority: held.Priority, Parkable: parkable, Since: held.Granted,
	}
	if !held.Returned.IsZero() {
		p.Since = held.Returned
	}
	return p
}

// WantOf returns the Want of a waiting request. Memory is the amount that it takes on
// each device beyond what is taken already. The rooms are the devices that it could ever
// have, without those on which nothing is granted now.
func (s *Snapshot) WantOf(r *lease.Request, memory gpu.MiB) Want {
	w := Want{Key: r.Key(), Into: r.Into, Priority: r.Priority, Since: r.Requested, GPUs: r.Devices()}
	for i := range s.devices {
		u := &s.use[i]
		if u.Closed != "" || u.State.Multiplier() == 0 || !r.Load().Within(s.most(i)) || !s.allows(i, r) {
			continue
		}
		room := Room{GPU: s.devices[i].UUID, Missing: max(memory-s.room[i], 0), MissingSlots: max(r.Slots-max(int(s.free[i]), 0), 0)}
		if u.Alone || r.Exclusive && u.Leases > 0 { // every lease there has to go
			room.Missing, room.MissingSlots = max(u.Held, r.Load().Memory-s.room[i]), u.Active
		}
		w.Rooms = append(w.Rooms, room)
	}
	return w
}
