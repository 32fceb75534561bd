package reclaim

import (
	"context"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// regrowPause is how long Run waits after it could not give a lease its size back.
const regrowPause = time.Minute

// Observe records how much a lease uses on a device. If berth has shrunk the lease and
// its programs are about to use all that is left of it, Run gives the lease its size
// back. Observe does not block.
func (r *Reclaim) Observe(h lease.Holding) {
	if h.Lease.Asked == 0 || h.Measured <= h.Part.Memory-slack(h.Part.Memory) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.growing[h.Lease.Fence] {
		return
	}
	r.growing[h.Lease.Fence] = true
	r.grown = append(r.grown, h.Lease)
	select {
	case r.woken <- struct{}{}:
	default: // Run is about to look anyway
	}
}

// slack returns how much memory of a shrunk lease must be unused: half of the margin that
// it was left.
func slack(size gpu.MiB) gpu.MiB { return max(size/20, 128) }

// regrow gives leases their size back until ctx ends.
func (r *Reclaim) regrow(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		select {
		case <-r.woken:
		case <-ctx.Done():
			return
		}
		r.mu.Lock()
		grown := r.grown
		r.grown = nil
		r.mu.Unlock()
		for _, l := range grown {
			group.Go(func() { r.regrowOne(ctx, l) })
		}
	}
}

func (r *Reclaim) regrowOne(ctx context.Context, l *lease.Lease) {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.growing, l.Fence)
	}()
	defer r.Faults.Catch(l.Holder.User, "giving "+l.ID+" its size back", func(error) {})
	if err := r.Leases.Regrow(ctx, l.Key(), l.Fence, l.Asked); err != nil && ctx.Err() == nil {
		r.Log.Warn("a lease that berth has shrunk could not get its size back yet", "lease", l.ID, "error", err)
		select {
		case <-time.After(regrowPause):
		case <-ctx.Done():
		}
	}
}
