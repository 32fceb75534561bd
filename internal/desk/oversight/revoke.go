package oversight

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process"
)

// Revoker adapts the ledger to the watchdog.
type Revoker struct {
	*ledger.Ledger
	Line func(process.ID) []process.ID // returns a process and its ancestors
}

var _ watchdog.Leases = Revoker{}

// Revoke ends a lease. It is no error if the lease has ended already.
func (r Revoker) Revoke(ctx context.Context, k lease.Key, fence uint64, why string, spared []string) error {
	err := r.Ledger.Revoke(ctx, k, fence, why, spared)
	if errors.Is(err, lease.ErrUnknown) || errors.Is(err, lease.ErrStaleFence) {
		return nil
	}
	return err
}

// Members lists the members of a lease, and the processes that its scope must not reach.
func (r Revoker) Members(k lease.Key, fence uint64) (members, barred []process.ID) {
	return r.Scoped(k, fence)
}

// Users lists the members of a lease that were last seen on a device under it, and the
// members that descend from them. The other members have not taken its memory: what
// started a program, and in a scope what runs beside it.
func (r Revoker) Users(k lease.Key, fence uint64) (users, barred []process.ID) {
	using := map[process.ID]bool{}
	for _, p := range r.Belonging()[fence] {
		using[p.Line[0]] = true
	}
	idle := func(id process.ID) bool {
		return !slices.ContainsFunc(r.Line(id), func(line process.ID) bool { return using[line] })
	}
	members, barred := r.Scoped(k, fence)
	return slices.DeleteFunc(members, idle), slices.DeleteFunc(barred, idle)
}
