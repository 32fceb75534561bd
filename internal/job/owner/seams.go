// Package owner owns the programs of services.
//
// It brings a service when somebody asks for it, sends it away when it is idle or others
// need its room, and starts it again when it fails.
//
// Whoever changes a service decides alone, by the table of package service and by the state
// that is written down, never by one that was read earlier. What takes time goes on beside
// that; package run starts the programs, and says what becomes of them.
package owner

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/lease"
)

// Leases is the owner's way to leases, which goes through the desk. Leases of services
// belong to the user of the service.
type Leases interface {
	run.Leases
	// Never returns why a service could not be granted its lease even if all others went,
	// or nil if it could.
	Never(a run.Ask) error
	// Park moves the memory of a lease off its devices. It returns when it has left, at
	// once if it is not there. If it fails, nothing has changed.
	Park(ctx context.Context, k lease.Key, fence uint64, why string) error
	// Resume brings it back, at once if it is there, and returns for how long it moved.
	// It waits for room until ctx ends; then the lease stays parked.
	Resume(ctx context.Context, k lease.Key, fence uint64, why string) (moved time.Duration, err error)
	// Shrink leases the least memory that a sleeping server keeps, so that others can have
	// the rest, and Grow waits until there is room for all of it again, or ctx ends. Both
	// may be asked again, and then change nothing.
	Shrink(ctx context.Context, k lease.Key, fence uint64, to gpu.MiB) error
	Grow(ctx context.Context, k lease.Key, fence uint64, to gpu.MiB, since time.Time) error
	// Measured returns what the processes of a lease have on its devices, measured now.
	Measured(ctx context.Context, k lease.Key, fence uint64) (gpu.MiB, error)
	// Parkable returns why a lease cannot be parked, or nil if it can.
	Parkable(k lease.Key, fence uint64) error
	// Learned returns how much memory the service used in earlier runs.
	Learned(name string) (gpu.MiB, bool)
	// Stands reports whether a lease with a key stands.
	Stands(k lease.Key) bool
	// Size returns the memory of a lease on each of its devices; 0 if it has ended.
	Size(k lease.Key, fence uint64) gpu.MiB
	// Parked reports whether a lease is parked.
	Parked(k lease.Key, fence uint64) bool
	// Share returns the share of the machine that a lease takes; 0 if it is parked, or has
	// ended.
	Share(k lease.Key, fence uint64) float64
	// SetShares gives the requests of services their places in the queue by these shares of
	// the machine, instead of those of the users of the services, whether they are made or
	// will be. It must not keep anybody waiting.
	SetShares(map[lease.Key]float64)
}
