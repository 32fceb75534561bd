package lease

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
)

// Usage is memory and slots over all devices.
type Usage struct {
	Memory gpu.MiB
	Slots  int
}

// Count holds what a user, a service or a group has. Parked leases use nothing. The book
// drops a count without leases and waiting requests.
type Count struct {
	Usage
	Leases, Waiting int
	GPUs            int // devices of its leases, each for each lease; without children whose parents stand
}

func accountOf[K comparable](accounts map[K]*Count, of K) *Count {
	a := accounts[of]
	if a == nil {
		a = &Count{}
		accounts[of] = a
	}
	return a
}

func (b *Book) dropAccounts(h Holder, groups ...string) {
	if a := b.users[h.Owner()]; a.Leases == 0 && a.Waiting == 0 {
		delete(b.users, h.Owner())
	}
	if a := b.services[h.Service]; a.Leases == 0 && a.Waiting == 0 {
		delete(b.services, h.Service)
	}
	for _, group := range groups {
		if a := b.groups[group]; a != nil && a.Leases == 0 {
			delete(b.groups, group)
		}
	}
}

// own counts a lease for its user, service and groups, or with n = −1 subtracts it.
func (e *entry) own(n int) {
	e.user.Leases += n
	e.user.GPUs += n * len(e.lease.Parts)
	e.service.Leases += n
	for _, a := range e.groups {
		a.Leases += n
	}
}

// charge adds a lease to what its user, its service and its groups use, or with sign −1
// subtracts it.
func (e *entry) charge(sign int) {
	if e.lease.State == Parked {
		return
	}
	u := e.uses()
	e.user.charge(sign, u)
	e.service.charge(sign, u)
	for _, a := range e.groups {
		a.charge(sign, u)
	}
}

func (a *Count) charge(sign int, u Usage) {
	a.Memory += gpu.MiB(sign) * u.Memory
	a.Slots += sign * u.Slots
}

// ServiceUsage returns what a service has in use.
func (b *Book) ServiceUsage(service string) Usage { return countOf(b.services[service]).Usage }

// share returns the dominant share of a usage: the larger of its share of all
// memory and its share of all slots of the machine. A user who takes all slots
// with little memory fills the machine as much as one who takes all memory with
// few slots.
func (b *Book) share(u Usage) float64 {
	return max(ratio(float64(u.Memory), float64(b.ceiling)), ratio(float64(u.Slots), float64(b.maxPipelines)))
}

// LeaseShare returns the dominant share of a lease, from 0 to 1; 0 if it is parked, or has
// ended.
func (b *Book) LeaseShare(k Key, fence uint64) float64 {
	e := b.leases.get(k)
	if e == nil || e.lease.Fence != fence || e.lease.State == Parked {
		return 0
	}
	return b.share(e.uses())
}

// SetShares says by which share of the machine some requests have their places in the
// queue, because they are made for others than their holders: a service waits for whoever
// asks for it. A request without one has its place by what its holder has in use. The
// shares hold for requests that wait and for those that come, and stand in for the ones
// that were set before; the caller must not change the map afterwards. It reports whether
// a request has another place.
func (b *Book) SetShares(shares map[Key]float64) (moved bool) {
	before := b.shares
	b.shares = shares
	again := func(k Key) {
		w := b.waiting.get(k)
		if w == nil {
			return
		}
		if was, _, _ := b.queue.Lane(w.request); was != b.lane(w.request) {
			b.queue.Remove(w.request)
			b.queue.Add(b.lane(w.request), w.request.inQueue())
			moved = true
		}
	}
	for k := range before {
		again(k)
	}
	for k := range shares {
		again(k)
	}
	return moved
}

func ratio(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// Party is a user who holds leases, or waits for one, in the name of a service.
type Party struct {
	Service string // may be empty
	User    string
}

// Tally holds what a party has and waits for.
type Tally struct {
	Usage            // of its leases; parked ones use nothing
	Measured gpu.MiB // what the processes of its leases were measured to use
	Leases   int
	Waiting  int
}

// Tallies returns what every party holds and waits for.
func (b *Book) Tallies() map[Party]Tally {
	all := make(map[Party]Tally)
	for e := range b.grants.all {
		p := e.lease.Holder.party()
		t := all[p]
		t.Leases++
		if e.lease.State != Parked {
			u := e.uses()
			t.Memory += u.Memory
			t.Slots += u.Slots
		}
		for i := range e.places {
			t.Measured += e.places[i].measured
		}
		all[p] = t
	}
	for w := range b.waiting.all {
		p := w.request.Holder.party()
		t := all[p]
		t.Waiting++
		all[p] = t
	}
	return all
}

// DevicesOf lists the UUIDs of the devices that a service has leases on, in no
// order.
func (b *Book) DevicesOf(service string) []string {
	var list []string
	if b.services[service] == nil {
		return nil
	}
	for uuid, d := range b.devices {
		if slices.ContainsFunc(d.spots, func(s spot) bool { return s.entry.lease.Holder.Service == service }) {
			list = append(list, uuid)
		}
	}
	return list
}

func (h *Holder) party() Party { return Party{Service: h.Service, User: h.User} }
