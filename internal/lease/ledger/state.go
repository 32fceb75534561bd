package ledger

import (
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// state has everything that the lock of the ledger guards: the book, the devices with
// their measurements, and the snapshot that placement decides on. Its methods decide and
// change the book, and neither lock nor wait: their callers hold the lock.
type state struct {
	boot  string
	cpus  int
	alive func(process.ID) bool

	settings Settings
	book     *lease.Book
	standing kin // the leases of the book
	snapshot *placement.Snapshot
	usual    placement.Requests
	gate     gate            // see behind
	ahead    placement.Ahead // see front
	devices  map[string]*observed
	dirty    bool // something changed that may let a waiting request in
	waiters  map[lease.Key]*waiter
	effects  []lease.Effect // of the batch at hand

	revoking map[lease.Key]revocation // by lease: why it is about to be revoked
	inUse    map[lease.Key]uint64     // by lease: the fence of an implied lease whose processes were measured
	past     kinship.Past             // the leases that have ended
}

// reflect updates the snapshot of placement after an effect, or with sign −1
// after its undo.
func (s *state) reflect(e *lease.Effect, sign int) {
	// Every effect changes room, shares or the queue, with few exceptions: a renewal
	// changes only a time, a due time limit changes nothing yet, and a new request can
	// let in only itself.
	s.dirty = s.dirty || e.Kind != lease.Renewed && e.Kind != lease.Asked && !e.Fleeting()
	subject := e.Lease()
	if subject == nil || e.Fleeting() {
		return
	}
	come := 0
	switch {
	case e.Before == nil:
		come = sign
	case e.After == nil:
		come = -sign
	}
	for _, p := range subject.Parts {
		s.snapshot.AddLeases(subject.Holder.Service, p.GPU, come)
		if o := s.devices[p.GPU]; o != nil && (s.concerns(o, subject) || e.ChangesKin() && s.concerns(o, e.Before)) {
			s.attribute(o)
		}
		s.refresh(p.GPU)
	}
}
