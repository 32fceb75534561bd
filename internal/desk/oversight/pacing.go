package oversight

import (
	"context"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process"
)

// Pacing answers the pacer from the ledger.
type Pacing struct{ Ledger *ledger.Ledger }

var _ pace.Leases = Pacing{}

// Lease returns a lease, or nil if it has ended.
func (p Pacing) Lease(k lease.Key, fence uint64) *lease.Lease {
	held, found := p.Ledger.Find(k)
	if !found || held.Fence != fence {
		return nil
	}
	return held.Lease
}

// Members returns the living processes of a lease and of its children: a share that holds
// for a launcher also holds for the programs that it starts.
func (p Pacing) Members(k lease.Key, fence uint64) []process.ID {
	members := p.Ledger.Members(k, fence)
	for _, held := range p.Ledger.View().Leases {
		if held.Parent == k.ID && held.Key().Owner == k.Owner {
			members = append(members, p.Ledger.Members(held.Key(), held.Fence)...)
		}
	}
	return members
}

// Renew extends a lease by the time to live that it was granted with.
func (p Pacing) Renew(ctx context.Context, k lease.Key, fence uint64) error {
	_, err := p.Ledger.Renew(ctx, k.Name(), fence, 0, access.Daemon(), nil)
	return err
}
