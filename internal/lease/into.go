package lease

import (
	"fmt"

	"github.com/berth-gpu/berth/gpu"
)

// A request can be for an existing lease: a parked lease wants to return, or an active
// one wants to be larger. The request has the key of the lease, and the fence of the
// lease in Request.Into. It waits in the same queue as all others, and a lease has one
// such request at a time. When the lease ends, or becomes something else than what the
// request was for, the request stops waiting, and the effect of that change holds it.

// First is the priority of the requests for what berth has taken from leases by shrinking
// them. They go before all others, and no other request may have it.
const First = MaxPriority + 1

// Patient reports whether a request waits as long as it takes.
func (r *Request) Patient() bool { return r.Deadline.Sub(r.Requested) >= MaxWait }

// For returns what a request for an existing lease wants, resume or resize. It returns ""
// if the request is for a new lease.
func (r *Request) For() string {
	switch {
	case r.Into == 0:
		return ""
	case r.Size == 0:
		return "resume"
	}
	return "resize"
}

// Returning returns the request with which a parked lease asks for what it had.
func (l *Lease) Returning() Request {
	r := l.into(0, l.Parts[0].Memory, l.Parts[0].Slots)
	r.Exclusive, r.Least = l.Exclusive, l.returnsTo(0)
	return r
}

// Alike returns a request for another lease of the same holder, for as much on as many
// devices.
func (l *Lease) Alike() Request {
	r := l.into(0, l.Parts[0].Memory, l.Parts[0].Slots)
	r.Into, r.Only = 0, nil
	r.Exclusive, r.Least = l.Exclusive, l.returnsTo(0)
	return r
}

// returnsTo returns the least memory that a part of a parked lease has to get to return: all
// that it had. A lease that has its device alone had all that could be leased there then,
// which is never quite the same: the driver takes more, and so do parked processes.
func (l *Lease) returnsTo(part int) gpu.MiB {
	memory := l.Parts[part].Memory
	if l.Exclusive {
		memory -= memory / 16
	}
	return memory
}

// Growing returns the request with which an active lease asks for this much memory on
// each of its devices.
func (l *Lease) Growing(size gpu.MiB) Request {
	r := l.into(size, 0, 0)
	for _, p := range l.Parts {
		r.Memory = max(r.Memory, size-p.Memory)
	}
	if size <= l.Asked {
		r.Priority = First
	}
	return r
}

func (l *Lease) into(size, memory gpu.MiB, slots int) Request {
	return Request{
		ID: l.ID, Run: l.Run, Holder: l.Holder, Binding: l.Binding, TTL: l.TTL, Priority: l.Priority, Into: l.Fence, Size: size,
		TimeLimit: l.TimeLimit, Imposed: l.Imposed, Unchosen: l.Unchosen,
		GPUs: len(l.Parts), Only: l.Devices(), Memory: memory, Slots: slots, Terms: Terms{EnforcedBy: l.EnforcedBy}, Groups: l.Groups,
	}
}

// Lacks returns how much more memory of each of its devices a lease takes when it gets
// what r asks for. Memory that is measured for its processes is taken already.
func (b *Book) Lacks(r *Request) gpu.MiB {
	e := b.leases.get(r.Key())
	if e == nil {
		return r.Memory
	}
	var most gpu.MiB
	for i := range e.lease.Parts {
		if r.Size > 0 {
			most = max(most, e.growth(i, r.Size))
		} else {
			most = max(most, e.lease.returnsTo(i)-e.places[i].measured)
		}
	}
	return most
}

// verifyKey refuses a request whose key is in use, or that is for a lease that does not
// exist.
func (r *Request) verifyKey(b *Book) error {
	held, waits := b.leases.get(r.Key()), b.waiting.get(r.Key())
	switch {
	case r.Into == 0 && (held != nil || waits != nil):
		return fmt.Errorf("ask for %s: %w; release it first or take another id", r.ID, ErrDuplicate)
	case r.Into == 0:
		return nil
	case held == nil || held.lease.Fence != r.Into:
		return fmt.Errorf("%s %s: %w", r.For(), r.ID, ErrStaleFence)
	case waits != nil:
		return fmt.Errorf("%s %s: %w", r.For(), r.ID, ErrAsked)
	case (held.lease.State == Parked) != (r.Size == 0):
		return fmt.Errorf("%s %s: %w: it is %s", r.For(), r.ID, ErrState, string(held.lease.State))
	}
	return nil
}

// settleInto takes the request for a lease out of the queue, because the lease is
// about to change, and returns it; nil if there is none.
func (e *entry) settleInto(b *Book) *Request {
	if e.want == nil {
		return nil
	}
	r := e.want.request
	b.leave(e.want)
	return r
}
