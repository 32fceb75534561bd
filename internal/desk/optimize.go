package desk

import (
	"context"
	"errors"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Optimize gets memory back from the leases that the caller may change. For an operator
// these are all leases, and the optimization is an act of authority.
func (d *Leases) Optimize(ctx context.Context, by Caller, b api.Optimize) (api.Optimization, error) {
	if bad := words.TextProblem(b.Service); b.Service != "" && bad != "" {
		return api.Optimization{}, wrongFields(lease.FieldErrors{{Field: "service", Detail: bad}})
	}
	service, err := by.serving(b.Service)
	if err != nil {
		return api.Optimization{}, err
	}
	if b.Service = service; service != "" && !d.knowsService(service) {
		return api.Optimization{}, Refuse(Unknown, "unknown_service", "There is no service %s: the configuration does not name it, and it has no lease and no request. Nothing was changed. berth leases and berth config list the services.", service)
	}
	if d.optimizer == nil {
		return api.Optimization{}, Refuse(Unavailable, "no_optimizing", "This daemon only looks, and takes nothing back.")
	}
	if !d.monitor.Running() {
		return api.Optimization{}, Refuse(Conflict, "monitoring_stopped", "Monitoring is stopped, so berth could not measure what it takes back. Start it with POST /api/gpu/monitoring/start; then optimize.")
	}
	may := func(l *lease.Lease) bool { return access.May(by.Actor, access.Optimize, l.Object()) == nil }
	var found api.Optimization
	do := func() (err error) {
		found, err = d.optimizer.Optimize(ctx, by.Actor, b, may)
		return err
	}
	if !b.DryRun { // a dry run does not wait
		by.aside()
	}
	if access.May(by.Actor, access.Optimize, access.Everything()) != nil || b.DryRun {
		err = do()
	} else {
		err = d.record.act(api.AuditEntry{
			Who: audit.Who(by.Actor), What: access.Optimize.String(), Object: api.AuditObject{Kind: "leases", ID: service},
		}, do)
	}
	if !b.DryRun {
		by.back(ctx)
	}
	if busy := (*lease.BusyError)(nil); errors.As(err, &busy) {
		return api.Optimization{}, because(err, Conflict, "optimizing", "Ask again when it is done; berth events --code optimized shows how far it is.")
	}
	if err != nil {
		return api.Optimization{}, Refused(err)
	}
	return found, nil
}

// knowsService reports whether a service is configured, or has a lease or a request.
func (d *Leases) knowsService(service string) bool {
	if _, configured := d.config().Services[service]; configured {
		return true
	}
	for party := range d.ledger.Tallies() {
		if party.Service == service {
			return true
		}
	}
	return false
}
