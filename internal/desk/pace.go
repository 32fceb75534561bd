package desk

import (
	"strconv"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

// Pace holds a lease to a share of its devices, or lets it run freely. Owners hold their
// own leases; only an operator can end the hold of an operator.
func (d *Leases) Pace(by Caller, name lease.Name, b api.Pace) (api.Lease, error) {
	if !(b.Share >= 0.05 && b.Share <= 1) {
		return api.Lease{}, wrongFields(lease.FieldErrors{{Field: "share", Detail: "must be from 0.05 to 1"}})
	}
	held, err := d.held(&by, access.Pace, name, b.Fence)
	switch {
	case err != nil:
		return api.Lease{}, Refused(err)
	case d.pacer == nil:
		return api.Lease{}, Refuse(Unavailable, "cannot_pace", "This daemon paces nothing.")
	}
	operator := access.May(by.Actor, access.Pace, access.Everything()) == nil
	share := map[string]string{"share": strconv.FormatFloat(b.Share, 'g', -1, 64)}
	err = d.actOn(&by, access.Pace, held, share, b.Why, func() error {
		if b.Share >= 1 {
			return d.unpace(&by, held, operator)
		}
		h := pace.Hold{Key: held.Key(), Fence: held.Fence, Share: b.Share, Source: pace.ByOwner, By: lease.ByOf(by.Actor), Why: gpu.Printable(b.Why, 256)}
		if operator {
			h.Source = pace.ByOperator
		}
		return d.pacer.Hold(h)
	})
	if err != nil {
		return api.Lease{}, Refused(err)
	}
	l := LeaseOf(held)
	l.Paced = d.Paced(held.Fence, true)
	return l, nil
}

// unpace ends the holds that the caller may end.
func (d *Leases) unpace(by *Caller, held ledger.Held, operator bool) error {
	sources := []pace.Source{pace.ByOwner}
	if operator {
		sources = append(sources, pace.ByOperator)
	}
	if d.pacer.Let(held.Fence, lease.ByOf(by.Actor), sources...) || operator {
		return nil
	}
	left, _ := d.pacer.Of(held.Fence)
	for _, h := range left.Holds {
		if h.Source == pace.ByService {
			return Refuse(Forbidden, "paced_by_service", "%s is held to %s by services.%s.compute. An operator changes that with berth config set.", held.ID, pace.Percent(h.Share), held.Holder.Service)
		}
		if h.Source == pace.ByOperator {
			return Refuse(Forbidden, "paced_by_operator", "%s is held to %s by an operator, and only an operator can let it go. Ask one.", held.ID, pace.Percent(h.Share))
		}
	}
	return nil
}
