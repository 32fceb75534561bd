package oversight

import (
	"context"
	"errors"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/ledger"
	"github.com/berth-gpu/berth/internal/watchdog"
)

// Revoker is the ledger in the form that the watchdog needs.
type Revoker struct{ *ledger.Ledger }

var _ watchdog.Book = Revoker{}

// Revoke ends a lease. A lease that has ended already is no error.
func (r Revoker) Revoke(ctx context.Context, k lease.Key, fence uint64, why string) error {
	err := r.Ledger.Revoke(ctx, k, fence, why)
	if errors.Is(err, lease.ErrUnknown) || errors.Is(err, lease.ErrStaleFence) {
		return nil
	}
	return err
}
