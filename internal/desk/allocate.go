package desk

import (
	"context"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// unknownCaller is the note of an allocation that does not end by itself although nobody
// asked for that.
const unknownCaller = "the daemon does not know the process of the caller, so the lease lasts until it is deallocated"

// Allocate leases memory under an id that the caller chooses. If the caller does not say
// what ends the lease, it ends with the process of the caller, or after a while without
// use if that process only asks for others (curl in a script). See lease.Settle and
// lease.Detach.
func (d *Desk) Allocate(ctx context.Context, by Caller, b api.Allocate) (api.Lease, error) {
	w := &wish{again: againOf(b.Again), unitExists: true, LeaseRequest: b.Request()}
	if !b.Timeout.Known() && !b.Wait {
		w.Timeout = gpu.Some(0.0)
	}
	if b.Unit != "" && b.Binding == "" && !b.TTL.Known() && b.PID == 0 {
		w.Binding = string(lease.ByName) // the caller does not use it itself
	}
	said := w.Binding != "" || b.TTL.Known() || b.PID != 0
	if !said || b.Binding == string(lease.ByProcess) && b.PID == 0 {
		by.Holder = by.self()
	}
	switch {
	case said:
	case by.Holder.PID != 0:
		w.Binding, w.implied = string(lease.ByProcess), true
	default:
		w.note = unknownCaller
	}
	return d.acquire(ctx, &by, w)
}

func againOf(word string) lease.Again {
	switch word {
	case "id":
		return lease.SameID
	case "service":
		return lease.SameService
	}
	return lease.Once
}
