package lease

import (
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// device is one GPU with its sum and its leases.
type device struct {
	Sum
	endless endless
	known   bool   // SetCapacity was called for it
	spots   []spot // every lease that has a part here, first those that a sample is about
	noted   int    // number of those
}

// spot is one part of a lease, seen from the device.
type spot struct {
	entry *entry
	part  int
}

// entry is a lease in the book.
type entry struct {
	node[entry]
	lease   *Lease
	places  []place // one for each part
	single  [1]place
	user    *Count
	service *Count
	groups  []*Count
	pool    *pool // of a lease that is a pool; else nil
	from    *pool // that its memory is from; nil if it is from none
	alarm   alarm
	before  *entry // the neighbors in the list of the leases of its process; nil at its ends
	after   *entry
	want    *waiter   // the waiting request for this lease, if any
	warned  bool      // a Warn has noted that its time limit is about to end it
	overrun time.Time // when an Overrun last noted that its time limit is over; zero if none has
}

// place locates a part of a lease on its device.
type place struct {
	device   *device
	at       int     // index in device.spots
	measured gpu.MiB // for the processes of the lease
}

// insert puts a lease into the book. The caller has verified the lease.
func (b *Book) insert(l *Lease, measured []gpu.MiB) {
	e := &entry{lease: l}
	e.places = e.single[:0]
	if len(l.Parts) > 1 {
		e.places = make([]place, 0, len(l.Parts))
	}
	for i, p := range l.Parts {
		d := b.device(p.GPU)
		e.places = append(e.places, place{device: d, at: len(d.spots)})
		if measured != nil {
			e.places[i].measured = sane(measured[i])
		}
		d.spots = append(d.spots, spot{e, i})
		e.note(i)
	}
	e.user, e.service = accountOf(b.users, l.Holder.Owner()), accountOf(b.services, l.Holder.Service)
	for _, group := range l.Groups {
		e.groups = append(e.groups, accountOf(b.groups, group))
	}
	e.enter(b)
	for i := range e.places {
		e.count(i, 1)
	}
	e.charge(1)
	e.own(1)
	b.leases.put(e, l.Key())
	b.grants.put(e)
	b.hold(e)
	b.adopt(e)
	e.alarm.key = &e.key
	b.setAlarm(e)
	b.queue.Moved()
}

// remove takes a lease out of the book.
func (b *Book) remove(e *entry) {
	for i := range e.places {
		e.count(i, -1)
		d, last := e.places[i].device, len(e.places[i].device.spots)-1
		if e.places[i].at < d.noted {
			d.noted--
			d.swap(e.places[i].at, d.noted)
		}
		d.swap(e.places[i].at, last)
		d.spots[last] = spot{}
		d.spots = d.spots[:last]
	}
	e.charge(-1)
	b.orphan(e)
	e.own(-1)
	e.leave(b)
	b.dropAccounts(e.lease.Holder, e.lease.Groups...)
	b.leases.remove(e)
	b.grants.remove(e)
	b.letGo(e)
	b.alarms.remove(&e.alarm)
	b.queue.Moved()
}

// turn replaces a lease by a new state of it, which a replay would take too.
func (b *Book) turn(e *entry, l *Lease) error {
	if err := l.validate(); err != nil {
		return err
	}
	b.replace(e, l)
	return nil
}

// replace replaces a lease by a new state of it that is on the same devices. Its key may
// change: see Claim.
func (b *Book) replace(e *entry, l *Lease) {
	if k := l.Key(); k != e.key {
		b.leases.remove(e)
		b.leases.put(e, k)
	}
	b.letGo(e)
	if l.State != e.lease.State || l.Endless() != e.lease.Endless() || l.stays() != e.lease.stays() || !slices.Equal(l.Parts, e.lease.Parts) {
		for i := range e.places {
			e.count(i, -1)
		}
		e.charge(-1)
		e.take(-1)
		e.lease = l
		e.take(1)
		for i := range e.places {
			e.count(i, 1)
		}
		e.charge(1)
		b.queue.Moved()
	}
	e.lease = l
	b.hold(e)
	for i := range e.places {
		e.note(i)
	}
	b.setAlarm(e)
}

// note puts a part of a lease among those that a sample of the device is about: its
// processes were measured there, or berth may park it.
func (e *entry) note(part int) {
	d, at := e.places[part].device, e.places[part].at
	switch about := e.places[part].measured > 0 || e.lease.Parkable; {
	case about && at >= d.noted:
		d.swap(at, d.noted)
		d.noted++
	case !about && at < d.noted:
		d.noted--
		d.swap(at, d.noted)
	}
}

// swap swaps two spots.
func (d *device) swap(i, j int) {
	d.spots[i], d.spots[j] = d.spots[j], d.spots[i]
	for _, at := range [...]int{i, j} {
		s := d.spots[at]
		s.entry.places[s.part].at = at
	}
}

// setAlarm makes the alarm of a lease ring when something is due for it.
func (b *Book) setAlarm(e *entry) {
	at, what := e.due()
	switch {
	case what == nothing:
		b.alarms.remove(&e.alarm)
	case !e.alarm.isSet():
		e.alarm.at = at
		b.alarms.add(&e.alarm)
	case !at.Equal(e.alarm.at):
		b.alarms.move(&e.alarm, at)
	}
}

// count adds a part to the sum of its device, or with sign −1 subtracts it.
func (e *entry) count(part int, sign gpu.MiB) {
	d, p := e.places[part].device, &e.lease.Parts[part]
	leased, overuse, slots := e.counted(part, p)
	d.Leased += sign * leased
	d.Overuse += sign * overuse
	d.Active += int(sign) * slots
	if e.lease.State == Parked {
		return
	}
	d.Leases += int(sign)
	if e.lease.Exclusive {
		d.Alone += int(sign)
	}
	if e.lease.Endless() {
		d.endless.add(e.lease, Load{Memory: leased + overuse, Slots: slots}, int(sign))
	}
}

// counted returns what a part of a lease takes of its device. A parked lease takes
// only what is still measured, which is little.
func (e *entry) counted(part int, p *Part) (leased, overuse gpu.MiB, slots int) {
	measured := e.places[part].measured
	if e.lease.State == Parked {
		return 0, measured, 0
	}
	memory := e.holds(part)
	return memory, max(measured-memory, 0), p.Slots
}
