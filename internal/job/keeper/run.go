package keeper

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/when"
	"github.com/berth-gpu/berth/internal/when/later"
)

// learnWithin is how long after the end of a run the keeper waits for measurements that may
// say why it failed, and learnPause how long it waits before it looks again.
const (
	learnWithin = 5 * time.Second
	learnPause  = 500 * time.Millisecond
)

// againAfter is when a time limit is looked at again that stands still, as while its lease is
// parked.
const againAfter = 3 * time.Second

// attempt is one run of a task.
type attempt struct {
	*kept
	index, try int
}

func (r attempt) name() string { return r.Run(r.index, r.try) }

// current reports whether the task still is in this run.
func (r attempt) current() bool {
	t := r.task(r.index)
	return t.State.Busy() && t.Try == r.try
}

// run returns the run as the runs of jobs know it.
func (r attempt) run() run.Run {
	t := r.task(r.index)
	return run.Run{
		Name: r.name(), Key: r.key(r.index), Fence: t.Fence, Since: t.Granted, Limits: runs.Limits{CPUs: r.CPUs, HostMemory: r.Host},
		Begun: t.PID != 0 || t.State == job.Stopping,
	}
}

// running returns the present run of a task.
func (j *kept) running(index int) attempt { return attempt{j, index, j.task(index).Try} }

// Happened implements run.Book.
func (k *Keeper) Happened(e run.Event) (again time.Duration) {
	defer fault.Shared()
	switch e.What {
	case run.Granted:
		k.granted(e.Key, e.Lease)
	case run.Refused, run.Left:
		k.refused(e.Key, e.Err)
	case run.Unstarted:
		o := job.Outcome{Time: when.Now()}
		if said := gpu.Printable(e.Err.Error(), 512); errors.Is(e.Err, runs.ErrLimits) { // it is not tried again
			o.Known, o.Failure = true, said
		} else {
			o.Trouble = "the process that minds it could not be started: " + said
		}
		k.writing.Lock()
		defer k.writing.Unlock()
		if r, known := k.find(e.Run); known && !k.stopped() && r.current() && k.after(r, o) != nil {
			return brokenPause
		}
	case run.Unended:
		k.mu.RLock()
		r, known := k.find(e.Run)
		k.mu.RUnlock()
		if known {
			k.Publish(gpu.Event{
				Time: when.Now(), Code: gpu.EventJobEnded, Severity: gpu.Warning, User: r.User, Lease: e.Key.ID,
				Text:   fmt.Sprintf("%s was cancelled, and its programs cannot be ended yet: %v.", e.Key.ID, e.Err),
				Public: e.Key.ID + " was cancelled, and its programs cannot be ended yet.",
			})
		}
	case run.Ended:
		return k.end(e)
	case run.Forgotten:
		k.mu.RLock()
		u := k.users[e.Key.UID]
		k.mu.RUnlock()
		k.stir(e.Key.Run.Number)
		if u != nil {
			k.busy.Go(func() { k.feed(u) })
		}
	}
	return 0
}

// Order implements run.Book.
func (k *Keeper) Order(name string) (run.Order, error) {
	defer fault.Shared()
	k.writing.Lock()
	r, known := k.find(name)
	due, stopped := known && r.due(), k.stopped()
	var order run.Order
	if due {
		order = run.Order{Ask: r.ask(r.index), Fence: r.task(r.index).Fence, MinderOrder: api.MinderOrder{
			User: r.User, UID: r.UID, Command: r.CommandOf(r.index), Directory: r.Directory, Variables: r.Variables(r.index), Umask: r.Umask, Compute: r.Compute,
			Output: r.LogName(r.Output, r.index, r.try), Error: r.LogName(r.Error, r.index, r.try), Log: r.DefaultLog(r.index, r.try),
		}}
	}
	k.writing.Unlock()
	switch {
	case stopped:
		return run.Order{}, runs.ErrStopped
	case !due:
		return run.Order{}, runs.ErrNoOrder
	}
	environment, err := k.environments.read(r.Environment)
	if err != nil {
		return run.Order{}, k.Ordered(name, process.ID{}, fmt.Errorf("its environment cannot be read: %w", err))
	}
	order.Environment = environment
	return order, nil
}

