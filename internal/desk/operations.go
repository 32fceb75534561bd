package desk

import (
	"errors"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/history/throughput"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/text/words"
)

// CountOperations counts the work that a service reports. A caller who may lease in the
// name of the service may report for it. Work counts for a device only if the service has
// a lease there.
func (d *Services) CountOperations(by Caller, service string, o api.Operations) (api.Counted, error) {
	if bad := words.TextProblem(service); bad != "" {
		return api.Counted{}, wrongFields(lease.FieldErrors{{Field: "name", Detail: bad}})
	}
	service, err := by.serving(service)
	if err != nil {
		return api.Counted{}, err
	}
	on, err := d.ledger.DevicesOf(service, by.Actor)
	if err != nil {
		return api.Counted{}, Refused(err)
	}
	uuid := ""
	switch {
	case o.GPU != "":
		named, err := d.devices.Find(string(o.GPU))
		if err != nil {
			return api.Counted{}, err
		}
		if slices.Contains(on, named.Device.UUID) {
			uuid = named.Device.UUID
		}
	case len(on) == 1:
		uuid = on[0]
	}
	report := throughput.Report{Service: service, User: by.User, GPU: uuid, Operations: o}
	count, err := d.operations.Add(report, time.Now())
	wrong, tooMany := (*throughput.InvalidError)(nil), (*throughput.RateError)(nil)
	switch {
	case errors.As(err, &wrong):
		return api.Counted{}, wrongFields(lease.FieldErrors{{Field: wrong.Field, Detail: wrong.Detail}})
	case errors.As(err, &tooMany):
		return api.Counted{}, because(err, Crowded, "too_many_operations", "Nothing was counted. Report the work that was done, and each operation once.")
	case err != nil:
		return api.Counted{}, Refused(err)
	}
	return api.Counted{Service: service, Count: count, GPU: uuid}, nil
}
