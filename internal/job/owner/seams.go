// Package owner owns the programs of services.
//
// It brings a service when somebody asks for it, sends it away when it is idle or others
// need its room, and starts it again when it fails.
//
// One goroutine decides, by the table of package service and by the state that it holds;
// what takes time goes on beside it and reports an event. Every start and every stop is
// decided by that state, never by one that was read earlier.
package owner

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// Ask is the request of a service for a lease.
type Ask struct {
	Spec  *service.Spec // its Memory is the learned one, if the settings have none
	ID    string        // of the lease; the same until it is given back
	Run   lease.Run     // whose lease it is
	Since time.Time     // since when somebody waits for it
	GPU   string        // UUID of the device that it must be on; empty: any
	Whole bool          // it needs a whole device, because nobody knows how much memory it uses
}

// Leases is the owner's way to leases, which goes through the desk. Leases of services
// belong to the user of the service.
type Leases interface {
	// Acquire asks for the lease of a service, and waits in the queue until it is granted,
	// refused, or ctx ends. Asked again after a restart, it finds the lease that was
	// granted before.
	Acquire(ctx context.Context, a Ask) (api.Lease, error)
	// Never returns why a service could not be granted its lease even if all others went,
	// or nil if it could.
	Never(a Ask) error
	// Hand binds the lease to the minder of the program, and returns it with everything
	// that a launcher needs. It fails with runs.ErrNoLease if the lease has ended, and
	// otherwise with an error that passes.
	Hand(ctx context.Context, k lease.Key, fence uint64, a Ask, minder process.ID) (api.Lease, error)
	// Claim notes that the lease with a fence is that of an instance, if an earlier berth
	// has not.
	Claim(k lease.Key, fence uint64)
	// Release gives a lease back, if it still stands.
	Release(k lease.Key, fence uint64, why string)
	// End ends the programs of a lease: SIGTERM, deallocation_timeout, SIGKILL. It returns
	// when they are told to end, or runs.ErrNoLease if the lease has ended: then nothing
	// that it knows is ended.
	End(k lease.Key, fence uint64, by access.Actor, why string) error
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
	// Stands returns the fence of a lease, or false if it has ended. With a fence it finds
	// also one of which an earlier berth did not say that it is of a service.
	Stands(k lease.Key, of uint64) (fence uint64, stands bool)
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

// Minders starts minders and reads what they wrote.
type Minders interface {
	Start(ctx context.Context, run string, most runs.Limits) (process.ID, error)
	Read(run string) (record runs.Record, alive bool, err error)
	// Kill ends a minder at once, and its command with it.
	Kill(id process.ID) error
	Remove(run string) error
	List() ([]string, error)
	Watch(id process.ID, ended func()) (stop func(), err error)
}
