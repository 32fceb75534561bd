package park

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Rules say when berth parks a lease by itself.
type Rules struct {
	IdleAfter time.Duration // how long a lease must not use its device to count as idle
	Grace     time.Duration // from the warning to the parking
	Keep      time.Duration // how long a lease keeps its device at least, after its grant and after each return
	Slice     time.Duration // how long a lease keeps its device while others wait, also if it uses it
}

// Key identifies a lease or a waiting request: the user and the id.
type Key struct {
	UID  int
	User string // only if the UID is not known
	ID   string
}

// Pressure is who has what, and who waits for what, at one moment.
type Pressure struct {
	Holdings []Holding
	Wants    []Want  // in the order in which they are served
	Host     gpu.MiB // memory of the machine that more parked leases may take
}

// Holding is a lease that takes room on one device.
type Holding struct {
	Key      Key
	Fence    uint64
	GPU      string  // UUID
	Memory   gpu.MiB // what the device has free for others when it is parked
	Slots    int     // that others can have then
	Measured gpu.MiB // what its processes have on the device: that is moved
	Priority int
	Parkable bool      // berth may park it by itself
	Since    time.Time // of its grant, or of its last return

	// What the book does not know. The parking service and the keeper of idle
	// leases fill these in.
	Idle   time.Time // since when it does not use its device; zero: it does, or that is not known
	Leaves bool      // it is being parked
	Warned time.Time // when its holder was told that it is about to be parked; zero: not yet
	Barred time.Time // until when it must not be parked, because it could not be; zero: never barred
}

// Want is a request that waits.
type Want struct {
	Key      Key
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
