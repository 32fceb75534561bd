package desk

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
)

// residueKind is the kind of check that looks for what programs left in memory.
const residueKind = "residue"

// Check checks a device and returns when that is done. A device that fails goes into
// quarantine, or stays there; a device in quarantine that passes may leave it. If the
// caller leaves, Check gives up and changes nothing.
func (d *Devices) Check(ctx context.Context, by Caller, b api.CheckRequest) (api.Check, error) {
	on, err := d.named(b.GPU)
	if err != nil {
		return api.Check{}, err
	}
	kind := cmp.Or(b.Kind, string(proof.Quick))
	ask := proof.Ask{Verb: proof.Check, Kind: proof.Kind(kind)}
	if kind == residueKind {
		ask = proof.Ask{Verb: proof.Residue}
	} else if !slices.Contains(proof.Kinds(), ask.Kind) {
		return api.Check{}, wrongFields(lease.FieldErrors{{Field: "kind", Detail: "must be quick, long or residue"}})
	}
	switch {
	case d.checkup == nil:
		return api.Check{}, Refuse(Unavailable, "no_checks", "This daemon only looks, and cannot check devices.")
	case !d.monitor.Running():
		return api.Check{}, Refuse(Conflict, "monitoring_stopped", "Monitoring is stopped, so berth asks no driver. Start it with POST /api/gpu/monitoring/start; then check %s.", on.Label())
	}
	var found proof.Result
	by.aside()
	err = d.record.act(api.AuditEntry{
		Who: audit.Who(by.Actor), What: access.Check.String(), Object: api.AuditObject{Kind: "device", ID: on.UUID}, After: map[string]string{"kind": kind},
	}, func() (err error) {
		found, err = d.checkup.Check(ctx, on, ask, lease.ByOf(by.Actor))
		return err
	})
	by.back(ctx)
	if busy := (*drains.BusyError)(nil); errors.As(err, &busy) {
		return api.Check{}, Refuse(Conflict, "device_busy", "%s cannot be checked now: %s. Try again when that is done; berth events --code device_check shows how far it is.", on.Label(), busy.Why)
	}
	if err != nil {
		return api.Check{}, Refused(err)
	}
	return checkOf(on, kind, found), nil
}

// checkOf returns the result of a check as the API shows it.
func checkOf(on gpu.Device, kind string, r proof.Result) api.Check {
	out := api.Check{
		GPU: on.UUID, Index: on.Index, Kind: kind, Verdict: string(r.Verdict), Reason: r.Reason,
		Memory: r.Memory, Total: on.MemoryTotal, Left: r.Left, Took: r.Took, Steps: []api.CheckStep{},
	}
	for _, s := range r.Steps {
		if s.Verdict != "" {
			out.Steps = append(out.Steps, api.CheckStep{
				Name: string(s.Name), Verdict: string(s.Verdict), Detail: s.Detail, Value: s.Value, Norm: s.Norm, Unit: s.Unit, Took: s.Took,
			})
		}
	}
	return out
}
