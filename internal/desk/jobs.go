package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/minder"
	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/berth-gpu/berth/internal/when"
)

// Jobs are the programs that berth runs for its users.
type Jobs struct {
	leases    *Leases
	devices   *Devices
	foresight *Foresight

	keeper    *keeper.Keeper // nil if this daemon runs no jobs
	logs      Logs           // nil if this daemon runs no programs
	ledger    *ledger.Ledger
	monitor   *monitor.Monitor
	watchdog  *watchdog.Watchdog // nil if nothing ends programs that use too much
	processes process.Table
	config    func() *config.Config
	record    recorder
}

// mayRun refuses a caller for whom no program may be run. A caller whom the user database had not named in time gets
// its name: a job has the groups, and so the limits, of the name that is written down with it.
func (d *Jobs) mayRun(by *Caller) error {
	if err := refuseRun(by, d.keeper == nil || d.config().Jobs == "off", os.Geteuid(), d.processes.SeesOurFiles); err != nil {
		return err
	}
	number := strconv.Itoa(by.UID)
	if by.User != number || by.UID == os.Geteuid() { // the user of the daemon needs no name
		return nil
	}
	names := d.leases.people.users
	name := names.Of(by.UID)
	if name == number && !names.Settled(by.UID) {
		return Refuse(Unavailable, "no_answer", "The user database has not said yet who the user %s is. Ask again. Nothing was changed.", number)
	}
	by.User, by.Holder.User = name, name
	return nil
}

// refuseRun refuses a caller for whom a daemon of some user runs no program.
func refuseRun(by *Caller, off bool, daemon int, seesOurFiles func(process.ID) bool) error {
	no := func(format string, args ...any) error { return Refuse(Forbidden, "cannot_run", format, args...) }
	switch {
	case off:
		return Refuse(Forbidden, "jobs_off", "This daemon runs no jobs: jobs is off in its configuration. Use berth exec, which runs a program itself. Nothing was changed.")
	case !by.Certain || by.UID == access.NoUID:
		return no("berth runs jobs only for users whom the kernel names: call over the Unix socket from this machine, outside of containers and without a token, or from your session on the page (not as root). An administrator can bind a token to a user: berth token create --as. Nothing was changed.")
	case daemon != 0 && by.UID != daemon:
		return no("This daemon is not root, so it runs jobs only for the user who runs it. Start a daemon of your own, or use berth exec. Nothing was changed.")
	case by.Door == access.Socket && by.Token == "" && !seesOurFiles(process.ID{PID: by.Holder.PID, Start: by.Holder.Start}):
		return no("The caller sees other files than the machine does, or nobody knows: it is in a mount namespace of its own, or has ended. Submit from outside of it. Nothing was changed.")
	}
	return nil
}

// Submit takes in a job, or says what would become of it.
func (d *Jobs) Submit(ctx context.Context, by Caller, w api.JobRequest) (api.Job, error) {
	if err := d.mayRun(&by); err != nil {
		return api.Job{}, Refused(err)
	}
	s, errs := d.spec(&by, &w)
	if errs != nil {
		return api.Job{}, wrongFields(errs)
	}
	return d.take(ctx, &by, s, w.Environment, w.DryRun)
}

// take takes in a job that was checked.
func (d *Jobs) take(ctx context.Context, by *Caller, s job.Spec, environment []string, dry bool) (api.Job, error) {
	if err := keeper.Fits(&s); err != nil {
		return api.Job{}, refusedJob(err)
	}
	request, err := d.couldRun(by, &s)
	if err != nil {
		return api.Job{}, Refused(err)
	}
	if dry {
		s.Number = 1
		shown := keeper.Preview(&s)
		shown.ID, shown.Estimate = s.Name+"-…", d.estimateJob(&s, request)
		return shown, nil
	}
	warning := ""
	if !s.Hold && !afterOthers(&s) && !s.Begin.After(time.Now()) {
		warning = d.foresight.unknownStart(request) // now: afterwards it would wait for the job itself
	}
	by.aside()
	taken, err := d.keeper.Submit(s, environment, lease.ByOf(by.Actor))
	by.back(ctx)
	if err != nil {
		return api.Job{}, refusedJob(err)
	}
	shown, err := d.keeper.Show(job.Ref{Number: taken.Number})
	if err != nil {
		return api.Job{}, refusedJob(err)
	}
	out := d.seen(by.Actor, shown)
	out.Warning = warning
	return out, nil
}

