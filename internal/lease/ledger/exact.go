package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// exactly finds or grants the lease of a request with exact parts. Another scheduler has
// admitted the request, so it goes before all waiting requests and never waits itself.
// The same request again finds its lease, which then covers the control groups of both.
// The caller holds mu.
//
// The lease stays if the caller leaves before it has the answer. The caller chose its id
// and asks again, perhaps already: another request may have the same lease as its answer.
func (s *state) exactly(r *lease.Request, now time.Time) (Found, error) {
	r.GPUs, r.Wait = len(r.Exact), gpu.Some(time.Duration(0))
	if err := quota.CheckParts(r); err != nil {
		return Found{}, err
	}
	if held := s.book.Lease(r.Key()); held != nil {
		return s.findExactly(held, r, now)
	}
	return s.grantExactly(r, now)
}

// findExactly answers a request with the lease that has its id. It adds the control
// groups of the request to the lease, and renews a lease with a time to live. The
// caller holds mu.
func (s *state) findExactly(held *lease.Lease, r *lease.Request, now time.Time) (Found, error) {
	if err := quota.Repeats(held, r); err != nil {
		return Found{}, err
	}
	if err := s.lasting(held, now); err != nil {
		return Found{}, fmt.Errorf("ask for %s again: %w", r.ID, err)
	}
	var changes []lease.Change
	if slices.ContainsFunc(r.Scope, func(name string) bool { return !slices.Contains(held.Scope, name) }) {
		changes = append(changes, lease.Rescope{Key: held.Key(), Fence: held.Fence, Add: r.Scope, By: r.By})
	}
	if held.Binding == lease.ByTTL {
		changes = append(changes, lease.Renew{Key: held.Key(), Fence: held.Fence, TTL: r.TTL, By: r.By})
	}
	for _, change := range changes {
		e, err := s.apply(change, now)
		if err != nil {
			return Found{}, err
		}
		held = e.After
	}
	return Found{Lease: held, Stood: true}, nil
}

// grantExactly grants a request, all of its parts or none. The caller holds mu.
func (s *state) grantExactly(r *lease.Request, now time.Time) (Found, error) {
	if err := s.prepare(r, now); err != nil {
		return Found{}, err
	}
	if err := s.vacant(r); err != nil { // a request with its id waits
		return Found{}, err
	}
	admitted, err := s.settings.AdmitExactly(*r, s.book.ServiceUsage(r.Holder.Service))
	if err != nil {
		return Found{}, err
	}
	*r = admitted
	if err := s.overLimit(r, nil); err != nil {
		return Found{}, fmt.Errorf("ask for %s: %w", r.ID, err)
	}
	if err := placement.Exactly(r, s.target); err != nil {
		return Found{}, err
	}
	granted := r.ExactLease()
	_, err = s.apply(lease.Grant{Lease: granted, Admitted: true}, now)
	return Found{Lease: granted}, err
}

// target returns a device for placement.Exactly. The caller holds mu.
func (s *state) target(uuid string) (placement.Target, bool) {
	o := s.devices[uuid]
	if o == nil {
		return placement.Target{}, false
	}
	sum, _ := s.book.Sum(uuid)
	return placement.Target{Observation: &o.Observation, Sum: sum, Most: o.ever(sum)}, true
}
