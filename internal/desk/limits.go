package desk

import (
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// limitsOf returns the limits of the holder of a lease, or nil if the ledger has to find
// them. If the holder is not the caller, the groups are those of the process that is
// going to hold the lease.
func (d *Desk) limitsOf(by *Caller, h lease.Holder) *lease.Limits {
	if h.Owner() == lease.OwnerOf(&by.Actor) {
		return by.limits()
	}
	if d.Limits == nil {
		return nil
	}
	rules := d.Limits.Load()
	subject := lease.Subject{Owner: h.Owner()}
	if rules.Grouped() {
		subject.Groups, subject.Sure = d.Processes.Groups(process.ID{PID: h.PID, Start: h.Start})
	}
	return &rules.Of(subject).Limits
}