// afterOthers reports whether other jobs end before a job begins.
func afterOthers(s *job.Spec) bool { return len(s.After)+len(s.AfterAny)+len(s.AfterFailed) > 0 }

// estimateJob returns when the first task of a job would begin that is not submitted yet.
func (d *Jobs) estimateJob(s *job.Spec, r lease.Request) *api.Estimate {
	switch {
	case s.Hold:
		return &api.Estimate{Unknown: "it is held until somebody lets it go"}
	case afterOthers(s):
		return &api.Estimate{Unknown: "it waits for other jobs"}
	}
	e := d.foresight.estimateNew(r)
	for _, at := range []*time.Time{e.Likely, e.Late, e.Latest} {
		if at != nil {
			*at = latest(*at, s.Begin)
		}
	}
	return e
}

// estimateFirst returns when the first of the tasks of a job that stand in the queue will
// probably begin. It returns nil if none stands there, or if nobody looks ahead so far.
func (d *Jobs) estimateFirst(s keeper.Shown) *api.Estimate {
	var first *api.Estimate
	for _, id := range s.Queue {
		e := d.foresight.Estimate(keeper.KeyOf(s.Spec, id))
		if first == nil || e != nil && e.Likely != nil && (first.Likely == nil || e.Likely.Before(*first.Likely)) {
			first = e
		}
	}
	return first
}

// couldRun returns the request for the lease of a task. It refuses a job whose lease this
// machine can never grant, or whose limits nobody could enforce.
func (d *Jobs) couldRun(by *Caller, s *job.Spec) (lease.Request, error) {
	if s.CPUs > 0 || s.Host > 0 {
		if err := d.logs.CanLimit(); err != nil {
			return lease.Request{}, because(err, Conflict, "cannot_limit", "Leave out --cpus and --host-memory (cpus, host_memory_mb). Nothing was changed.")
		}
	}
	ask := keeper.AskOf(s, "", s.Submitted, s.Priority)
	r, err := d.leases.resolve(by, wishOf(&ask))
	if err != nil {
		return lease.Request{}, err
	}
	e, err := d.ledger.Explain(r.Request)
	if err == nil && e.Refusal != nil && !e.Refusal.Ever {
		err = e.Refusal
	}
	return r.Request, err
}

// The limits of the fields of a job that the schema cannot express.
const (
	mostSignal  = 3600.0
	leastUmask  = 0
	mostUmask   = 0o777
	defaultMask = 0o022
)