// Ordered implements run.Book.
func (k *Keeper) Ordered(name string, minder process.ID, err error) error {
	defer fault.Shared()
	k.writing.Lock()
	defer k.writing.Unlock()
	r, known := k.find(name)
	var unknown *run.AccountError
	switch {
	case k.stopped():
		return runs.ErrStopped // the next daemon has its order
	case !known || !r.due():
		return runs.ErrNoOrder
	case later.Passes(err): // the minder asks again
		k.delayed(r, err)
		return err
	case errors.Is(err, runs.ErrNoLease):
		return k.noOrder(r, job.Outcome{Time: when.Now()})
	case errors.As(err, &unknown): // or the user database is away: nobody can tell
		return k.noOrder(r, job.Outcome{Time: when.Now(), Trouble: err.Error()})
	case err != nil:
		return k.noOrder(r, job.Outcome{Time: when.Now(), Known: true, Failure: err.Error()})
	}
	t, c := *r.task(r.index), change{}
	t.PID, t.Started, t.Code, t.Cause = minder.PID, when.Now(), "", ""
	c.step(r.kept, r.index, job.Order, t)
	if err := k.commit(&c); err != nil {
		return err
	}
	k.warnInTime(r)
	k.Publish(startedEvent(r))
	return nil
}

// noOrder ends a run whose minder gets no order, and returns the error for that minder. If
// the end cannot be written down, the minder asks again: else it would write down an end of
// its own. The caller holds writing.
func (k *Keeper) noOrder(r attempt, o job.Outcome) error {
	if err := k.after(r, o); err != nil {
		return err
	}
	return runs.ErrNoOrder
}

// delayed notes for people why a run has no order yet. That is not written down: it is true
// only now. The caller holds writing.
func (k *Keeper) delayed(r attempt, why error) {
	t := *r.task(r.index)
	if t.Cause == why.Error() {
		return
	}
	t.Code, t.Cause = job.Refused, why.Error()
	k.mu.Lock()
	k.put(r.kept, r.index, r.index, &t)
	k.mu.Unlock()
}

// due reports whether the minder of the run may have its order.
func (r attempt) due() bool { return r.current() && r.task(r.index).State != job.Stopping }

// find returns the run with a name, if its task is or was in it.
func (k *Keeper) find(name string) (attempt, bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 {
		return attempt{}, false
	}
	number, err := strconv.ParseInt(parts[0], 10, 64)
	task, other := strconv.Atoi(parts[1])
	try, third := strconv.Atoi(parts[2])
	j := k.jobs[number]
	if err != nil || other != nil || third != nil || j == nil {
		return attempt{}, false
	}
	index, known := j.TaskIndex(task)
	return attempt{j, index, try}, known
}

// notStarted begins the reason of a command that could not be started.
const notStarted = "its command could not be started: "

// end takes in how a run has ended, as far as its record says it. It returns when to tell it
// again, if it cannot take that in now.
func (k *Keeper) end(e run.Event) (again time.Duration) {
	k.mu.RLock()
	r, known := k.find(e.Run)
	if !known || !r.current() {
		k.mu.RUnlock()
		return 0
	}
	id, t := r.TaskID(r.index), *r.task(r.index)
	k.mu.RUnlock()
	record := &e.Record
	o := job.Outcome{
		Time: record.Ended, Known: !record.Ended.IsZero(), Began: !record.Started.IsZero(), Exit: record.Exit, Signal: strings.TrimPrefix(record.Signal, "SIG"),
		Failure: record.Failure, Shutdown: record.Shutdown, OutOfHost: record.OutOfMemory, Rebooted: record.Boot != "" && record.Boot != k.Boot,
	}
	switch {
	case record.Short: // the machine could not start it, and nothing is known against the job
		o = job.Outcome{Time: record.Ended, Trouble: notStarted + record.Failure}
	case !o.Known:
		o.Time, o.Revoked = when.Now(), e.Bereft
	}
	if o.Began {
		t.Started, t.Output, t.Error = record.Started, record.Output, record.Error
	}
	if record.PeakHost > 0 {
		t.PeakHost = gpu.Some(record.PeakHost)
	}
	complete := k.leases.Learn(r.Spec, id, &o, &t)
	k.writing.Lock()
	defer k.writing.Unlock()
	if k.stopped() || !r.current() {
		return 0
	}
	if age := time.Since(o.Time); !complete && age >= 0 && age < learnWithin {
		return learnPause
	}
	now := r.task(r.index) // it may have been cancelled meanwhile
	t.State, t.Code, t.Cause, t.Overran, t.Warned = now.State, now.Code, now.Cause, now.Overran, now.Warned
	if k.conclude(r, t, o) != nil {
		return brokenPause
	}
	return 0
}

