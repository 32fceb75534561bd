package desk

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Release ends a lease, or withdraws a request that waits; lease.Book.Seek says which one
// a name means. A fence of zero means any. Release ends no program: if one would go on
// without its lease, whoever else asks has to give the fence, or say that it may go on.
func (d *Leases) Release(ctx context.Context, by Caller, name lease.Name, fence uint64, keepRunning bool) (api.Ended, error) {
	if fence == 0 && !keepRunning {
		var err error
		if fence, err = d.stranded(&by, name); err != nil {
			return api.Ended{}, err
		}
	}
	by.aside()
	ended, err := d.ledger.Release(ctx, name, fence, by.Actor)
	by.back(ctx)
	if err != nil {
		return api.Ended{}, Refused(err)
	}
	result := api.Ended{ID: name.ID}
	if ended != nil {
		held := LeaseOf(ledger.Held{Lease: ended})
		held.State, held.Energy = "released", d.devices.EnergyOf(ended.Fence)
		result.Lease = &held
	}
	return result, nil
}

// Withdraw takes a waiting request out of the queue, and ends no lease.
func (d *Leases) Withdraw(ctx context.Context, by Caller, name lease.Name, fence uint64) (api.Ended, error) {
	by.aside()
	err := d.ledger.Withdraw(ctx, name, fence, by.Actor)
	by.back(ctx)
	if err != nil {
		return api.Ended{}, Refused(err)
	}
	return api.Ended{ID: name.ID}, nil
}

// Renew extends a lease by another time to live.
func (d *Leases) Renew(ctx context.Context, by Caller, name lease.Name, b api.Renew) (api.Lease, error) {
	ttl := lease.Seconds(b.TTL.Or(0))
	if bad := lease.TTLProblem(ttl); b.TTL.Known() && bad != "" {
		return api.Lease{}, wrongFields(lease.FieldErrors{{Field: "ttl_seconds", Detail: bad}})
	}
	return by.changed(ctx, func() (*lease.Lease, error) {
		return d.ledger.Renew(ctx, name, b.Fence, ttl, by.Actor, by.limits())
	})
}

// Resize gives a lease another amount of memory on each of its devices. A larger amount
// waits for room if the caller wants that.
func (d *Leases) Resize(ctx context.Context, by Caller, name lease.Name, b api.Resize) (api.Lease, error) {
	wait := b.Timeout.Or(0)
	if !(wait >= 0 && wait <= lease.MaxWait.Seconds()) {
		return api.Lease{}, wrongWait()
	}
	return by.changed(ctx, func() (*lease.Lease, error) {
		return d.ledger.Resize(ctx, name, b.Fence, b.Memory, by.Actor, by.limits(), lease.Seconds(wait))
	})
}

// Bind hands a lease that is bound to a process to another process.
func (d *Leases) Bind(ctx context.Context, by Caller, name lease.Name, b api.Bind) (api.Lease, error) {
	pid, err := by.here(b.PID)
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	var bound *lease.Lease
	l, err := by.changed(ctx, func() (_ *lease.Lease, err error) {
		bound, err = d.ledger.Bind(ctx, name, b.Fence, pid, by.Actor)
		return bound, err
	})
	if err == nil && b.Isolation == launch.ByCgroup {
		if _, err := d.equip.enclose(bound); err != nil {
			return api.Lease{}, err // the caller ends the process, and the lease goes with it
		}
		l.IsolatedBy = launch.ByCgroup
	}
	return l, err
}

// Rescope changes which control groups the processes of a lease are known by.
func (d *Leases) Rescope(ctx context.Context, by Caller, name lease.Name, b api.Rescope) (api.Lease, error) {
	if len(b.Add) > 0 && access.May(by.Actor, access.Scope, access.Object{}) == nil { // the ledger refuses others
		if wrong := d.ledger.ScopeProblem(b.Add); wrong != "" {
			return api.Lease{}, wrongFields(lease.FieldErrors{{Field: "add", Detail: wrong}})
		}
	}
	return by.changed(ctx, func() (*lease.Lease, error) {
		return d.ledger.Rescope(ctx, name, b.Fence, b.Add, b.Remove, by.Actor)
	})
}

