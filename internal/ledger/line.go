package ledger

import "github.com/berth-gpu/berth/internal/lease"

// line has the requests before a place in the queue, as far as they matter to the
// requests behind it. It forms from the front of the queue: join adds the request
// at hand, and goes on to the next one.
//
// The line leaves out whoever does not matter. The devices with room now are open
// in the beginning. A device closes as soon as everybody further back would delay
// somebody there, which mostly is after a few requests. When none is open that
// suits the requests of a lane, the line leaves that lane. So what a line costs
// depends on the number of lanes, and on how many requests it takes to close the
// devices, but not on the length of the queue.
type line struct {
	walk lease.Walk
	// least is the least that is asked of the line: it answers about no request
	// for less on a device.
	least lease.Load
	// open lists the devices on which somebody may still be granted something.
	open []*opening
	// most is the largest load that could ever be on an open device.
	most lease.Load
	// ahead is the number of requests that have joined and must not be delayed.
	ahead int
	// stuck has the first request that waits for a quota or a limit. It cannot use
	// free room, so others may; but no request of the same service, user or group
	// may use the quota or the limit that it waits for.
	stuck map[lease.Allowance]*lease.Request

	openings map[string]*opening // by device; kept from line to line
	formed   int                 // how many lines there were; see opening.line
	looked   int                 // how many requests have joined a line so far
}

// opening is the way of a line to a device that had room for the least that is
// asked when the line began.
type opening struct {
	uuid    string
	line    int // the line that it belongs to
	now     lease.Load
	most    lease.Load
	passing lease.Passing
	taken   bool // somebody has joined who could be on the device
}

// allows reports whether a load fits on the device now and delays nobody there.
func (o *opening) allows(l lease.Load) bool {
	return l.Within(o.now) && (!o.taken || o.passing.Allows(l))
}

// isOpen reports whether somebody who asks for at least this much may be granted
// something on the device.
func (o *opening) isOpen(least lease.Load) bool {
	if least != (lease.Load{}) {
		return o.allows(least)
	}
	return o.allows(lease.Load{Memory: 1}) || o.allows(lease.Load{Slots: 1})
}

// form begins a line at the front of the queue, for questions about requests that
// ask for at least this much on a device. The caller holds mu.
func (m *machine) form(least lease.Load) *line {
	n := &m.line
	if n.openings == nil {
		n.openings, n.stuck = map[string]*opening{}, map[lease.Allowance]*lease.Request{}
	}
	m.book.Walk(&n.walk)
	n.formed++
	n.ahead = 0
	clear(n.stuck)
	n.least, n.open = least, n.open[:0]
	for uuid, room := range m.snapshot.Rooms() {
		o := n.openings[uuid]
		if o == nil {
			o = &opening{uuid: uuid}
			n.openings[uuid] = o
		}
		o.now, o.most, o.taken = room.Now, room.Most, false
		if o.isOpen(least) {
			o.line = n.formed
			n.open = append(n.open, o)
		}
	}
	n.measure()
	return n
}

// measure computes most again after devices have closed.
func (n *line) measure() {
	n.most = lease.Load{Memory: -1, Slots: -1}
	for _, o := range n.open {
		n.most.Memory, n.most.Slots = max(n.most.Memory, o.most.Memory), max(n.most.Slots, o.most.Slots)
	}
}

// mayFit reports whether a request might get one of its devices behind the line.
func (n *line) mayFit(r *lease.Request) bool {
	for _, o := range n.open {
		if o.allows(r.Load()) {
			return true
		}
	}
	return false
}

// delayed returns a request of the line that a load would delay on a device; nil
// if it delays none.
func (n *line) delayed(uuid string, l lease.Load) *lease.Request {
	if o := n.openings[uuid]; o.line == n.formed && o.taken {
		return o.passing.Delayed(l)
	}
	return nil
}

