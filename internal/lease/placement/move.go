package placement

import (
	"cmp"
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// Site is a device as Moves sees it.
type Site struct {
	Device gpu.Device
	Room   lease.Load // load that can be leased now; its memory is negative when the device is over-used
	Most   lease.Load // load that could be leased if nobody held anything
	Open   bool       // berth grants leases on it
}

// Movable is a lease that could be on another device.
type Movable struct {
	Lease *lease.Lease
	GPU   string     // where it is
	Load  lease.Load // load that it takes there, and needs elsewhere
}

// Move moves one lease to another device, so that a request fits.
type Move struct {
	Lease    *lease.Lease
	From, To string
	Memory   gpu.MiB
	For      *lease.Request
}

// Unmoved is a request that no move helps.
type Unmoved struct {
	Request *lease.Request
	Why     string // text that follows the id of the request
}

// These bounds let Moves answer within milliseconds, even on a machine with many leases.
const (
	movedAtOnce = 3  // leases that leave one device for one request
	movedFrom   = 24 // leases of one device that Moves considers, the smallest
	movedFor    = 64 // requests that Moves considers, the first
)

// Moves proposes which leases to move so that waiting requests fit now. It takes the
// requests in their order, and counts its proposals for one request as done for those
// behind it. For each request it moves the least memory that it finds. A lease moves only
// to a device of the same vendor and model, because nobody knows what else its program
// runs on.
func Moves(sites []Site, movable []Movable, waiting []*lease.Request) (moves []Move, left []Unmoved) {
	y := yard{sites: slices.Clone(sites), movable: slices.Clone(movable)}
	slices.SortFunc(y.sites, func(a, b Site) int {
		return cmp.Or(cmp.Compare(a.Device.Index, b.Device.Index), cmp.Compare(a.Device.UUID, b.Device.UUID))
	})
	slices.SortStableFunc(y.movable, func(a, b Movable) int {
		return cmp.Or(cmp.Compare(a.Load.Memory, b.Load.Memory), cmp.Compare(a.Lease.Fence, b.Lease.Fence))
	})
	for _, r := range waiting[:min(len(waiting), movedFor)] {
		after, found, why := y.makeRoom(r)
		if why != "" {
			left = append(left, Unmoved{r, why})
			continue
		}
		y = after
		moves = append(moves, found...)
	}
	return moves, left
}

// yard has the devices and the leases on them, after the moves proposed so far.
type yard struct {
	sites   []Site
	movable []Movable // the smallest first
}

// makeRoom finds the moves that let a request in, and returns the yard after them. If
// there are none, why says the reason.
func (y yard) makeRoom(r *lease.Request) (after yard, moves []Move, why string) {
	after = yard{slices.Clone(y.sites), slices.Clone(y.movable)}
	var full []int // positions of the devices that lack room for it now
	suited, missing := 0, r.Devices()
	for i := range after.sites {
		s := &after.sites[i]
		switch {
		case !s.suits(r):
			continue
		case missing > 0 && s.need(r).Within(s.Room):
			s.take(s.need(r), 1)
			missing--
		default:
			full = append(full, i)
		}
		suited++
	}
	switch {
	case missing == 0:
		return y, nil, "does not wait for room"
	case suited < r.Devices():
		return y, nil, "fits on no device that berth grants leases on"
	}
	for ; missing > 0; missing-- {
		best := clearance{position: -1}
		for _, i := range full {
			if c, found := after.clear(i, r); found && (best.position < 0 || c.memory < best.memory) {
				best = c
			}
		}
		if best.position < 0 {
			return y, nil, "does not fit, whichever lease moves"
		}
		moves = append(moves, after.carryOut(best, r)...)
		full = slices.DeleteFunc(full, func(i int) bool { return i == best.position })
	}
	return after, moves, ""
}

// suits reports whether a request could ever be granted on a device.
func (s *Site) suits(r *lease.Request) bool {
	model := s.Device.Model()
	return s.Open && r.Load().Within(s.Most) && (len(r.Only) == 0 || slices.Contains(r.Only, s.Device.UUID)) &&
		r.Where.Allows(s.Device.UUID, s.Device.Index) && r.Where.Unmet(&model) == ""
}

// need returns what a request takes of a device: all of it, if it wants the device alone.
func (s *Site) need(r *lease.Request) lease.Load {
	if r.Exclusive {
		return s.Most
	}
	return r.Load()
}

// take takes a load from the room of a device, or with sign −1 gives it back.
func (s *Site) take(l lease.Load, sign int) {
	s.Room.Memory -= l.Memory * gpu.MiB(sign)
	s.Room.Slots -= l.Slots * sign
}

// clearance is a way to make room on one device.
type clearance struct {
	position int   // of the device
	leave    []int // which of the movable leases leave
	to       []int // the positions of the devices that they go to
	memory   gpu.MiB
}

// clear finds the leases that must leave a device so that a request fits there: those
// with the least memory together and, among equals, the fewest.
func (y *yard) clear(at int, r *lease.Request) (best clearance, found bool) {
	var here []int
	for i, m := range y.movable {
		own := r.Into != 0 && r.Into == m.Lease.Fence // it wants more where it is
		if m.GPU == y.sites[at].Device.UUID && !own && len(here) < movedFrom {
			here = append(here, i)
		}
	}
	var try func(from int, leave []int, freed lease.Load)
	try = func(from int, leave []int, freed lease.Load) {
		room := y.sites[at].Room
		if y.sites[at].need(r).Within(lease.Load{Memory: room.Memory + freed.Memory, Slots: room.Slots + freed.Slots}) {
			if found && freed.Memory >= best.memory {
				return
			}
			if to, fits := y.settle(at, leave); fits {
				best, found = clearance{at, slices.Clone(leave), to, freed.Memory}, true
			}
			return // more leases would only cost more
		}
		if len(leave) == movedAtOnce {
			return
		}
		for n := from; n < len(here); n++ {
			l := y.movable[here[n]].Load
			try(n+1, append(leave, here[n]), lease.Load{Memory: freed.Memory + l.Memory, Slots: freed.Slots + l.Slots})
		}
	}
	try(0, nil, lease.Load{})
	return best, found
}

// settle finds a device for each lease that leaves one: the largest lease first,
// each on the device where it leaves the least room.
func (y *yard) settle(from int, leave []int) (to []int, fits bool) {
	room := map[int]lease.Load{}
	to = make([]int, len(leave))
	for n := len(leave) - 1; n >= 0; n-- { // movable leases are in ascending order
		m, best := y.movable[leave[n]], -1
		for i := range y.sites {
			s := &y.sites[i]
			if i == from || !s.Open || s.Device.Vendor != y.sites[from].Device.Vendor || s.Device.Name != y.sites[from].Device.Name {
				continue
			}
			if _, known := room[i]; !known {
				room[i] = s.Room
			}
			if m.Load.Within(room[i]) && (best < 0 || room[i].Memory < room[best].Memory) {
				best = i
			}
		}
		if best < 0 {
			return nil, false
		}
		room[best] = lease.Load{Memory: room[best].Memory - m.Load.Memory, Slots: room[best].Slots - m.Load.Slots}
		to[n] = best
	}
	return to, true
}

// carryOut carries out a clearance in the yard: it moves the leases and gives the request
// its room.
func (y *yard) carryOut(c clearance, r *lease.Request) (moves []Move) {
	for n, i := range c.leave {
		m := &y.movable[i]
		y.sites[c.position].take(m.Load, -1)
		y.sites[c.to[n]].take(m.Load, 1)
		moves = append(moves, Move{Lease: m.Lease, From: m.GPU, To: y.sites[c.to[n]].Device.UUID, Memory: m.Load.Memory, For: r})
		m.GPU = "" // it moves once
	}
	y.sites[c.position].take(y.sites[c.position].need(r), 1)
	return moves
}