// Adopt puts a running process under a lease.
func (d *Leases) Adopt(ctx context.Context, by Caller, b api.Adopt) (api.Lease, error) {
	if b.ID == "" {
		b.ID = madeUp("adopted", 10)
	}
	uuid := ""
	if b.GPU != "" {
		found, err := d.devices.Find(string(b.GPU))
		if err != nil {
			return api.Lease{}, err
		}
		if cut := found.Device.Cut(); cut != "" {
			return api.Lease{}, Refuse(Conflict, "no_fitting_device", "Process %d cannot be adopted on %s: %s.", b.PID, found.Device.Label(), cut)
		}
		uuid = found.Device.UUID
	}
	if bad := words.TextProblem(b.Service); b.Service != "" && bad != "" {
		return api.Lease{}, wrongFields(lease.FieldErrors{{Field: "service", Detail: bad}})
	}
	service, err := by.serving(b.Service)
	if err != nil {
		return api.Lease{}, err
	}
	pid, err := by.here(b.PID)
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	holder, err := d.ledger.HolderOf(pid, by.Actor, lease.Holder{Service: service, PID: by.Holder.PID})
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	return by.changed(ctx, func() (*lease.Lease, error) {
		return d.ledger.Adopt(ctx, ledger.Adoption{ID: b.ID, Holder: holder, GPU: uuid, Memory: b.Memory, By: by.Actor, Limits: d.people.limitsOf(&by, holder)})
	})
}

// Trim asks the holder of a lease to give back the memory that its libraries keep for
// later. It takes nothing away.
func (d *Leases) Trim(by Caller, name lease.Name) (api.Lease, error) {
	held, err := d.held(&by, access.Trim, name, 0)
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	err = d.actOn(&by, access.Trim, held, nil, "", func() error {
		d.publish(lease.TrimEvent(held.Lease, by.Actor, time.Now()))
		return nil
	})
	if err != nil {
		return api.Lease{}, Refused(fmt.Errorf("trim %s: %w", held.ID, err))
	}
	return LeaseOf(held), nil
}

// Explained says what would become of a request.
type Explained struct {
	placement.Explanation
	Grant    *api.Lease    // with what a launcher would get; nil if it would not be granted now
	Estimate *api.Estimate // if it would wait
}

// Explain says what would become of a request, without making it.
func (d *Leases) Explain(by Caller, w api.LeaseRequest) (Explained, error) {
	if len(w.Parts) > 0 || w.Admitted {
		return Explained{}, wrongFields(lease.FieldErrors{{Field: "parts", Detail: "cannot be explained; make the request, which is answered at once"}})
	}
	r, err := d.resolve(&by, &wish{LeaseRequest: w})
	if err != nil {
		return Explained{}, Refused(err)
	}
	e, err := d.ledger.Explain(r.Request)
	if err != nil {
		return Explained{}, Refused(err)
	}
	out := Explained{Explanation: e}
	switch {
	case e.Grant != nil:
		would := LeaseOf(ledger.Held{Lease: e.Grant})
		would.Launch = d.equip.equipment(e.Grant, &r, "")
		out.Grant = &would
	case e.Refusal == nil || e.Refusal.Ever:
		patient := r.Request
		patient.Wait = gpu.Some(lease.MaxWait) // the question is when there will be room, not who waits for it
		out.Estimate = d.foresight.estimateNew(patient)
	}
	return out, nil
}

// standing returns the fences of all leases.
func (d *Leases) standing() map[uint64]bool {
	all := map[uint64]bool{}
	for _, held := range d.ledger.View().Leases {
		all[held.Fence] = true
	}
	return all
}

// Libraries keeps what a program of a lease says about the memory of its libraries. Who
// may renew the lease may say it.
func (d *Leases) Libraries(_ context.Context, by Caller, name lease.Name, b api.Libraries) (api.Lease, error) {
	held, err := d.held(&by, access.Renew, name, b.Fence)
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	for _, l := range b.Libraries {
		if l.Allocated < 0 || l.Cached < 0 || l.Allocated > mostMemory || l.Cached > mostMemory {
			return api.Lease{}, wrongFields(lease.FieldErrors{{Field: "libraries", Detail: "memory is a number of MiB from 0 to 1099511627776"}})
		}
	}
	self := by.self()
	d.reports.add(held.Fence, process.ID{PID: self.PID, Start: self.Start}, report{at: time.Now(), libraries: b.Libraries}, d.standing)
	l := LeaseOf(held)
	d.Complete(&l, held, true)
	return l, nil
}