// join puts the request at hand at the end of the line, and goes on to the next
// one that matters. The caller holds mu.
func (m *machine) join(n *line) {
	r := n.walk.Request()
	counts := m.count(n, r)
	switch {
	case m.mayStick(n, r) || m.maySplit(n, r):
		n.walk.Next(lease.AnyLoad)
	case !m.suits(n, r):
		n.walk.Leave()
	case !counts && !n.mayFit(r): // nor do others in its lane for as much
		n.walk.NextOther(n.most)
	default:
		n.walk.Next(n.most)
	}
}

// count makes a request one of those ahead. It reports false if that makes no
// difference, and no further request for as much will make any. The caller holds
// mu.
func (m *machine) count(n *line, r *lease.Request) bool {
	n.looked++
	if err := m.overQuota(r, n); err != nil {
		if lacks := r.Lacking(err); n.stuck[lacks] == nil {
			n.stuck[lacks] = r
		}
		return true
	}
	n.ahead++
	left, counts := n.open[:0], false
	for _, o := range n.open {
		if m.snapshot.Could(o.uuid, r) {
			if !o.taken {
				m.book.Passing(&o.passing, o.uuid)
				o.taken = true
			}
			counts = o.passing.Add(r) || counts
		}
		if o.isOpen(n.least) {
			left = append(left, o)
		}
	}
	if len(left) < len(n.open) {
		clear(n.open[len(left):])
		n.open = left
		n.measure()
	}
	return counts
}

// suits reports whether an open device suits the lane of a request.
func (m *machine) suits(n *line, r *lease.Request) bool {
	if n.isStuck(r) {
		return false
	}
	for _, o := range n.open {
		if m.snapshot.Allows(o.uuid, r) {
			return true
		}
	}
	return false
}

// isStuck reports whether all requests in the lane of r are stuck behind one that
// waits for the quota of their service, or for the limits of their user.
func (n *line) isStuck(r *lease.Request) bool {
	return len(n.stuck) > 0 && (n.stuck[lease.ServiceQuota(r.Holder.Service)] != nil || n.stuck[lease.UserLimit(r.Holder.Owner())] != nil)
}

// mayStick reports whether the quota of its service, or a limit of its user, may
// forbid to grant a request in the lane of r. If one does, all requests of the
// service, or of the user, further back are stuck behind that one.
func (m *machine) mayStick(n *line, r *lease.Request) bool {
	if n.isStuck(r) {
		return false
	}
	_, total := n.walk.Lane()
	if m.book.Within(m.limitsOf(r), r.Holder, total, 0) != nil {
		return true
	}
	service, known := m.settings.Services[r.Holder.Service]
	if !known {
		return false
	}
	used := m.book.ServiceUsage(r.Holder.Service)
	return service.Quota.Memory > 0 && used.Memory+total.Memory > service.Quota.Memory ||
		service.Quota.Slots > 0 && used.Slots+total.Slots > service.Quota.Slots
}

// maySplit reports whether a request in the lane of r may get its memory from its
// parent.
func (m *machine) maySplit(n *line, r *lease.Request) bool {
	if r.Parent == "" {
		return false
	}
	least, _ := n.walk.Lane()
	return least.Slots == 0 && m.book.CanSplit(parentOf(r), least.Memory)
}

// lineBefore returns the line before a request: the whole queue, if it does not
// wait. The line answers whether the request can be granted, and is valid until
// the next one forms or something changes. The caller holds mu.
func (m *machine) lineBefore(r *lease.Request) *line {
	n := m.form(r.Load())
	for len(n.open) > 0 && n.walk.Request() != nil && n.walk.IsBefore(r) {
		m.join(n)
	}
	return n
}

// adviceBefore returns the line before a request like lineBefore does. It also
// answers how much the request could have, and why not more. The caller holds mu.
func (m *machine) adviceBefore(r *lease.Request) *line {
	n := m.form(leastAdvice(r))
	m.advance(n, r)
	return n
}

// leastAdvice returns the least that advice about a request asks about.
func leastAdvice(r *lease.Request) lease.Load {
	return lease.Load{Memory: min(r.Memory, 1), Slots: r.Slots}
}

// advance lets everybody join who is before a request. The caller holds mu.
func (m *machine) advance(n *line, r *lease.Request) {
	for n.walk.Request() != nil && n.walk.IsBefore(r) {
		m.join(n)
	}
}
