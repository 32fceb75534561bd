package ledger

import (
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// poolOf returns the pool that a request is for a child of, or nil if there is none. The
// caller holds mu.
func (s *state) poolOf(r *lease.Request) *lease.Lease {
	if parent, err := s.book.Parent(r); err == nil && parent != nil && parent.Pool {
		return parent
	}
	return nil
}

// besidePool completes a request for a child of a pool: it has no slots, and unless it
// says otherwise it is for the service of the pool. The caller holds mu.
func (s *state) besidePool(r *lease.Request, pool *lease.Lease) error {
	if r.Slots != 0 {
		return lease.FieldErrors{{Field: "slots", Detail: fmt.Sprintf("is %d; a lease from the pool %s has memory alone", r.Slots, pool.ID)}}
	}
	if r.Holder.Service == "" {
		r.Holder.Service = pool.Holder.Service
	}
	return nil
}

// draw grants a child of a pool with memory of the pool, or refuses it. Such a request
// waits for nobody, and nobody waits for it: it takes nothing that others could have. The
// caller holds mu.
func (s *state) draw(r *lease.Request, pool *lease.Lease, now time.Time) (*lease.Lease, error) {
	if err := s.mayDraw(r, pool); err != nil {
		return nil, err
	}
	granted := drawnLease(r, pool)
	if _, err := s.apply(lease.Grant{Lease: granted}, now); err != nil {
		return nil, err
	}
	return granted, nil
}

func drawnLease(r *lease.Request, pool *lease.Lease) *lease.Lease {
	l := r.Lease(pool.Devices()...)
	l.From = pool.Fence
	return l
}

// mayDraw returns why a child cannot have memory of its pool, or nil if it can. The caller
// holds mu.
func (s *state) mayDraw(r *lease.Request, pool *lease.Lease) error {
	uuid := pool.Parts[0].GPU
	switch o := s.devices[uuid]; {
	case o == nil:
		return fmt.Errorf("ask for %s: %w: %s", r.ID, lease.ErrDevice, uuid)
	case s.sum(uuid).Closed != "":
		return &ClosedError{ID: r.ID, Device: o.Device.Label(), Why: s.sum(uuid).Closed}
	}
	if err := s.overLimit(r, nil); err != nil {
		return fmt.Errorf("ask for %s: %w", r.ID, err)
	}
	if service, known := s.settings.Services[r.Holder.Service]; known && r.Holder.Service != pool.Holder.Service {
		if err := quota.WithinQuota(service.Service, r, s.book.ServiceUsage(r.Holder.Service)); err != nil {
			return err
		}
	}
	if use, _ := s.book.Pool(pool.Key()); r.Memory > use.Left() {
		return &lease.PoolError{ID: r.ID, Pool: pool.ID, Needs: r.Memory, PoolUse: use}
	}
	return nil
}

// explainDraw makes an explanation one of a child of a pool, which needs no room on the
// device and waits for nobody. The caller holds mu.
func (s *state) explainDraw(e *placement.Explanation, r *lease.Request, pool *lease.Lease) {
	use, _ := s.book.Pool(pool.Key())
	e.Refusal, e.Ahead, e.LargestNow, e.LargestEver = nil, nil, use.Left(), use.Size
	if e.Quota = s.mayDraw(r, pool); e.Quota == nil {
		e.Grant = drawnLease(r, pool)
		e.Grant.State = lease.Active
	}
}

// ClosedError refuses a child on a device on which nothing is granted now.
type ClosedError struct{ ID, Device, Why string }

func (e *ClosedError) Error() string {
	return fmt.Sprintf("ask for %s: nothing is granted on %s now: %s", e.ID, e.Device, e.Why)
}
