package desk

import (
	"fmt"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// exactly returns the parts of an order that says exactly what it wants, or nil if the
// order does not. It refuses if the caller may not ask for parts, or if the rest of the
// order contradicts them.
func (o *order) exactly(by *Caller) ([]lease.Part, error) {
	if len(o.Parts) == 0 && !o.Admitted {
		return nil, nil
	}
	if err := access.May(by.Actor, access.Admit, access.Object{}); err != nil {
		return nil, Refused(fmt.Errorf("lease %s exactly: %w", o.ID, err))
	}
	if errs := o.contradictions(); errs != nil {
		return nil, wrongFields(errs)
	}
	parts := make([]lease.Part, len(o.Parts))
	for i, p := range o.Parts {
		parts[i] = lease.Part{GPU: p.GPU, Memory: p.Memory, Slots: p.Slots}
		o.Memory = max(o.Memory, p.Memory) // for the enforcement
	}
	o.GPUs = len(parts)
	return parts, nil
}

// contradictions lists the fields of an order that contradict its parts.
func (o *order) contradictions() (errs lease.FieldErrors) {
	wrong := func(is bool, field, detail string) {
		if is {
			errs = append(errs, lease.FieldError{Field: field, Detail: detail})
		}
	}
	const beside = "is set beside parts, which say all about the devices; leave it out"
	wrong(len(o.Parts) == 0, "parts", "is empty; an admitted request says exactly what it wants on each device")
	wrong(!o.Admitted, "admitted", "is false; a request with parts needs it, because it goes before everybody who waits")
	wrong(o.ID == "", "id", "is empty; the same id finds the lease when the request is made again")
	wrong(o.GPUs > 1, "gpus", beside) // a body without gpus means 1
	wrong(o.Memory != 0, "memory_mb", beside)
	wrong(o.Slots.Known(), "slots", beside)
	wrong(o.GPU != "", "gpu", beside)
	wrong(o.Prefer != "", "prefer", beside)
	wrong(o.Policy != "", "policy", beside)
	wrong(o.Where != "", "where", beside)
	wrong(o.Learned, "learned_memory", beside)
	wrong(o.Parent != "", "parent", "is set beside parts; a child has the devices of its parent")
	wrong(o.Timeout.Or(0) != 0, "timeout_seconds", "is set, and an admitted request never waits; leave it out")
	bound := binding(&o.LeaseRequest)
	wrong(bound == lease.ByProcess, "binding", "is process; an admitted request is for a named lease, or one with a ttl")
	return errs
}
