// Package archive remembers the leases that have ended: who had how much, how
// long, how much of it was used, and how it ended.
//
// It keeps the newest ones in one small file, which it replaces as a whole a few
// seconds after a lease has ended. The daemon that comes after one that was killed reads
// what these seconds lack in the journal, but for the memory and the energy that was used.
package archive

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease"
)

const (
	most        = 2000            // leases of all users
	mostPerUser = 500             // leases of one user
	writeAfter  = 5 * time.Second // from the end of a lease to the disk
)

// Past is a lease that has ended.
type Past struct {
	ID      string        `json:"id"`
	Fence   uint64        `json:"fence"`
	User    string        `json:"user,omitempty"`
	UID     int           `json:"uid"`
	Service string        `json:"service,omitempty"`
	Name    string        `json:"name,omitempty"`
	Pool    string        `json:"from_pool,omitempty"` // the id of the pool that its memory was from; empty if it was from none
	Binding lease.Binding `json:"binding"`
	Granted time.Time     `json:"granted"`
	Ended   time.Time     `json:"ended"`
	How     lease.Kind    `json:"how"` // release, expire or revoke
	Why     string        `json:"why,omitempty"`
	By      string        `json:"by,omitempty"` // the user who ended it; empty if the daemon did
	Parts   []Part        `json:"parts"`
	Peak    gpu.MiB       `json:"peak_mb,omitempty"` // the most memory measured on one device; 0 if none was

	Energy gpu.Opt[gpu.Joules] `json:"energy_joules,omitzero"` // above what the devices draw by themselves; absent if not measured
}

// Part holds what a lease had on one device.
type Part struct {
	GPU    string  `json:"gpu"`
	Memory gpu.MiB `json:"memory_mb,omitempty"`
	Slots  int     `json:"slots,omitempty"`
}

// Archive remembers leases. Use New or Open to make one.
type Archive struct {
	file *file.State[document]

	mu     sync.Mutex // guards what follows
	byUser map[string][]Past
	count  int
	ends   map[uint64]time.Time // of the leases in the file, by fence; nil after Recall
	missed []Past               // those that the journal has ended since, until Recall
}

// Ended remembers the lease that an effect has ended, the most memory that its
// processes were measured to use on one device, and the energy that they used.
func (a *Archive) Ended(e *lease.Effect, peak gpu.MiB, used gpu.Opt[gpu.Joules]) {
	past := pastOf(e)
	past.Peak, past.Energy = peak, used
	a.mu.Lock()
	defer a.mu.Unlock()
	a.add(past)
	a.file.Change(writeAfter)
}

func pastOf(e *lease.Effect) Past {
	l := e.Before
	past := Past{
		ID: l.ID, Fence: l.Fence, User: l.Holder.User, UID: l.Holder.UID, Service: l.Holder.Service, Name: l.Holder.Name,
		Binding: l.Binding, Granted: l.Granted, Ended: e.Time, How: e.Kind, Why: e.Why, By: e.By.User,
		Parts: make([]Part, len(l.Parts)),
	}
	if l.From != 0 {
		past.Pool = l.Parent
	}
	for i, p := range l.Parts {
		past.Parts[i] = Part{GPU: p.GPU, Memory: p.Memory, Slots: p.Slots}
	}
	return past
}

// Replay takes in what the journal says of the time before the daemon started, in its
// order. Leases end in the order of the journal, so the file has all that ended before one
// that it has.
func (a *Archive) Replay(e *lease.Effect) {
	if !e.Ends() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, known := a.ends[e.Before.Fence]; known && at.Equal(e.Time) {
		a.missed = nil
		return
	}
	a.missed = append(a.missed, pastOf(e))
}

// Recall remembers what Replay has found, once the journal is read.
func (a *Archive) Recall() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, past := range a.missed {
		a.add(past)
		a.file.Change(writeAfter)
	}
	a.ends, a.missed = nil, nil
}

// add makes room for a lease and remembers it. The caller holds mu.
func (a *Archive) add(past Past) {
	switch own := len(a.byUser[past.User]); {
	case own >= mostPerUser:
		a.forgetOldest(past.User)
	case a.count >= most:
		a.forgetOldest(a.greediest(past.User))
	}
	a.byUser[past.User] = append(a.byUser[past.User], past)
	a.count++
}

// forgetOldest forgets the oldest lease of a user. The caller holds mu.
func (a *Archive) forgetOldest(user string) {
	own := a.byUser[user]
	own[0] = Past{}
	a.byUser[user] = own[1:]
	a.count--
	if len(own) == 1 {
		delete(a.byUser, user)
	}
}

// greediest returns the user with the most leases, so that nobody can make berth
// forget the leases of others. The caller holds mu.
func (a *Archive) greediest(user string) string {
	greedy := user
	for other, own := range a.byUser {
		if n := len(a.byUser[greedy]); len(own) > n || len(own) == n && other < greedy {
			greedy = other
		}
	}
	return greedy
}

// All returns every lease that is remembered, the newest end first.
func (a *Archive) All() []Past {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]Past, 0, a.count)
	for _, own := range a.byUser {
		all = append(all, own...)
	}
	slices.SortFunc(all, func(x, y Past) int {
		return cmp.Or(y.Ended.Compare(x.Ended), cmp.Compare(y.Fence, x.Fence), cmp.Compare(x.User, y.User), cmp.Compare(x.ID, y.ID))
	})
	return all
}

// Run writes the archive to its file until ctx ends, and then what is new once more.
func (a *Archive) Run(ctx context.Context) error { return a.file.Run(ctx, a.write, nil) }
