package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/ledger"
	"github.com/berth-gpu/berth/internal/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/words"
)

// plainRefusals are those that need nothing beside their own words.
var plainRefusals = []struct {
	cause  error
	status int
	code   string
	advice string
}{
	{lease.ErrDuplicate, http.StatusConflict, "duplicate_allocation", "Release it first, or use another id."},
	{lease.ErrUnknown, http.StatusNotFound, "unknown_allocation", "GET /api/leases lists those there are."},
	{lease.ErrWaiting, http.StatusConflict, "still_waiting", "Try again when it is granted; GET /api/leases/{id}/explain says what it waits for."},
	{lease.ErrNotYours, http.StatusForbidden, "not_yours", "Only its holder or an administrator may do that."},
	{lease.ErrStaleFence, http.StatusConflict, "stale_fence", "The lease this fence belonged to has ended: stop using the device and ask for a new one."},
	{lease.ErrNoFence, http.StatusConflict, "unknown_fence", "Use the one that came with the lease, or none."},
	{lease.ErrExpired, http.StatusConflict, "lease_expired", "Stop using the device and ask for a new one."},
	{lease.ErrBinding, http.StatusConflict, "no_time_to_live", "Only leases with a ttl are renewed."},
	{lease.ErrNotBound, http.StatusConflict, "not_process_bound", "Only a lease that is bound to a process can be handed to another one."},
	{ledger.ErrNoHolder, http.StatusForbidden, "process_not_allowed", "Name a process that you have started."},
	{lease.ErrCrowded, http.StatusTooManyRequests, "too_many_leases", "Release some of your leases, or wait for your other requests."},
	{lease.ErrUser, http.StatusForbidden, "user_not_allowed", "Ask whoever runs the daemon to add you to the users of the service."},
	{lease.ErrMaxMemory, http.StatusConflict, "over_service_maximum", "Ask for less."},
	{lease.ErrQuota, http.StatusConflict, "over_quota", "Release something of the same service, or wait."},
	{ledger.ErrNotSeen, http.StatusConflict, "not_seen", "Wait for the next sample if it has just started."},
	{ledger.ErrCovered, http.StatusConflict, "already_leased", "Release that lease first, if it shall have another one."},
	{process.ErrGone, http.StatusConflict, "process_gone", "A lease is bound to a process that runs."},
	{journal.ErrFull, http.StatusInsufficientStorage, "journal_full", "Leases that stand are not affected. Free some room on the disk of the state folder; then ask again."},
	{ledger.ErrStopped, http.StatusServiceUnavailable, "stopping", "Ask again when the daemon is back."},
	{context.Canceled, http.StatusRequestTimeout, "withdrawn", "Whoever asked has left, or somebody released it."},
}

// refused turns what the ledger says no with into a problem.
func refused(err error) error {
	var fields lease.FieldErrors
	noFit := (*placement.NoFitError)(nil)
	late := (*ledger.TimeoutError)(nil)
	queued := (*ledger.QueuedError)(nil)
	failed := (*journal.WriteError)(nil)
	switch {
	case errors.As(err, &fields):
		return wrongFields(fields)
	case errors.As(err, &late):
		why := obstacle(late.Refusal)
		if late.Quota != nil {
			why = ": " + late.Quota.Error()
		}
		p := problem(http.StatusConflict, "allocation_timeout", "There was no room within %s%s.", late.Lasted(), why)
		if late.Refusal != nil {
			explainRefusal(p, late.Refusal)
		}
		return p
	case errors.As(err, &noFit):
		p := problem(http.StatusConflict, noFitCode(noFit), "%s.", words.UpperFirst(noFit.Error()))
		explainRefusal(p, noFit)
		return p
	case errors.As(err, &queued):
		p := problem(http.StatusConflict, "others_wait", "%s.", words.UpperFirst(queued.Error()))
		p.Extra = map[string]any{"available_mb": queued.LargestNow, "possible": true}
		return p
	}
	for _, plain := range plainRefusals {
		if errors.Is(err, plain.cause) {
			return problem(plain.status, plain.code, "%s. %s", words.UpperFirst(err.Error()), plain.advice)
		}
	}
	if errors.As(err, &failed) {
		return problem(http.StatusServiceUnavailable, "journal_failed", "%s.", words.UpperFirst(err.Error()))
	}
	return problem(http.StatusInternalServerError, "internal", "The daemon could not do this: %v.", err)
}

// obstacle names the first device that could serve a request one day and what
// is in the way there, and how many more such devices there are.
func obstacle(e *placement.NoFitError) string {
	if e == nil {
		return ""
	}
	never := []placement.Code{placement.OtherDevice, placement.Unmet, placement.TooSmall}
	first, able := placement.Reason{}, map[string]bool{}
	for _, r := range e.Reasons {
		if slices.Contains(never, r.Code) {
			continue
		}
		if len(able) == 0 {
			first = r
		}
		able[r.GPU] = true
	}
	if len(able) == 0 {
		return ": " + e.Hint
	}
	text := fmt.Sprintf(": GPU %d %s", first.Index, first.Text)
	if others := len(able) - 1; others > 0 {
		text += "; no room on " + words.Count(others, "other GPU") + " either"
	}
	return text
}

func wrongFields(fields lease.FieldErrors) error {
	p := problem(http.StatusUnprocessableEntity, "invalid_request", "The request was understood, but some of it is out of range. Nothing was changed; see fields.")
	for _, f := range fields {
		p.Fields = append(p.Fields, api.FieldProblem{Field: f.Field, Detail: f.Detail})
	}
	return p
}

// asID lets a problem speak of id, for paths where that is what the field is
// called.
func asID(err error) error {
	if p := (*api.Problem)(nil); errors.As(err, &p) {
		for i, f := range p.Fields {
			if f.Field == "allocation_id" {
				p.Fields[i].Field = "id"
			}
		}
	}
	return err
}

// noFitCode is the stable name of what is mainly missing.
func noFitCode(e *placement.NoFitError) string {
	code := "no_fitting_device"
	for _, r := range e.Reasons {
		switch {
		case r.Code == placement.NoMemory, r.Code == placement.TooSmall && r.Needs > 0:
			return "insufficient_memory"
		case r.Code == placement.NoSlot:
			code = "no_slot"
		}
	}
	if len(e.Reasons) == 0 && e.Fit == 0 {
		return "no_device"
	}
	return code
}

func explainRefusal(p *api.Problem, e *placement.NoFitError) {
	reasons := make([]api.Obstacle, 0, len(e.Reasons))
	for _, r := range e.Reasons {
		reasons = append(reasons, api.Obstacle{GPU: r.GPU, Code: string(r.Code), Text: r.Text})
	}
	p.Extra = map[string]any{
		"requested_mb": e.Request.Memory, "available_mb": max(e.LargestNow, gpu.MiB(0)), "largest_ever_mb": e.LargestEver,
		"possible": e.Ever, "devices": reasons, "hint": e.Hint,
	}
}
