package lease

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
)

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
	for e := range b.leases.all {
		p := e.lease.Holder.party()
		t := all[p]
		t.Leases++
		if e.lease.State != Parked {
			u := e.lease.Total()
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
