package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// besideParent puts a child on the devices of its parent. It refuses a child that
// wants others. The caller holds mu.
func (s *state) besideParent(r *lease.Request, now time.Time) error {
	parent, err := s.book.Parent(r)
	if r.FromPool && (err != nil || parent == nil || !parent.Pool) {
		return fmt.Errorf("take memory from %s: %w", r.Parent, lease.ErrNoPool)
	}
	if err != nil || parent == nil {
		return err
	}
	refuse := func(field, format string, args ...any) error {
		return lease.FieldErrors{{Field: field, Detail: fmt.Sprintf(format, args...) + "; a child is on the devices of its parent"}}
	}
	if err := s.lasting(parent, now); err != nil {
		return fmt.Errorf("ask for %s as a child of %s: %w: %w", r.ID, r.Parent, lease.ErrParent, err)
	}
	devices := parent.Devices()
	switch only := r.Where.GPU; {
	case r.GPUs > 1 && r.GPUs != len(devices):
		return refuse("gpus", "is %d, and %s has %d", r.GPUs, parent.ID, len(devices))
	case only != "" && !slices.Contains(devices, only):
		return refuse("gpu", "is %s, and %s has nothing there", only, parent.ID)
	case r.Where != gpu.Where{GPU: only}:
		return refuse("where", "is set")
	}
	r.Only, r.GPUs, r.ParentFence = devices, len(devices), parent.Fence
	if parent.Pool {
		return s.besidePool(r, parent)
	}
	return nil
}

// splits reports whether a request is for a child that gets its memory from its parent.
// The child takes nothing from other leases, so it needs no room and waits for nobody.
// The caller holds mu.
func (s *state) splits(r *lease.Request) bool {
	_, ends := s.revoking[r.ParentFence]
	return r.Parent != "" && r.Slots == 0 && !ends && s.book.CanSplit(s.parentOf(r), r.Memory) &&
		!slices.ContainsFunc(r.Only, func(uuid string) bool { return s.devices[uuid] == nil || s.sum(uuid).Closed != "" })
}

// parentOf returns the key of the parent of a child; the zero key if that has ended. The
// caller holds mu.
func (s *state) parentOf(r *lease.Request) lease.Key {
	parent, err := s.book.Parent(r)
	if err != nil || parent == nil {
		return lease.Key{}
	}
	return parent.Key()
}

// split grants a child with memory of its parent. The caller holds mu.
func (s *state) split(r *lease.Request, now time.Time) (*lease.Lease, error) {
	from := len(s.effects)
	if r.Memory > 0 {
		if _, err := s.apply(lease.Split{Key: s.parentOf(r), Memory: r.Memory, By: r.By}, now); err != nil {
			return nil, err
		}
	}
	granted := r.Lease(r.Only...)
	if _, err := s.apply(lease.Grant{Lease: granted, Split: true}, now); err != nil {
		s.undo(from) // waiting requests go on without this error
		return nil, err
	}
	return granted, nil
}

// parentEnded returns the withdrawal of a waiting request whose parent has ended, or nil
// if the parent has not. The caller holds mu.
func (s *state) parentEnded(r *lease.Request) lease.Change {
	if _, err := s.book.Parent(r); err == nil {
		return nil
	}
	return lease.Withdraw{Key: r.Key(), By: access.Daemon(), Why: "its parent " + r.Parent + " has ended"}
}
