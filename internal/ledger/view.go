package ledger

import (
	"slices"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/journal"
	"github.com/berth-gpu/berth/internal/lease"
)

// Held is a lease with what its processes were measured to use, part by part;
// absent where they were not seen yet.
type Held struct {
	*lease.Lease
	Measured []gpu.Opt[gpu.MiB]
	// KeptBy is the pid of one of the processes that keep the lease since its
	// own has ended; 0: its own has not ended. The API calls it heir_pid.
	KeptBy int
}

// View is who holds what and who waits, at one moment.
type View struct {
	Leases  []Held           // oldest grant first
	Waiting []*lease.Request // in the order in which they will be served
}

// View looks at the whole book.
func (l *Ledger) View() View {
	l.mu.Lock() // not for reading only: the queue is put in order by looking
	defer l.mu.Unlock()
	var v View
	for _, each := range l.book.Leases() {
		v.Leases = append(v.Leases, l.held(each))
	}
	v.Waiting = append(v.Waiting, l.book.Waiting()...)
	return v
}

// Find looks a lease up; false if there is none.
func (l *Ledger) Find(id string) (Held, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	found := l.book.Lease(id)
	if found == nil {
		return Held{}, false
	}
	return l.held(found), true
}

// FindWaiting looks a request up that waits, and its place in the queue, from 1;
// false if there is none.
func (l *Ledger) FindWaiting(id string) (r *lease.Request, position int, waits bool) {
	l.mu.Lock() // not for reading only: the queue is put in order by looking
	defer l.mu.Unlock()
	r = l.book.Request(id)
	return r, slices.Index(l.book.Waiting(), r) + 1, r != nil
}

func (l *Ledger) held(each *lease.Lease) Held {
	h := Held{Lease: each, Measured: make([]gpu.Opt[gpu.MiB], len(each.Parts)), KeptBy: l.holders.keptBy(each)}
	for i, p := range each.Parts {
		if o := l.devices[p.GPU]; o != nil {
			if m, seen := o.owned[each.ID]; seen {
				h.Measured[i] = gpu.Some(m)
			}
		}
	}
	return h
}

// DeviceSum is the sum of a device with its state.
type DeviceSum struct {
	lease.Sum
	Device gpu.Device
	State  gpu.State
	Health gpu.Health
	Closed string  // why nothing is granted; empty: it is
	Most   gpu.MiB // that could be leased if nobody held anything: the ceiling, without what the driver takes
}

// Sums is what is left of every device, and how that comes about, by UUID.
func (l *Ledger) Sums() map[string]DeviceSum {
	l.mu.RLock()
	defer l.mu.RUnlock()
	sums := make(map[string]DeviceSum, len(l.devices))
	for uuid := range l.devices {
		sums[uuid] = l.sum(uuid)
	}
	return sums
}

// Sum is what is left of one device; the zero value if it is not known.
func (l *Ledger) Sum(uuid string) DeviceSum {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.devices[uuid] == nil {
		return DeviceSum{}
	}
	return l.sum(uuid)
}

func (m *machine) sum(uuid string) DeviceSum {
	o := m.devices[uuid]
	sum, _ := m.book.Sum(uuid)
	closed := o.closed()
	if closed == "" && o.State.Multiplier() == 0 {
		closed = o.Reason
	}
	return DeviceSum{Sum: sum, Device: o.Device, State: o.State, Health: o.Health, Closed: closed, Most: o.most(sum)}
}

// Len is the number of leases, and of requests that wait.
func (l *Ledger) Len() (leases, waiting int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.Len()
}

// Journal is the numbers of the journal.
func (l *Ledger) Journal() journal.Stats { return l.journal.Stats() }

// Holdings lists who holds what of a device, and what was measured for them.
func (l *Ledger) Holdings(uuid string) []lease.Holding {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.book.Holdings(uuid)
}
