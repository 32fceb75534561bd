package desk

import (
	"context"
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Cancel ends the programs of a lease, and the lease with them: SIGTERM to its own
// processes, and SIGKILL after deallocation_timeout. It withdraws a request that waits.
// The answer comes when the daemon has written down what it is going to do.
func (d *Leases) Cancel(ctx context.Context, by Caller, name lease.Name, b api.Cancel) (api.Ended, error) {
	by.aside()
	cancelled, err := d.ledger.Cancel(ctx, name, b.Fence, by.Actor, gpu.Printable(b.Why, 256))
	by.back(ctx)
	if err != nil {
		return api.Ended{}, Refused(err)
	}
	result := api.Ended{ID: name.ID}
	if cancelled != nil {
		ends := LeaseOf(ledger.Held{Lease: cancelled})
		result.Lease = &ends
	}
	return result, nil
}

// EndPrograms ends the programs of the lease of a run in the name of an actor, and the
// lease with them, also if the daemon ends before it has. A fence of zero means any.
func (d *Leases) EndPrograms(ctx context.Context, by access.Actor, k lease.Key, fence uint64, why string) (*lease.Lease, error) {
	return d.ledger.CancelRun(ctx, k, fence, by, why)
}

// stranded refuses to release a lease whose process goes on without it, unless the caller
// is that process, one of its ancestors or one of its descendants. It returns the fence of
// the lease that it looked at, or zero if it is not bound to a process that lives.
func (d *Leases) stranded(by *Caller, name lease.Name) (fence uint64, err error) {
	held, err := d.ledger.Held(by.Actor, access.Release, name)
	if err != nil || held.Binding != lease.ByProcess || held.State == lease.Parked || held.Run != (lease.Run{}) {
		return 0, nil // the ledger finds out
	}
	holder := process.ID{PID: held.Holder.PID, Start: held.Holder.Start}
	if boot, err := d.processes.Boot(); err != nil || boot != held.Holder.Boot || !d.processes.Alive(holder) {
		return 0, nil
	}
	if self := by.self(); self.PID != 0 {
		caller, err := d.processes.Identify(self.PID)
		if err == nil && (slices.Contains(d.processes.Ancestry(holder), caller) || slices.Contains(d.processes.Ancestry(caller), holder)) {
			return held.Fence, nil
		}
	}
	id := words.Shell(held.ID)
	return 0, Refuse(Conflict, "program_runs", "The program of %s runs on without its lease if you release it. To end the program and the lease: berth cancel %s (POST /api/leases/{id}/cancel). To end only the lease: berth release --keep-running %s (keep_running=true). Nothing was changed.",
		held.ID, id, id)
}
