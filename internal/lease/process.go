package lease

import "iter"

// processKey names the process of a holder.
type processKey struct {
	pid   int
	start uint64
	boot  string
}

func (h *Holder) process() processKey { return processKey{h.PID, h.Start, h.Boot} }

// HeldBy yields the leases that the process of a holder has, in no order. It takes no time
// for the leases of others. The book must not change meanwhile.
func (b *Book) HeldBy(h Holder) iter.Seq[*Lease] {
	return func(yield func(*Lease) bool) {
		for e := b.processes[h.process()]; e != nil; e = e.after {
			if !yield(e.lease) {
				return
			}
		}
	}
}

// hold adds a lease to those of its process.
func (b *Book) hold(e *entry) {
	if e.lease.Holder.PID == 0 {
		return
	}
	k := e.lease.Holder.process()
	if e.after = b.processes[k]; e.after != nil {
		e.after.before = e
	}
	b.processes[k] = e
}

// letGo takes a lease from those of its process.
func (b *Book) letGo(e *entry) {
	if e.lease.Holder.PID == 0 {
		return
	}
	if e.after != nil {
		e.after.before = e.before
	}
	switch k := e.lease.Holder.process(); {
	case e.before != nil:
		e.before.after = e.after
	case e.after != nil:
		b.processes[k] = e.after
	default:
		delete(b.processes, k)
	}
	e.before, e.after = nil, nil
}