// spec checks a request for a job, and returns the job without its number.
func (d *Jobs) spec(by *Caller, w *api.JobRequest) (s job.Spec, errs lease.FieldErrors) {
	wrong := func(is bool, field, format string, args ...any) {
		if is {
			errs = append(errs, lease.FieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
		}
	}
	s = job.Spec{
		Name: cmp.Or(w.Name, "job"), Called: w.Name, UID: by.UID, User: by.User, Submitted: when.Now(), Command: w.Command, Directory: w.Directory,
		Umask: w.Umask.Or(defaultMask), Output: w.Output, Error: w.Error, Params: w.Params, Hold: w.Hold, Retry: w.Retry, Requeue: job.Repeat(w.Requeue),
		Signal: strings.TrimPrefix(strings.ToUpper(w.Signal), "SIG"), CPUs: w.CPUs, Host: w.HostMemory, Compute: w.Compute, Lease: w.Lease,
	}
	if w.Name != "" {
		detail := job.NameProblem(w.Name)
		wrong(detail != "", "name", "%s", detail)
	}
	wrong(len(w.Command) == 0 || len(w.Command) > 0 && w.Command[0] == "", "command", "is empty; say what to run")
	for _, f := range []struct {
		field string
		words []string
	}{{"command", w.Command}, {"environment", w.Environment}, {"directory", []string{w.Directory}}, {"output", []string{w.Output}}, {"error", []string{w.Error}}} {
		wrong(slices.ContainsFunc(f.words, func(word string) bool { return strings.ContainsRune(word, 0) }), f.field, "has a NUL character, which no program can get")
	}
	wrong(w.Directory != "" && (!path.IsAbs(w.Directory) || path.Clean(w.Directory) != w.Directory), "directory", "is %q; write a whole path, without . and ..", words.Cut(w.Directory, 128))
	size := 0
	for _, variable := range w.Environment {
		name, _, is := strings.Cut(variable, "=")
		if !is || name == "" {
			wrong(true, "environment", "has an entry that is not NAME=VALUE")
			break
		}
		size += len(variable) + 1
	}
	wrong(size > keeper.MostEnvironment, "environment", "has %d bytes; %d are allowed. Export less, or submit with --export none", size, keeper.MostEnvironment)
	wrong(s.Umask < leastUmask || s.Umask > mostUmask, "umask", "is %#o; it must be from 0 to 0777", s.Umask)
	wrong(w.Signal == "" && w.Warning.Known(), "signal_seconds", "is set, and signal is not")
	wrong(s.Signal != "" && !knownSignal(s.Signal), "signal", "is %q; write the name of a signal, as in USR1", words.Cut(w.Signal, 16))
	seconds := w.Warning.Or(60)
	wrong(!(seconds >= 0 && seconds <= mostSignal), "signal_seconds", "must be from 0 to %v", mostSignal)
	s.Warning = time.Duration(seconds * float64(time.Second))
	wrong(s.Signal != "" && !w.Lease.TimeLimit.Known(), "signal", "comes before the time limit, and the job has none; set time_limit_seconds")
	wrong(w.Requeue == string(job.OnTime) && !w.Lease.TimeLimit.Known(), "requeue", "is time, and the job has no time limit; set time_limit_seconds")
	wrong(s.Retry < 0 || s.Retry > job.MostRetries, "retry", "must be from 0 to %d", job.MostRetries)
	if w.Begin != nil {
		s.Begin = *w.Begin
		wrong(time.Until(s.Begin) > 366*24*time.Hour, "begin", "is more than a year away")
	}
	errs = append(errs, tasksOf(w, &s)...)
	errs = append(errs, leaseOf(by, &s)...)
	errs = append(errs, d.refsOf(w, &s)...)
	return s, errs
}

func knownSignal(name string) bool {
	_, known := process.SignalOf(name)
	return known
}

// tasksOf reads the array and the parameters of a job.
func tasksOf(w *api.JobRequest, s *job.Spec) (errs lease.FieldErrors) {
	wrong := func(field, format string, args ...any) {
		errs = append(errs, lease.FieldError{Field: field, Detail: fmt.Sprintf(format, args...)})
	}
	array := w.Array
	if most, alone := strings.CutPrefix(array, "%"); alone && len(w.Params) > 0 { // how many combinations run at a time
		array = "1%" + most
	} else if array != "" && len(w.Params) > 0 {
		wrong("array", "is set beside params; a job has an array or parameters. With params, %%4 alone runs 4 tasks at a time")
		return errs
	}
	if array != "" {
		numbers, most, err := job.ParseArray(array)
		if err != nil {
			wrong("array", "%v", err)
			return errs
		}
		if s.Most = most; len(w.Params) == 0 {
			s.Array = numbers
		}
	}
	total, names := 1, map[string]bool{}
	for _, p := range w.Params {
		if total *= len(p.Values); total > job.MostTasks || total == 0 {
			wrong("params", "have more than %d combinations, or none", job.MostTasks)
			return errs
		}
		if names[p.Name] {
			wrong("params", "have %s twice", p.Name)
		}
		names[p.Name] = true
		for _, value := range p.Values {
			if strings.ContainsRune(value, 0) {
				wrong("params", "have a NUL character, which no program can get")
			}
		}
	}
	return errs
}

// leaseOf checks the lease of a job, and completes it.
func leaseOf(by *Caller, s *job.Spec) (errs lease.FieldErrors) {
	l := &s.Lease
	for _, f := range []struct {
		field string
		set   bool
	}{
		{"id", l.ID != ""}, {"parent", l.Parent != ""}, {"parent_fence", l.ParentFence != 0}, {"pool", l.Pool}, {"from_pool", l.FromPool != ""}, {"binding", l.Binding != ""}, {"pid", l.PID != 0}, {"ttl_seconds", l.TTL.Known()},
		{"unit", l.Unit != ""}, {"scope", len(l.Scope) > 0}, {"parts", len(l.Parts) > 0}, {"admitted", l.Admitted},
	} {
		if f.set {
			errs = append(errs, lease.FieldError{Field: "lease." + f.field, Detail: "is berth's own for jobs; leave it out"})
		}
	}
	if l.Name == "" {
		l.Name = s.Called
	}
	if wait := l.Timeout.Or(0); !(wait >= 0) {
		errs = append(errs, lease.FieldError{Field: "lease.timeout_seconds", Detail: "is below 0; leave it out to wait without limit"})
	}
	l.Enforce = cmp.Or(l.Enforce, "auto")
	l.Learned = l.Memory == 0 && !l.AllMemory && !l.Exclusive // where nothing was learned, a job gets what a plain exec gets
	if s.Priority = l.Priority.Or(0); s.Priority > 0 && access.May(by.Actor, access.Precede, access.Object{}) != nil {
		errs = append(errs, lease.FieldError{Field: "lease.priority", Detail: "is above 0; operators raise priorities, and you may lower yours"})
	}
	l.Priority = gpu.Opt[int]{}
	return errs
}

// refsOf finds the jobs that a job waits for.
func (d *Jobs) refsOf(w *api.JobRequest, s *job.Spec) (errs lease.FieldErrors) {
	for _, f := range []struct {
		field string
		ids   []string
		into  *[]job.Ref
	}{{"after", w.After, &s.After}, {"after_any", w.AfterAny, &s.AfterAny}, {"after_failed", w.AfterFailed, &s.AfterFailed}} {
		for _, id := range f.ids {
			r, _, err := d.keeper.Seek(id)
			if err != nil {
				errs = append(errs, lease.FieldError{Field: f.field, Detail: fmt.Sprintf("names %q, and there is no such job; berth jobs --all lists them", words.Cut(id, 128))})
				continue
			}
			if !slices.Contains(*f.into, r) {
				*f.into = append(*f.into, r)
			}
		}
	}
	return errs
}

// refusedJob returns the refusal for an error of the keeper of jobs.
func refusedJob(err error) *Refusal {
	switch {
	case errors.Is(err, keeper.ErrUnknown):
		return because(err, Unknown, "unknown_job", "berth jobs --all (GET /api/jobs) lists them.")
	case errors.Is(err, keeper.ErrState):
		return because(err, Conflict, "wrong_state", "Nothing was changed.")
	case errors.Is(err, keeper.ErrLimit):
		return because(err, Crowded, "too_many_jobs", "Nothing was submitted.")
	}
	return Refused(err)
}

// find finds a job that a caller may act on.
func (d *Jobs) find(by *Caller, verb access.Verb, id string) (job.Ref, *job.Spec, error) {
	if d.keeper == nil {
		return job.Ref{}, nil, keeper.ErrUnknown
	}
	r, s, err := d.keeper.Seek(id)
	if err == nil && verb != access.Look {
		owner := s.User
		if access.May(by.Actor, access.Name, access.Object{}) != nil {
			owner = "" // the refusal names the owner
		}
		if err := access.May(by.Actor, verb, access.Of(access.Held, s.UID, owner)); err != nil {
			return r, s, fmt.Errorf("%s %s: %w", verb, id, err)
		}
	}
	return r, s, err
}

// JobChange is what the desk does to a job of somebody.
type JobChange string

// The changes.
const (
	CancelJob JobChange = "cancel"
	HoldJob   JobChange = "hold"
	UnholdJob JobChange = "unhold"
)

// Change cancels, holds or lets go a job or a task.
func (d *Jobs) Change(ctx context.Context, by Caller, id string, what JobChange, why string) (api.Job, error) {
	verb := access.Hold
	if what == CancelJob {
		verb = access.Cancel
	}
	r, s, err := d.find(&by, verb, id)
	if err == nil && what == UnholdJob {
		err = d.mayRun(&by)
	}
	if err != nil {
		return api.Job{}, refusedJob(err)
	}
	act := keeper.Act{Ref: r, By: by.Actor, Why: gpu.Printable(why, 256)}
	change := d.keeper.Unhold
	switch what {
	case CancelJob:
		change = d.keeper.Cancel
	case HoldJob:
		change = d.keeper.Hold
	}
	return d.changed(ctx, &by, verb, s, id, map[string]string{"job": string(what)}, func() error {
		if err := change(act); err != nil {
			return fmt.Errorf("%s %s: %w", what, id, err)
		}
		return nil
	})
}

// changed changes a job, records that if it is somebody else's, and returns the job.
func (d *Jobs) changed(ctx context.Context, by *Caller, verb access.Verb, s *job.Spec, id string, after map[string]string, do func() error) (api.Job, error) {
	by.aside()
	var err error
	if access.Owns(by.Actor, access.Of(access.Held, s.UID, s.User)) {
		err = do()
	} else {
		err = d.record.act(api.AuditEntry{Who: audit.Who(by.Actor), What: verb.String(), Object: api.AuditObject{Kind: "job", Owner: s.User, ID: id}, After: after}, do)
	}
	by.back(ctx)
	if err != nil {
		return api.Job{}, refusedJob(err)
	}
	return d.Show(by.Actor, id)
}

// Prioritize gives a job another priority. Owners lower it, operators set it.
func (d *Jobs) Prioritize(ctx context.Context, by Caller, id string, b api.JobChange) (api.Job, error) {
	r, s, err := d.find(&by, access.Hold, id)
	if err != nil {
		return api.Job{}, refusedJob(err)
	}
	priority, given := b.Priority.Get()
	now, err := d.keeper.Show(r)
	switch {
	case err != nil:
		return api.Job{}, refusedJob(err)
	case !given:
		return api.Job{}, wrongFields(lease.FieldErrors{{Field: "priority", Detail: "is missing"}})
	case r.One:
		return api.Job{}, Refuse(Conflict, "not_a_job", "A task has the priority of its job. Name the job, %s. Nothing was changed.", s.ID())
	case priority < -lease.MaxPriority || priority > lease.MaxPriority:
		return api.Job{}, wrongFields(lease.FieldErrors{{Field: "priority", Detail: words.NumberProblem(priority, -lease.MaxPriority, lease.MaxPriority)}})
	case priority > now.Priority && access.May(by.Actor, access.Precede, access.Object{}) != nil:
		return api.Job{}, Refuse(Forbidden, "not_allowed", "%s has the priority %d. You may lower it; an operator raises it. Nothing was changed.", id, now.Priority)
	}
	return d.changed(ctx, &by, access.Hold, s, id, map[string]string{"priority": fmt.Sprint(priority)}, func() error {
		if err := d.keeper.Prioritize(r, priority); err != nil {
			return fmt.Errorf("change the priority of %s: %w", id, err)
		}
		return nil
	})
}

// Redo submits a job again, or those of its tasks that did not end well, under a new
// id. Only its owner may: the new job runs as the caller.
func (d *Jobs) Redo(ctx context.Context, by Caller, id string, b api.JobRedo) (api.Job, error) {
	r, old, err := d.find(&by, access.Look, id)
	if err != nil {
		return api.Job{}, refusedJob(err)
	}
	if err := d.mayRun(&by); err != nil {
		return api.Job{}, Refused(err)
	}
	if old.UID != by.UID {
		return api.Job{}, Refuse(Forbidden, "not_yours", "%s belongs to %s, and a job runs as the user who submits it. Only its owner can submit it again. Nothing was changed.", id, old.User)
	}
	s := *old
	s.Submitted, s.Begin, s.Hold, s.Environment, s.User = when.Now(), time.Time{}, false, "", by.User
	s.After, s.AfterAny, s.AfterFailed = nil, nil, nil
	if access.May(by.Actor, access.Precede, access.Object{}) != nil {
		s.Priority = min(s.Priority, 0) // the caller may no longer go before others
	}
	if b.Failed || r.One {
		again, err := d.tasksAgain(r, b.Failed)
		switch {
		case err != nil:
			return api.Job{}, refusedJob(err)
		case len(again) == 0 && old.Many() && !r.One:
			return api.Job{}, Refuse(Conflict, "wrong_state", "No task of %s has ended badly. Nothing was submitted.", id)
		case len(again) == 0:
			return api.Job{}, Refuse(Conflict, "wrong_state", "%s has not ended badly; leave out failed (--failed) to submit it again. Nothing was submitted.", id)
		case old.Many():
			all := old.Array
			if len(all) == 0 {
				all = job.Array{{First: 1, Last: old.Tasks(), Step: 1}}
			}
			s.Array = all.Only(func(index int) bool { return again[index] })
		}
	}
	environment, err := d.keeper.Environment(old.Number)
	if err != nil {
		return api.Job{}, because(err, Failed, "no_environment", "Its environment cannot be read; submit it anew. Nothing was submitted.")
	}
	return d.take(ctx, &by, s, environment, false)
}

// tasksAgain returns the indexes of the tasks that a task or a job means: all, or only those
// that did not end well.
func (d *Jobs) tasksAgain(r job.Ref, failed bool) (map[int]bool, error) {
	shown, err := d.keeper.Show(r)
	if err != nil {
		return nil, err
	}
	tasks := d.keeper.Tasks(r.Number)
	if r.One || !shown.Spec.Many() {
		tasks = slices.Values([]keeper.Shown{shown})
	}
	again := map[int]bool{}
	for t := range tasks {
		if state := t.Task.State; !failed || state.Over() && state != job.Done {
			again[t.Index] = true
		}
	}
	return again, nil
}

// Show returns a job or a task as a caller may see it, without the tasks of the job.
func (d *Jobs) Show(by access.Actor, id string) (api.Job, error) {
	r, _, err := d.find(&Caller{Actor: by}, access.Look, id)
	var shown keeper.Shown
	if err == nil {
		shown, err = d.show(r)
	}
	if err != nil {
		return api.Job{}, refusedJob(err)
	}
	return d.foreseen(by, shown), nil
}

// show returns a job or a task, with the log that its minder has opened.
func (d *Jobs) show(r job.Ref) (keeper.Shown, error) {
	shown, err := d.keeper.Show(r)
	if err == nil && shown.Log == "" && shown.Task.State == job.Running {
		d.keeper.NoteLog(r)
		return d.keeper.Show(r)
	}
	return shown, err
}

// Tasks returns the tasks of a job as a caller may see them. A task, and a job with
// one task, have none. It reads a task when its turn comes.
func (d *Jobs) Tasks(by access.Actor, id string) iter.Seq[api.Job] {
	r, _, err := d.find(&Caller{Actor: by}, access.Look, id)
	if err != nil || r.One {
		return func(func(api.Job) bool) {}
	}
	return d.seenAll(by, d.keeper.Tasks(r.Number))
}

// List returns jobs as a caller may see them, the newest first, and the number after
// which the list goes on; 0 if it does not. It reads a job when its turn comes.
func (d *Jobs) List(by access.Actor, q keeper.Query) (iter.Seq[api.Job], int64) {
	none := func(func(api.Job) bool) {}
	if d.keeper == nil {
		return none, 0
	}
	if len(q.Users) > 0 && access.May(by, access.Name, access.Object{}) != nil { // whose jobs are whose is not for this caller
		q.Users = slices.DeleteFunc(q.Users, func(user string) bool { return !ownName(by, user) })
		if len(q.Users) == 0 {
			return none, 0
		}
	}
	found, next := d.keeper.List(q)
	return d.seenAll(by, found), next
}

// ownName reports whether a caller is the user with a login name or a user id.
func ownName(by access.Actor, user string) bool {
	return by.UID != access.NoUID && (user == by.User || user == strconv.Itoa(by.UID))
}

func (d *Jobs) seenAll(by access.Actor, all iter.Seq[keeper.Shown]) iter.Seq[api.Job] {
	return func(yield func(api.Job) bool) {
		for shown := range all {
			if !yield(d.foreseen(by, shown)) {
				return
			}
		}
	}
}

// Await returns when a job or a task has ended, or ctx has.
func (d *Jobs) Await(ctx context.Context, by *Caller, id string) {
	r, _, err := d.find(by, access.Look, id)
	if err == nil {
		by.aside()
		d.keeper.Await(ctx, r)
		by.back(ctx)
	}
}

// foreseen returns a job as a caller may see it, with what its lease says, and when it
// will begin if it waits. If it does not stand in the queue, then what it waits for is why
// that is not known.
func (d *Jobs) foreseen(by access.Actor, s keeper.Shown) api.Job {
	j := d.seen(by, s)
	if j.State != string(job.Waiting) {
		return j
	}
	if j.Estimate = d.estimateFirst(s); len(s.Queue) == 0 && j.Cause != "" {
		j.Estimate = &api.Estimate{Unknown: j.Cause}
	}
	if err := d.limitedAll(s); err != nil && j.Code == string(job.ForTurn) {
		if j.Code = string(job.ForQuota); j.Cause != "" {
			j.Cause = QuotaText(err, lease.Holder{UID: s.Spec.UID, User: s.Spec.User}, by)
		}
	}
	return j
}

// limitedAll returns why limits keep the tasks of a job that stand in the queue; nil if one
// of them waits for something else.
func (d *Jobs) limitedAll(s keeper.Shown) (err error) {
	for _, id := range s.Queue {
		if err = d.foresight.Limited(keeper.KeyOf(s.Spec, id)); err == nil {
			return nil
		}
	}
	return err
}

// seen returns a job as a caller may see it, with what its lease says. Of others' jobs
// everybody sees who has what, where and since when.
func (d *Jobs) seen(by access.Actor, s keeper.Shown) api.Job {
	j := s.Job
	if s.Task.State == job.Running || s.Task.State == job.Starting {
		if held := d.ledger.Lease(keeper.KeyOf(s.Spec, j.ID), s.Task.Fence); held != nil {
			if held.State != lease.Active {
				j.State = "parked"
			}
			if energy, known := d.devices.EnergyOf(held.Fence).Get(); known {
				j.Energy = gpu.Some(float64(energy))
			}
		}
	}
	if access.May(by, access.Inspect, access.Of(access.Held, s.Spec.UID, s.Spec.User)) == nil {
		s.Whole(&j)
		return j
	}
	user := j.User
	if access.May(by, access.Name, access.Object{}) != nil {
		user = "another user"
	}
	return api.Job{
		ID: j.ID, Job: j.Job, Name: j.Name, User: user, Service: j.Service, State: j.State, Code: j.Code, Submitted: j.Submitted, Begin: j.Begin, Started: j.Started, Ended: j.Ended,
		Priority: j.Priority, GPUs: j.GPUs, Memory: j.Memory, Devices: j.Devices, Lease: j.Lease, TimeLimit: j.TimeLimit, Estimate: j.Estimate, Tasks: j.Tasks,
	}
}

// Log writes the log of a job or a task to w. A process with the rights of the owner
// reads it. Begin is called before anything is written.
func (d *Jobs) Log(ctx context.Context, by Caller, id string, q LogQuery, begin func(offset int64), w io.Writer) error {
	r, s, err := d.find(&by, access.Inspect, id)
	var shown keeper.Shown
	if err == nil {
		shown, err = d.show(r)
	}
	if err != nil {
		return refusedJob(err)
	}
	if s.Many() && !r.One {
		return Refuse(Conflict, "not_a_task", "%s has %s. Name one of them, as in %s. berth job %s lists them.", id, words.Count(s.Tasks(), "task"), s.TaskID(0), id)
	}
	until := make(chan struct{})
	if q.Follow {
		go func() {
			defer close(until)
			d.keeper.Await(ctx, r)
		}()
		if err := d.keeper.AwaitStart(ctx, r); err != nil {
			return refusedJob(err)
		}
		if shown, err = d.keeper.Show(r); err != nil {
			return refusedJob(err)
		}
	} else {
		close(until)
	}
	file := shown.Log
	if q.Errors {
		file = shown.ErrorLog
	}
	if file == "" {
		switch {
		case q.Errors && shown.Log != "":
			return Refuse(Unknown, "no_log", "%s has no log of its own for errors: they are in its log.", id)
		case shown.Task.State.Over():
			return Refuse(Unknown, "no_log", "%s has no log: its command was never started (%s).", id, cmp.Or(shown.Cause, shown.State))
		}
		return Refuse(Unknown, "no_log", "%s has no log yet: it is %s. berth logs --follow %s waits for it.", id, shown.State, id)
	}
	err = d.logs.ReadLog(ctx, minder.Reading{User: s.User, UID: s.UID, Path: file, Lines: q.Lines, Follow: q.Follow}, until, begin, w)
	if errors.Is(err, fs.ErrNotExist) {
		return Refuse(Unknown, "no_log", "The log of %s is gone: there is no file %s any more.", id, file)
	}
	if err != nil && ctx.Err() == nil {
		return because(err, Failed, "log_failed", "")
	}
	return nil
}