// after takes in that a run has ended before its command began. The caller holds writing.
func (k *Keeper) after(r attempt, o job.Outcome) error { return k.conclude(r, *r.task(r.index), o) }

// conclude decides what the end of a run means, writes that down and acts. If it cannot
// be written down, the record of the run stays. The caller holds writing.
func (k *Keeper) conclude(r attempt, t job.Task, o job.Outcome) error {
	id := r.TaskID(r.index)
	if _, overran := k.overran.Load(id); overran {
		t.Overran = true
	}
	event, after := job.Judge(r.Spec, t, o)
	c := change{care: journal.Care{Durable: true, Reserve: true}}
	if !c.step(r.kept, r.index, event, after) {
		return nil
	}
	if err := k.commit(&c); err != nil {
		return err
	}
	k.overran.Delete(id)
	k.runs.Stop(r.warnings[r.index])
	delete(r.warnings, r.index)
	if r.task(r.index).State == job.Waiting {
		r.wait(r.index)
	}
	k.sort(r.kept, time.Now())
	now := *r.task(r.index)
	if now.State.Over() {
		k.Publish(endedEvent(r.kept, r.index, &now)) // before anything that may take long
	}
	k.runs.Forget(run.Run{Name: r.name(), Key: r.key(r.index), Fence: t.Fence}, "the job has ended, or waits again")
	return nil
}

// stir has the jobs looked at that wait for one, after that has ended or some of its tasks
// have. One goroutine does it, so that however many tasks end meanwhile, their job is looked
// at once more.
func (k *Keeper) stir(number int64) {
	k.stirs.Lock()
	defer k.stirs.Unlock()
	first := k.stirred == nil
	if first {
		k.stirred = map[int64]bool{}
		k.busy.Go(k.reconsider)
	}
	k.stirred[number] = true
}

// stirredNext returns one of the jobs that were stirred, and false if there are none any more.
func (k *Keeper) stirredNext() (number int64, more bool) {
	k.stirs.Lock()
	defer k.stirs.Unlock()
	for number := range k.stirred {
		delete(k.stirred, number)
		return number, true
	}
	k.stirred = nil
	return 0, false
}

// reconsider looks at the jobs that wait for those that were stirred.
func (k *Keeper) reconsider() {
	for number, more := k.stirredNext(); more; number, more = k.stirredNext() {
		k.mu.RLock()
		waiting, over := slices.Clone(k.waitedFor[number]), k.jobs[number] == nil || !k.jobs[number].over.IsZero()
		k.mu.RUnlock()
		for _, n := range waiting {
			k.reconsiderOne(n, number, over)
		}
	}
}

// reconsiderOne looks at a job that waits for another one, which is over or of which some
// tasks are.
func (k *Keeper) reconsiderOne(n, ended int64, over bool) {
	k.writing.Lock()
	j := k.jobs[n]
	if k.stopped() || j == nil || !j.over.IsZero() || j.condition != job.Open ||
		!over && !slices.ContainsFunc(refs(j.Spec), func(r job.Ref) bool { return r.One && r.Number == ended }) {
		k.writing.Unlock()
		return
	}
	k.judge(j)
	k.note(j)
	k.sort(j, time.Now())
	never := j.condition == job.Never
	k.writing.Unlock()
	if never {
		k.prevent(j)
	}
	k.feed(j.owner)
}

