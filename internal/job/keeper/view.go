package keeper

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Shown is a job or a task as the API shows it to its owner, except for what Whole adds,
// and what else the desk needs to know of it.
type Shown struct {
	api.Job
	Spec  *job.Spec
	Index int // of the task; 0 for a job with several
	Task  job.Task
	Queue []string // ids of those of its tasks that stand in the queue of leases
}

// Whole adds what only the owner of a job sees and may be large, so that nobody makes it
// for others, with a lock, or for more than one task at a time.
func (s *Shown) Whole(j *api.Job) {
	if j.Command = s.Spec.Command; j.Tasks == nil {
		j.Command, j.Params = s.Spec.CommandOf(s.Index), s.Spec.ParamValues(s.Index)
	}
}

// view returns what look sees of the jobs while none of them changes. Nothing is locked if
// look panics.
func view[T any](k *Keeper, look func() T) T {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return look()
}

// Seek returns the job or the task that an id names.
func (k *Keeper) Seek(id string) (job.Ref, *job.Spec, error) {
	named, err := job.ParseID(id)
	if err != nil {
		return job.Ref{}, nil, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	j := k.job(named.Number)
	if j == nil || j.Name != named.Name {
		return job.Ref{}, nil, fmt.Errorf("%w: %s", ErrUnknown, id)
	}
	if _, known := j.TaskIndex(named.Task); named.One && (!known || !j.Many()) {
		return job.Ref{}, nil, fmt.Errorf("%w: %s", ErrUnknown, id)
	}
	return named.Ref, j.Spec, nil
}

// Show returns a job, or one of its tasks.
func (k *Keeper) Show(r job.Ref) (Shown, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	j := k.job(r.Number)
	if j == nil {
		return Shown{}, ErrUnknown
	}
	if !r.One {
		return k.show(j), nil
	}
	index, known := j.TaskIndex(r.Task)
	if !known {
		return Shown{}, ErrUnknown
	}
	return k.showTask(j, index), nil
}

// Tasks returns the tasks of a job that may have several. It reads a task when its turn
// comes.
func (k *Keeper) Tasks(number int64) iter.Seq[Shown] {
	return func(yield func(Shown) bool) {
		j := view(k, func() *kept { return k.job(number) })
		if j == nil || !j.Many() {
			return
		}
		for i := range j.total() {
			if !yield(view(k, func() Shown { return k.showTask(j, i) })) {
				return
			}
		}
	}
}

// Query selects jobs. The zero value selects all.
type Query struct {
	Users  []string  // login names or user ids: any of these; none means all
	States []string  // as the API calls them: any of these
	Since  time.Time // jobs that have not ended, or later
	Before int64     // jobs with a smaller number; 0 means all
	Most   int
}

// List returns jobs, the newest first, and the number of the last one; 0 if there are no
// more. It reads a job when its turn comes, and leaves it out if the query does not select
// it any more.
func (k *Keeper) List(q Query) (iter.Seq[Shown], int64) {
	numbers, more := k.selected(&q)
	var last int64
	if more {
		last = numbers[len(numbers)-1]
	}
	return func(yield func(Shown) bool) {
		for _, n := range numbers {
			shown := view(k, func() *Shown {
				if !k.selects(&q, n) {
					return nil
				}
				shown := k.show(k.job(n))
				return &shown
			})
			if shown != nil && !yield(*shown) {
				return
			}
		}
	}, last
}

// selected returns the numbers of jobs, the largest first, and whether there are more. It
// looks at them in pieces, between which jobs may change.
func (k *Keeper) selected(q *Query) (numbers []int64, more bool) {
	for before, left := q.Before, true; left && !more; {
		numbers, before, more, left = k.selectSome(q, before, numbers)
	}
	return numbers, more
}

// lookedAtOnce limits the jobs that are looked at while none can change. Each takes up to
// 1 µs.
const lookedAtOnce = 1000

// selectSome adds the numbers of selected jobs among the next ones before a number. It
// returns where to go on, and whether there is more than the query wants, and any left.
func (k *Keeper) selectSome(q *Query, before int64, numbers []int64) (all []int64, next int64, more, left bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	end := len(k.numbers)
	if before > 0 {
		end, _ = slices.BinarySearch(k.numbers, before)
	}
	some := k.numbers[max(end-lookedAtOnce, 0):end]
	for _, n := range slices.Backward(some) {
		if !k.selects(q, n) {
			continue
		}
		if len(numbers) == q.Most {
			return numbers, 0, true, false
		}
		numbers = append(numbers, n)
	}
	if len(some) == 0 {
		return numbers, 0, false, false
	}
	return numbers, some[0], false, some[0] > 1
}

// selects reports whether a query selects a job. The caller holds mu.
func (k *Keeper) selects(q *Query, number int64) bool {
	if p := k.past[number]; p != nil {
		return q.of(p.owner.uid, p.user) && !p.over.Before(q.Since) && p.in(q.States)
	}
	j := k.jobs[number]
	return j != nil && q.of(j.UID, j.User) && (j.over.IsZero() || !j.over.Before(q.Since)) && j.in(q.States)
}

// of reports whether jobs of a user are asked for.
func (q *Query) of(uid int, user string) bool {
	return len(q.Users) == 0 || slices.Contains(q.Users, user) || slices.Contains(q.Users, strconv.Itoa(uid))
}

// in reports whether a task of the job is in one of these states. No state means any.
func (j *kept) in(states []string) bool {
	if len(states) == 0 {
		return true
	}
	for s, n := range j.counts {
		if s == job.Waiting && j.stays() {
			s = job.Held
		}
		if n > 0 && slices.Contains(states, string(s.Shown())) {
			return true
		}
	}
	return false
}

// Await returns when a job or a task has ended, or ctx has.
func (k *Keeper) Await(ctx context.Context, r job.Ref) {
	for {
		k.mu.Lock()
		j := k.jobs[r.Number]
		if j == nil || !j.over.IsZero() {
			k.mu.Unlock()
			return
		}
		if index, known := j.TaskIndex(r.Task); r.One && (!known || j.task(index).State.Over()) {
			k.mu.Unlock()
			return
		}
		if j.changed == nil {
			j.changed = make(chan struct{})
		}
		changed := j.changed
		k.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// AwaitStart returns when a task has begun, or has ended without, or ctx has.
func (k *Keeper) AwaitStart(ctx context.Context, r job.Ref) error {
	for {
		shown, err := k.Show(r)
		if err != nil || shown.Log != "" || shown.Task.State.Over() {
			return err
		}
		if t := shown.Task; t.State == job.Running {
			k.NoteLog(r)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(startedPause):
		}
	}
}

// startedPause is how often a reader of a log looks whether there is one.
const startedPause = 250 * time.Millisecond

// NoteLog notes the logs that the minder of a task has opened.
func (k *Keeper) NoteLog(ref job.Ref) {
	k.writing.Lock()
	defer k.writing.Unlock()
	j := k.jobs[ref.Number]
	if j == nil {
		return
	}
	index, known := j.TaskIndex(ref.Task)
	if !known || j.task(index).State != job.Running || j.task(index).Output != "" {
		return
	}
	record, _, err := k.Minders.Read(j.running(index).name())
	if err != nil || record.Output == "" {
		return
	}
	t := *j.task(index)
	t.Output, t.Error, t.Started = record.Output, record.Error, record.Started
	k.mu.Lock()
	k.put(j, index, index, &t) // the record has it until the run has ended
	k.mu.Unlock()
}

// Environment returns the environment of a job; nil if it has the plain one.
func (k *Keeper) Environment(number int64) ([]string, error) {
	j := view(k, func() *kept { return k.job(number) })
	if j == nil {
		return nil, ErrUnknown
	}
	return k.environments.read(j.Environment)
}

// Preview returns a job as it would be shown if it were submitted now.
func Preview(s *job.Spec) api.Job {
	k := newKeeper(Options{})
	j := k.add(s, 0)
	j.condition = job.Met
	shown := k.show(j)
	shown.Whole(&shown.Job)
	return shown.Job
}

// Usage is how many jobs there are, for metrics and limits.
type Usage struct {
	Tasks map[job.State]int // in each state
	Ended map[job.State]uint64
}

// Usage returns how many jobs there are.
func (k *Keeper) Usage() Usage {
	k.mu.RLock()
	defer k.mu.RUnlock()
	u := Usage{Tasks: map[job.State]int{}, Ended: maps.Clone(k.finished)}
	for s, n := range k.tasks {
		u.Tasks[s.Shown()] += n
	}
	return u
}

// Of returns how many tasks of a user have a lease or wait for one in the queue, and how
// many have not begun.
func (k *Keeper) Of(uid int) (running, waiting int) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if u := k.users[uid]; u != nil {
		return u.busy + u.queued, u.open
	}
	return 0, 0
}

// show returns a whole job. The caller holds mu.
func (k *Keeper) show(j *kept) Shown {
	if !j.Many() {
		return k.showTask(j, 0)
	}
	s := Shown{Job: j.base(), Spec: j.Spec}
	s.ID, s.Job.Job = j.Spec.ID(), ""
	together := job.Together(j.counts)
	if together == job.Waiting && j.stays() {
		together = job.Held
	}
	s.State = string(together.Shown())
	c := j.counts
	s.Job.Tasks = &api.JobTasks{
		Total: j.total(), Most: j.Most, Held: c[job.Held], Waiting: c[job.Waiting], Running: j.inUse(), Done: c[job.Done],
		Failed: c[job.Failed], Cancelled: c[job.Cancelled], TimedOut: c[job.TimedOut], Lost: c[job.Lost],
	}
	if j.stays() {
		s.Job.Tasks.Held, s.Job.Tasks.Waiting = s.Job.Tasks.Held+s.Job.Tasks.Waiting, 0
	}
	s.Directory = j.Directory
	for index := range j.queued {
		s.Queue = append(s.Queue, j.TaskID(index))
	}
	code, cause := k.why(j, fresh, -1)
	if together == job.Waiting || together == job.Held {
		s.Code, s.Cause = string(code), cause
	}
	if !j.over.IsZero() {
		over := j.over
		s.Ended, s.Exit = &over, j.exit()
		if bad := j.total() - c[job.Done]; bad > 0 {
			s.Cause = fmt.Sprintf("%s of %d did not end well", words.Count(bad, "task"), j.total())
		}
	}
	return s
}

// base returns what all tasks of a job have alike.
func (j *kept) base() api.Job {
	a := api.Job{
		Name: j.Called, User: j.User, Service: j.Lease.Service, Submitted: j.Submitted, Retry: j.Retry, Priority: j.priority,
		GPUs: max(j.Lease.GPUs, 1), Memory: j.Lease.Memory, TimeLimit: j.Lease.TimeLimit.Or(0), CPUs: j.CPUs, HostMemory: j.Host, Comment: j.Lease.Comment,
	}
	if !j.Begin.IsZero() {
		a.Begin = &j.Begin
	}
	return a
}

// showTask returns a task. The caller holds mu.
func (k *Keeper) showTask(j *kept, index int) Shown {
	t := j.task(index)
	s := Shown{Job: j.base(), Spec: j.Spec, Index: index, Task: *t}
	s.ID = j.TaskID(index)
	if j.Many() {
		s.Job.Job = j.Spec.ID()
	}
	s.State = string(t.State.Shown())
	s.Code, s.Cause = string(t.Code), t.Cause
	switch {
	case t.State == job.Stopping:
		s.Cause += "; its programs are about to end"
	case t.State == job.Waiting || t.State == job.Held:
		code, cause := k.why(j, t, index)
		s.Code, s.Cause = string(code), cause
		if j.stays() {
			s.State = string(job.Held)
		}
		if j.queued[index] != nil {
			s.Queue = []string{s.ID}
		}
	case t.State == job.Running:
		s.Code, s.Cause = "", ""
	}
	s.Try, s.Exit, s.Devices = t.Try, t.Exit, t.Devices
	if t.Memory > 0 {
		s.Memory = t.Memory
	}
	if t.State.Busy() {
		s.Lease, s.PID = s.ID, t.PID
	}
	if !t.Started.IsZero() {
		s.Started = &t.Started
	}
	if !t.Ended.IsZero() {
		s.Ended = &t.Ended
	}
	s.Peak, s.Load, s.Energy, s.PeakHost = t.Peak, t.Load, t.Energy, t.PeakHost
	s.Directory, s.Log, s.ErrorLog = j.Directory, t.Output, t.Error
	s.After, s.AfterAny, s.AfterFail = k.names(j.After), k.names(j.AfterAny), k.names(j.AfterFailed)
	return s
}

// names returns the ids of jobs. The caller holds mu.
func (k *Keeper) names(refs []job.Ref) (ids []string) {
	for _, r := range refs {
		if p := k.past[r.Number]; p != nil {
			ids = append(ids, job.ID{Name: p.name, Ref: r}.String())
		} else if j := k.jobs[r.Number]; j != nil {
			ids = append(ids, job.ID{Name: j.Name, Ref: r}.String())
		}
	}
	return ids
}

// why says what a task waits for, that of index -1 for all of a job. The caller holds mu.
func (k *Keeper) why(j *kept, t *job.Task, index int) (job.Code, string) {
	now := time.Now()
	limits := j.owner.limits
	switch {
	case j.bare:
		return job.NoEnvironment, j.bareText()
	case t.State == job.Held:
		return t.Code, t.Cause
	case j.held:
		return job.OnHold, "held until berth unhold " + j.Spec.ID()
	case j.condition == job.Open:
		return job.ForJobs, "waits for " + words.Few(k.open(j), 3)
	case j.Begin.After(now):
		return job.ForBegin, "begins at " + j.Begin.Format("2006-01-02 15:04:05 MST")
	case j.queued[index] != nil:
		return job.ForTurn, "waits for a GPU"
	case t.Code == job.Refused && pauses(t.NotBefore, now):
		return t.Code, t.Cause
	case pauses(t.NotBefore, now):
		return job.ForPause, t.Cause + "; begins again in " + words.Duration(t.NotBefore.Sub(now))
	case index < 0 && len(j.queued) > 0:
		return job.ForTurn, "waits for a GPU"
	case j.Most > 0 && j.inUse() >= j.Most:
		return job.ForTasks, fmt.Sprintf("%d of its tasks run at a time", j.Most)
	case limits.Off:
		return job.ForQuota, "this daemon starts no jobs: jobs is off in its configuration"
	case limits.full(j.owner):
		return job.ForQuota, fmt.Sprintf("%s may run %s at a time", j.User, words.Count(limits.Running.Or(0), "job"))
	}
	return job.BeforeTurn, fmt.Sprintf("others of %s wait for a GPU before it", j.User)
}

// bareText says why a job without its environment is held, and what to do.
func (j *kept) bareText() string {
	return fmt.Sprintf("its environment was not in the backup that it was restored from, so it cannot run: submit it again (berth job %s shows its command) and berth cancel %s", j.Spec.ID(), j.Spec.ID())
}

// open returns the ids of the jobs that a job waits for and that have not ended. The
// caller holds mu.
func (k *Keeper) open(j *kept) []string {
	var open []job.Ref
	for _, r := range refs(j.Spec) {
		if k.jobs[r.Number] == nil { // it has ended, and is packed
			continue
		}
		if ending, _ := k.endingOf(r); ending == job.NotYet {
			open = append(open, r)
		}
	}
	return k.names(open)
}

// submittedEvent says that a job was submitted.
func submittedEvent(j *kept, by gpu.By) gpu.Event {
	text := j.Spec.ID() + " was submitted"
	if j.Many() {
		text += ", with " + words.Count(len(j.tasks), "task")
	}
	return gpu.Event{
		Time: j.Submitted, Code: gpu.EventJobSubmitted, Severity: gpu.Note, User: j.User, By: by, Text: text + ".",
		Data: map[string]any{"job": j.Spec.ID(), "tasks": len(j.tasks)},
	}
}

// startedEvent says that a task has begun.
func startedEvent(r attempt) gpu.Event {
	t, id := r.task(r.index), r.TaskID(r.index)
	return gpu.Event{
		Time: t.Started, Code: gpu.EventJobStarted, Severity: gpu.Note, User: r.User, Lease: id, Text: id + " has begun.",
		Data: map[string]any{"job": id, "try": t.Try, "fence": t.Fence, "waited_seconds": t.Started.Sub(r.Submitted).Seconds()},
	}
}

// endedEvent says that a task has ended.
func endedEvent(j *kept, index int, t *job.Task) gpu.Event {
	id := j.TaskID(index)
	e := gpu.Event{Time: t.Ended, Code: gpu.EventJobEnded, Severity: gpu.Note, User: j.User, Lease: id, Data: map[string]any{"job": id, "state": string(t.State), "try": t.Try}}
	e.Public = id + " has ended."
	if e.Text = id + " is done."; t.State != job.Done {
		e.Text = fmt.Sprintf("%s has ended, %s: %s.", id, t.State, t.Cause)
		e.Data["cause"] = string(t.Code)
	}
	if t.State == job.Failed || t.State == job.Lost || t.State == job.TimedOut {
		e.Severity = gpu.Warning
	}
	if code, known := t.Exit.Get(); known {
		e.Data["exit_code"] = code
	}
	if !t.Started.IsZero() {
		e.Data["run_seconds"] = t.Ended.Sub(t.Started).Seconds()
	}
	return e
}
