package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/minder"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/berth-gpu/berth/internal/when/later"
)

// Kind is the kind of a refusal. Programs go by the code; the kind is for doors, which
// have their own words for it.
type Kind int

// The kinds.
const (
	Failed      Kind = iota // the daemon could not do it
	Invalid                 // the question makes no sense
	Unknown                 // it names something that is not there
	Forbidden               // the caller may not do that
	Conflict                // it conflicts with the current state
	Crowded                 // the caller has too much in progress
	DiskFull                // the disk has no room for it
	Unavailable             // the daemon cannot do it now
	Withdrawn               // nobody waits for the answer any more
)

// Refusal is the error of a request that the desk does not carry out. Its code is stable.
type Refusal struct {
	Kind   Kind
	Code   string
	Detail string // what failed, why, and what to do about it, for people
	Fields []api.FieldProblem
	Extra  map[string]any // the numbers behind the sentence
	cause  error
}

func (r *Refusal) Error() string { return r.Detail }

// Unwrap returns the error that the refusal was made from, or nil if there is none.
func (r *Refusal) Unwrap() error { return r.cause }

// Refuse returns a refusal.
func Refuse(kind Kind, code, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// because returns a refusal for an error, followed by advice if there is any.
func because(err error, kind Kind, code, advice string) *Refusal {
	detail := words.UpperFirst(err.Error())
	if !strings.HasSuffix(detail, "?") {
		detail += "."
	}
	if advice != "" {
		detail += " " + advice
	}
	return &Refusal{Kind: kind, Code: code, Detail: detail, cause: err}
}

// plainRefusals lists the errors whose refusal consists of their own text and advice.
var plainRefusals = []struct {
	cause  error
	kind   Kind
	code   string
	advice string
}{
	{audit.ErrUnavailable, Unavailable, "audit_unavailable", "Nothing was changed, because berth logs a change that affects others before it makes it. Make room on the disk of the state folder, or repair its folder audit; then try again. You can still lease, and release your own leases."},
	{lease.ErrLeft, Conflict, "duplicate_allocation", "Ask with \"again\": \"id\", and with no binding other than \"process\", to replace that lease, or release it (berth release). With \"binding\": \"process\" in the first request, the lease ends with the process."},
	{lease.ErrDuplicate, Conflict, "duplicate_allocation", "Release it first (berth release), or use another id."},
	{lease.ErrDevice, Unknown, "unknown_device", "Name each device by its UUID: berth status and GET /api/gpu/status/all list them."},
	{lease.ErrNoPool, Conflict, "no_pool", "berth leases lists yours. Make one with berth allocate NAME 20GiB --pool."},
	{lease.ErrPoolInUse, Conflict, "pool_in_use", "Release some of the leases in the pool first, or ask for a larger size. Nothing was changed."},
	{lease.ErrParent, Conflict, "no_parent", "Ask for a lease of your own, and then for children of it."},
	{lease.ErrUnknown, Unknown, "unknown_allocation", "berth leases (GET /api/leases) lists the leases."},
	{lease.ErrWaiting, Conflict, "still_waiting", "Try again when it is granted; berth explain (GET /api/leases/{id}/explain) says what it waits for."},
	{lease.ErrNotYours, Forbidden, "not_yours", "Ask its owner, or an operator."},
	{lease.ErrStaleFence, Conflict, "stale_fence", "The lease with this fence has ended: stop using the device, and ask for a new lease."},
	{lease.ErrNoFence, Conflict, "unknown_fence", "Use the fence that came with the lease, or leave it out."},
	{lease.ErrExpired, Conflict, "lease_expired", "Stop using the device, and ask for a new lease."},
	{lease.ErrBinding, Conflict, "no_time_to_live", "Only leases with a ttl are renewed."},
	{lease.ErrNotBound, Conflict, "not_process_bound", "Only a lease that is bound to a process can be handed to another one."},
	{lease.ErrEnforced, Conflict, "limit_enforced", "Release the lease, and start the program under a lease of the right size."},
	{lease.ErrScoped, Conflict, "scoped_lease", "Delete the pod, or stop the container or the unit: the lease ends with it. Nothing was changed."},
	{lease.ErrParked, Conflict, "parked", "Nothing was changed."},
	{lease.ErrUnparkable, Conflict, "cannot_park", "Nothing was moved."},
	{lease.ErrAsked, Conflict, "already_asked", "berth explain (GET /api/leases/{id}/explain) says what it waits for."},
	{lease.ErrInUse, Conflict, "in_use", "Free memory in the program first, or ask for a larger size."},
	{quota.ErrForbidden, Conflict, "service_forbids", "Ask an administrator to change the settings of the service."},
	{lease.ErrState, Conflict, "wrong_state", "berth leases (GET /api/leases/{id}) shows the lease."},
	{ledger.ErrNoHolder, Forbidden, "process_not_allowed", "Name a process that you have started."},
	{quota.ErrCrowded, Crowded, "too_many_leases", "Release some of your leases, or wait for your other requests."},
	{quota.ErrLimit, Conflict, "over_user_limit", "berth quota shows your limits. Ask for less, release something, or ask an administrator for a higher limit."},
	{quota.ErrService, Unknown, "unknown_service", "berth config lists the services. Name one of them, or ask an administrator to add this one."},
	{quota.ErrAlike, Conflict, "lookalike_service", "berth config lists the services. Spell the name as it is listed there, or choose a name that looks different."},
	{quota.ErrUser, Forbidden, "user_not_allowed", "Ask an administrator to add you to the users of the service."},
	{quota.ErrMaxMemory, Conflict, "over_service_maximum", "Ask for less."},
	{quota.ErrMinMemory, Conflict, "under_service_minimum", "Ask for more: an admitted request is not raised to the minimum."},
	{quota.ErrQuota, Conflict, "over_quota", "Release something of the same service, or wait."},
	{ledger.ErrNotSeen, Conflict, "not_seen", "If the process has just started, wait for the next sample and try again."},
	{ledger.ErrCovered, Conflict, "already_leased", "Release that lease before you ask for another one."},
	{process.ErrGone, Conflict, "process_gone", "Name a process that runs."},
	{journal.ErrFull, DiskFull, "journal_full", "Present leases are not affected. Make room on the disk of the state folder; then ask again."},
	{ledger.ErrStopped, Unavailable, "stopping", "Ask again when the daemon is back."},
	{runs.ErrStopped, Unavailable, "stopping", "Ask again when the daemon is back."},
	{minder.ErrReading, Crowded, "too_many_readers", "Wait until one of them has been read."},
	{runs.ErrNoOrder, Conflict, "no_order", ""},
	{context.Canceled, Withdrawn, "withdrawn", "The caller left, the token or the session of the caller has ended, or somebody released, resized or parked the lease."},
}

// Refused returns the refusal for an error of a keeper. It returns a refusal unchanged,
// unless that is part of an error that passes: then whoever asked may ask again.
func Refused(err error) *Refusal {
	r := (*Refusal)(nil)
	if !errors.As(err, &r) {
		r = refusalOf(err)
		r.cause = err
	}
	if later.Passes(err) && !r.passes() {
		now := *r
		now.Kind = Unavailable
		return &now
	}
	return r
}

// passes reports whether a refusal of this kind says that the same may be done later.
func (r *Refusal) passes() bool {
	return r.Kind == Unavailable || r.Kind == Crowded || r.Kind == DiskFull || r.Kind == Withdrawn
}

func refusalOf(err error) *Refusal {
	var fields lease.FieldErrors
	noFit := (*placement.NoFitError)(nil)
	inexact := (*placement.ExactError)(nil)
	late := (*placement.TimeoutError)(nil)
	queued := (*placement.QueuedError)(nil)
	resize := (*placement.ResizeError)(nil)
	failed := (*journal.WriteError)(nil)
	several := (*lease.AmbiguousError)(nil)
	unpaced := (*pace.RefusedError)(nil)
	unmoved := (*move.RefusedError)(nil)
	full := (*lease.PoolError)(nil)
	closed := (*ledger.ClosedError)(nil)
	ofRun := (*lease.RunError)(nil)
	switch {
	case errors.As(err, &ofRun) && ofRun.Service() != "":
		return because(ofRun, Conflict, "service_lease", fmt.Sprintf("To stop the service: berth stop %[1]s (POST /api/services/{name}/stop); to bring it: berth start %[1]s. Nothing was changed.", words.Shell(ofRun.Service())))
	case errors.As(err, &ofRun):
		return because(ofRun, Conflict, "job_lease", fmt.Sprintf("Cancel the job: berth cancel %s (POST /api/jobs/{id}/cancel). Nothing was changed.", words.Shell(ofRun.ID)))
	case errors.As(err, &full):
		r := Refuse(Conflict, "pool_full", "The pool %s has %s of %s left, and %s asks for %s. Release a lease in the pool, or make the pool larger: berth allocate %s SIZE --pool.",
			full.Pool, full.Left().Beside(full.Size, full.Needs), full.Size.Beside(full.Needs), full.ID, full.Needs.Beside(full.Size), words.Shell(full.Pool))
		r.Extra = map[string]any{"requested_mb": full.Needs, "available_mb": full.Left(), "possible": full.Needs <= full.Size}
		return r
	case errors.As(err, &closed):
		return because(closed, Conflict, "device_closed", "Ask again when it is open: berth status says why it is not.")
	case errors.As(err, &unmoved):
		return notMoved(unmoved)
	case errors.As(err, &unpaced):
		return notPaced(unpaced)
	case errors.As(err, &fields):
		return wrongFields(fields)
	case errors.As(err, &resize):
		r := refusalOf(resize.Why)
		return &Refusal{Kind: Conflict, Code: r.Code, Detail: words.UpperFirst(resize.Error()) + ".", Extra: map[string]any{
			"requested_mb": resize.Asked, "held_mb": resize.Has(), "available_mb": resize.Most, "possible": resize.Ever,
		}}
	case errors.As(err, &late):
		r := Refuse(Conflict, "allocation_timeout", "There was no room within %s%s.", late.Lasted(), inTheWay(late))
		if late.Refusal != nil {
			r.Extra = numbersOf(late.Refusal)
		}
		return r
	case errors.As(err, &several):
		return ambiguous(several)
	case errors.As(err, &noFit):
		r := because(noFit, Conflict, noFitCode(noFit), "")
		r.Extra = numbersOf(noFit)
		return r
	case errors.As(err, &inexact):
		r := because(inexact, Conflict, codeOfReasons(inexact.Reasons), "")
		r.Extra = map[string]any{"possible": inexact.Ever, "devices": obstaclesOf(inexact.Reasons)}
		return r
	case errors.As(err, &queued):
		r := because(queued, Conflict, "others_wait", "")
		r.Extra = map[string]any{"available_mb": queued.LargestNow, "possible": true}
		return r
	}
	for _, plain := range plainRefusals {
		if errors.Is(err, plain.cause) {
			return because(err, plain.kind, plain.code, plain.advice)
		}
	}
	if mayNot := (*access.Refusal)(nil); errors.As(err, &mayNot) {
		return because(err, Forbidden, "not_allowed", "")
	}
	if errors.As(err, &failed) {
		return because(err, Unavailable, "journal_failed", "")
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return because(err, DiskFull, "disk_full", "Make room on the disk of the state folder; then ask again.")
	}
	if later.Passes(err) {
		return because(err, Unavailable, "no_answer", "Ask again.")
	}
	return Refuse(Failed, "internal", "The daemon could not do this: %v.", err)
}

// ambiguous refuses a name that fits leases or requests of several users. It lists them,
// unless the caller may not see who they are.
func ambiguous(e *lease.AmbiguousError) *Refusal {
	if len(e.Names) == 0 {
		return Refuse(Conflict, "ambiguous_id", "Several users have a lease or a request with the id %s.", e.Name.ID)
	}
	names := make([]string, len(e.Names))
	for i, n := range e.Names {
		names[i] = n.String()
	}
	r := Refuse(Conflict, "ambiguous_id", "Several users have a lease or a request with the id %s: %s. Say whose you mean, as USER/ID in a command or with user in a request.",
		e.Name.ID, strings.Join(names, ", "))
	r.Extra = map[string]any{"candidates": names}
	return r
}

// obstacle names the first device that could serve a request one day and what is in the
// way there, and says how many more devices could.
func obstacle(e *placement.NoFitError) string {
	if e == nil {
		return ""
	}
	first, able := firstObstacle(e)
	if able == 0 {
		return ": " + e.Hint
	}
	text := fmt.Sprintf(": GPU %d %s", first.Index, first.Text)
	if others := able - 1; others > 0 {
		text += "; no room on " + words.Count(others, "other GPU") + " either"
	}
	return text
}

// firstObstacle returns what is in the way on the first device that could serve a request
// one day, and how many devices could.
func firstObstacle(e *placement.NoFitError) (first placement.Reason, able int) {
	never := []placement.Code{placement.OtherDevice, placement.Unmet, placement.TooSmall}
	devices := map[string]bool{}
	for _, r := range e.Reasons {
		if slices.Contains(never, r.Code) {
			continue
		}
		if len(devices) == 0 {
			first = r
		}
		devices[r.GPU] = true
	}
	return first, len(devices)
}

// inTheWay returns, after a colon, what was in the way of a request that was not granted
// in time.
func inTheWay(late *placement.TimeoutError) string {
	if late.Quota != nil {
		return ": " + late.Quota.Error()
	}
	return obstacle(late.Refusal)
}

// wrongFields refuses a request because of its fields.
func wrongFields(fields lease.FieldErrors) *Refusal {
	r := Refuse(Invalid, "invalid_request", "Some of the request is out of range, and nothing was changed.")
	for _, f := range fields {
		r.Fields = append(r.Fields, api.FieldProblem{Field: f.Field, Detail: f.Detail})
	}
	r.cause = fields
	return r
}

// noFitCode returns the stable code for what is mainly missing.
func noFitCode(e *placement.NoFitError) string {
	if len(e.Reasons) == 0 && e.Fit == 0 {
		return "no_device"
	}
	return codeOfReasons(e.Reasons)
}

func codeOfReasons(reasons []placement.Reason) string {
	code := "no_fitting_device"
	for _, r := range reasons {
		switch {
		case r.Code == placement.NoMemory, r.Code == placement.TooSmall && r.Needs > 0:
			return "insufficient_memory"
		case r.Code == placement.NoSlot:
			code = "no_slot"
		}
	}
	return code
}

// numbersOf returns the numbers behind a refusal, and what is in the way on each device.
func numbersOf(e *placement.NoFitError) map[string]any {
	return map[string]any{
		"requested_mb": e.Request.Memory, "available_mb": max(e.LargestNow, gpu.MiB(0)), "largest_ever_mb": e.LargestEver,
		"possible": e.Ever, "devices": obstaclesOf(e.Reasons), "hint": e.Hint,
	}
}

func obstaclesOf(reasons []placement.Reason) []api.Obstacle {
	obstacles := make([]api.Obstacle, 0, len(reasons))
	for _, r := range reasons {
		obstacles = append(obstacles, api.Obstacle{GPU: r.GPU, Code: string(r.Code), Text: r.Text})
	}
	return obstacles
}

// wrongWait refuses a wait that is out of range.
func wrongWait() *Refusal {
	return wrongFields(lease.FieldErrors{{Field: "timeout_seconds", Detail: fmt.Sprintf("must be from 0 to %.0f", lease.MaxWait.Seconds())}})
}

// notMoved returns the refusal for a lease whose memory was not moved.
func notMoved(err *move.RefusedError) *Refusal {
	return because(err, Conflict, string(err.Code), err.Next)
}

// notPaced returns the refusal for a lease that must not be paced.
func notPaced(err *pace.RefusedError) *Refusal {
	if err.Denied {
		return because(err, Conflict, "no_rights_to_pace", "Nothing was stopped. Run the daemon as root, or ask the user of the process.")
	}
	return because(err, Conflict, "cannot_pace", "Nothing was stopped.")
}