// holder returns the run that has a lease. The caller holds writing or mu.
func (k *Keeper) holder(id string, uid int, fence uint64) (r attempt, ours bool) {
	named, err := job.ParseID(id)
	j := k.jobs[named.Number]
	if err != nil || j == nil || j.UID != uid {
		return attempt{}, false
	}
	index, known := j.TaskIndex(named.Task)
	if !known || j.TaskID(index) != id || j.task(index).Fence != fence {
		return attempt{}, false
	}
	r = j.running(index)
	return r, r.current()
}

// Overran notes that a lease has reached its time limit. It does not wait: the ledger
// calls it.
func (k *Keeper) Overran(id string, uid int, fence uint64) {
	k.mu.RLock()
	r, ours := k.holder(id, uid, fence)
	if ours {
		k.overran.Store(id, true) // while the run is not over, so that its end removes it
	}
	k.mu.RUnlock()
	if !ours {
		return
	}
	go func() { // for the next daemon
		k.writing.Lock()
		defer k.writing.Unlock()
		if t := *r.task(r.index); r.current() && !t.Overran && !k.stopped() {
			t.Overran = true
			var c change
			c.set(r.kept, r.index, r.index, t, nil)
			_ = k.commit(&c) // this daemon knows it
		}
	}()
}

// warnInTime has a task warned before its time limit. The caller holds writing.
func (k *Keeper) warnInTime(r attempt) {
	if r.Signal == "" || !r.current() || r.task(r.index).Warned {
		return
	}
	left := againAfter
	if ends, limited := k.leases.Ends(r.key(r.index), r.task(r.index).Fence); limited {
		left = min(time.Until(ends.Add(-r.Warning)), lookEvery) // its end moves with the clock
	}
	if r.warnings == nil {
		r.warnings = map[int]*run.Timer{}
	}
	k.runs.Stop(r.warnings[r.index])
	r.warnings[r.index] = k.runs.After(left, warns{r})
}

// warn warns a task, if its time limit is so near. The caller holds writing.
func (k *Keeper) warn(r attempt, now time.Time) {
	if !r.current() || r.task(r.index).Warned {
		return
	}
	key, t := r.key(r.index), *r.task(r.index)
	if ends, limited := k.leases.Ends(key, t.Fence); !limited || ends.Add(-r.Warning).After(now) { // it is parked, or was
		k.warnInTime(r)
		return
	}
	c := change{}
	t.Warned = true
	c.set(r.kept, r.index, r.index, t, nil)
	_ = k.commit(&c) // else the next daemon signals, too
	k.leases.Signal(key, t.Fence, t.PID, r.Signal)
}

// resume goes on with what the last daemon left. It lets waiting tasks into the queue
// with their old age, finds the minders that live, and does again what may not have been
// done.
func (k *Keeper) resume() {
	now := time.Now()
	k.writing.Lock()
	var doomed []*kept
	for _, n := range k.numbers {
		j := k.jobs[n]
		if j == nil || !j.over.IsZero() {
			continue
		}
		k.note(j)
		k.sort(j, now)
		if j.condition == job.Never {
			doomed = append(doomed, j)
		}
		if j.inUse() == 0 {
			continue
		}
		for i := range j.tasks {
			if state := j.task(i).State; state.Busy() {
				r := j.running(i)
				k.runs.Resume(r.run())
				if state == job.Stopping {
					k.runs.End(r.name(), access.Daemon(), whyEnd)
				}
				k.warnInTime(r)
			}
		}
	}
	k.releaseOld()
	k.writing.Unlock()
	k.busy.Go(func() { // what users may have is known to a database that may hang
		k.feedAll()
		for _, j := range doomed {
			k.prevent(j)
		}
	})
}

// releaseOld gives back the leases of tasks that have ended which an earlier berth has left.
// It did not say that they are those of jobs, but their fences are in the journal. The caller
// holds writing.
func (k *Keeper) releaseOld() {
	for _, held := range k.leases.List("") {
		named, err := job.ParseID(held.Key.ID)
		j := k.job(named.Number)
		if err != nil || j == nil || j.UID != held.Key.UID {
			continue
		}
		i, known := j.TaskIndex(named.Task)
		if known && j.TaskID(i) == held.Key.ID && j.task(i).Fence == held.Fence && j.task(i).State.Over() {
			k.runs.Forget(run.Run{Key: j.key(i), Fence: held.Fence}, "the job has ended")
		}
	}
}
