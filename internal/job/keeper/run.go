package keeper

import (
	"cmp"
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
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/when"
	"github.com/berth-gpu/berth/internal/when/later"
)

const (
	// lookAfter is when the keeper looks again at a minder that has locked the record of
	// its run and has not written it, or that nobody watches.
	lookAfter = 3 * time.Second
	// beginWithin is how long a minder that lives may take to begin. Then another one is
	// started.
	beginWithin = 30 * time.Second
	// learnWithin is how long after the end of a run the keeper waits for measurements
	// that may say why it failed, and learnPause how long it waits before it looks again.
	learnWithin = 5 * time.Second
	learnPause  = 500 * time.Millisecond
)

// run is one run of a task.
type run struct {
	*kept
	index, try int
}

func (r run) name() string { return r.Run(r.index, r.try) }

// current reports whether the task still is in this run.
func (r run) current() bool {
	t := r.task(r.index)
	return t.State.Busy() && t.Try == r.try
}

// running returns the present run of a task.
func (j *kept) running(index int) run { return run{j, index, j.task(index).Try} }

// launch starts a minder for a task that has its lease.
func (k *Keeper) launch(j *kept, index int) {
	k.writing.Lock()
	r := j.running(index)
	if k.stopped() || !r.current() {
		k.writing.Unlock()
		return
	}
	k.writing.Unlock()
	id, err := k.Minders.Start(k.running, r.name(), runs.Limits{CPUs: j.CPUs, HostMemory: j.Host})
	if err != nil {
		k.Log.Warn("a minder could not be started", "job", j.TaskID(index), "error", err)
		k.notStarted(r, err)
		return
	}
	k.writing.Lock()
	defer k.writing.Unlock()
	k.watch(r, id)
	k.at(time.Now().Add(beginWithin), func(time.Time) {
		if k.mindless(r) {
			k.look(r)
		}
	})
}

// mindless reports whether no minder has asked for the order of a run.
func (k *Keeper) mindless(r run) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return r.current() && r.task(r.index).PID == 0
}

// notStarted takes in that no minder could be started for a run. One that lives in spite
// of the error goes on. A run that cannot be limited is not tried again.
func (k *Keeper) notStarted(r run, why error) {
	record, alive, err := k.Minders.Read(r.name())
	k.writing.Lock()
	defer k.writing.Unlock()
	said := gpu.Printable(why.Error(), 512)
	switch {
	case k.stopped() || !r.current():
	case err != nil || alive || record.PID != 0:
		k.at(time.Now(), func(time.Time) { k.look(r) })
	case errors.Is(why, runs.ErrLimits):
		_ = k.after(r, job.Outcome{Time: when.Now(), Known: true, Failure: said}) // else look does it
	default:
		_ = k.after(r, job.Outcome{Time: when.Now(), Trouble: "the process that minds it could not be started: " + said})
	}
}

// look looks what became of a run, and watches its minder if that lives.
func (k *Keeper) look(r run) {
	record, alive, err := k.Minders.Read(r.name())
	now := time.Now()
	k.writing.Lock()
	if stopped := k.stopped(); stopped || !r.current() {
		k.writing.Unlock()
		if !stopped && err == nil && !alive && record.PID != 0 { // its minder lived when the run was over
			_ = k.Minders.Remove(r.name()) // else removeOldRuns does
		}
		return
	}
	// The record may be of a job that had this number before the state was restored. Its
	// fence says so, and of a command that was not started its time: a clock may be set back.
	if t := r.task(r.index); record.Fence != t.Fence && (record.Fence != 0 || !record.Ended.IsZero() && record.Ended.Before(t.Granted)) {
		record, alive = runs.Record{}, false
	}
	again := func(after time.Duration) {
		k.at(now.Add(after), func(time.Time) { k.look(r) })
		k.writing.Unlock()
	}
	switch {
	case err != nil:
		k.Log.Warn("the record of a run cannot be read", "job", r.TaskID(r.index), "error", err)
		again(brokenPause)
	case alive && record.PID != 0:
		k.watch(r, record.Minder())
		of := r.claim(r.index)
		k.writing.Unlock()
		if of.Task.PID != 0 && !k.leases.Stands(of) { // it ended while no daemon was there
			k.lost(r, "")
		}
	case alive:
		again(lookAfter) // it has locked the record, and writes it at once
	default:
		k.writing.Unlock()
		k.end(r, record)
	}
}

// stop ends the programs of a run that was cancelled. What cannot be told to end now is
// told again, until the run has ended.
func (k *Keeper) stop(r run, by access.Actor) {
	k.mu.RLock()
	due, of := r.current() && r.task(r.index).State == job.Stopping, r.claim(r.index)
	k.mu.RUnlock()
	if !due {
		return
	}
	err := k.leases.End(of, by)
	if errors.Is(err, runs.ErrNoLease) {
		err = k.bereave(r, "")
	}
	if err == nil {
		return
	}
	k.writing.Lock()
	defer k.writing.Unlock()
	if k.stopped() || !r.current() { // the next daemon does it, or it has ended by itself
		return
	}
	if _, told := k.unended.LoadOrStore(r.name(), true); !told {
		k.Publish(gpu.Event{
			Time: when.Now(), Code: gpu.EventJobEnded, Severity: gpu.Warning, User: r.User, Lease: of.ID,
			Text:   fmt.Sprintf("%s was cancelled, and its programs cannot be ended yet: %v.", of.ID, err),
			Public: of.ID + " was cancelled, and its programs cannot be ended yet.",
		})
	}
	k.at(time.Now().Add(brokenPause), func(time.Time) { k.stop(r, by) })
}

// bereave ends the minder of a run whose lease has ended, and its command with it: nothing
// limits it any more.
func (k *Keeper) bereave(r run, why string) error {
	record, alive, err := k.Minders.Read(r.name())
	if err != nil || !alive || record.PID == 0 { // its end is noticed, or it asks for an order in vain
		return err
	}
	k.writing.Lock() // its end is not taken in before it is noted why
	defer k.writing.Unlock()
	if !r.current() || record.Fence != 0 && record.Fence != r.task(r.index).Fence {
		return nil
	}
	err = k.Minders.Kill(record.Minder())
	if errors.Is(err, process.ErrGone) { // it ended first, and the lease with it
		return nil
	}
	if err == nil {
		k.bereft.Store(r.name(), why)
	}
	return err
}

// watch has the end of a minder noticed. The caller holds writing.
func (k *Keeper) watch(r run, id process.ID) {
	if k.watched[id] {
		return
	}
	_, err := k.Minders.Watch(id, func() {
		k.writing.Lock()
		delete(k.watched, id)
		k.writing.Unlock()
		k.look(r)
	})
	switch {
	case err == nil:
		k.watched[id] = true
	case errors.Is(err, process.ErrGone):
		k.at(time.Now(), func(time.Time) { k.look(r) })
	default: // too many open files, perhaps
		k.at(time.Now().Add(brokenPause), func(time.Time) { k.look(r) })
	}
}

// Order returns what a minder has to run. Caller is the process that asks; it must be the
// one that has locked the record of the run. The lease is bound to it.
func (k *Keeper) Order(name string, caller process.ID) (api.MinderOrder, error) {
	defer fault.Shared()
	record, alive, err := k.Minders.Read(name)
	if err != nil {
		return api.MinderOrder{}, err
	}
	if !alive || record.Minder() != caller || record.Boot != k.Boot || !record.Started.IsZero() {
		return api.MinderOrder{}, fmt.Errorf("%w: process %d does not mind it", runs.ErrNoOrder, caller.PID)
	}
	k.writing.Lock()
	r, known := k.find(name)
	due := known && r.due()
	of, stopped := Claim{}, k.stopped()
	if due {
		of = r.claim(r.index)
	}
	k.writing.Unlock()
	switch {
	case stopped:
		return api.MinderOrder{}, runs.ErrStopped
	case !due:
		return api.MinderOrder{}, runs.ErrNoOrder
	}
	environment, unread := k.environments.read(r.Environment)
	if unread != nil {
		unread = fmt.Errorf("its environment cannot be read: %w", unread)
	}
	account, unknown := k.Account(r.User, r.UID)
	var l api.Lease
	if err = cmp.Or(unread, unknown); err == nil {
		l, err = k.leases.Hand(k.running, of, caller)
	}
	k.writing.Lock()
	defer k.writing.Unlock()
	switch {
	case k.stopped():
		return api.MinderOrder{}, runs.ErrStopped // the next daemon has its order
	case !r.due():
		return api.MinderOrder{}, runs.ErrNoOrder
	case later.Passes(err): // the minder asks again
		k.delayed(r, err)
		return api.MinderOrder{}, err
	case errors.Is(err, runs.ErrNoLease):
		return api.MinderOrder{}, k.noOrder(r, job.Outcome{Time: when.Now()})
	case unread == nil && unknown != nil: // or the user database is away: nobody can tell
		return api.MinderOrder{}, k.noOrder(r, job.Outcome{Time: when.Now(), Trouble: unknown.Error()})
	case err != nil:
		return api.MinderOrder{}, k.noOrder(r, job.Outcome{Time: when.Now(), Known: true, Failure: err.Error()})
	}
	t, c := *r.task(r.index), change{}
	t.PID, t.Started, t.Code, t.Cause = caller.PID, when.Now(), "", ""
	c.step(r.kept, r.index, job.Order, t)
	if err := k.commit(&c); err != nil {
		return api.MinderOrder{}, err
	}
	k.warnInTime(r)
	k.Publish(startedEvent(r))
	return api.MinderOrder{
		Version: api.MinderVersion, Run: name, User: r.User, UID: r.UID, Account: &account, Command: r.CommandOf(r.index), Directory: r.Directory,
		Environment: environment, Variables: r.Variables(r.index), Umask: r.Umask, Lease: l, Compute: r.Compute,
		Output: r.LogName(r.Output, r.index, r.try), Error: r.LogName(r.Error, r.index, r.try), Log: r.DefaultLog(r.index, r.try),
	}, nil
}

// noOrder ends a run whose minder gets no order, and returns the error for that minder. If
// the end cannot be written down, the minder asks again: else it would write down an end of
// its own. The caller holds writing.
func (k *Keeper) noOrder(r run, o job.Outcome) error {
	if err := k.after(r, o); err != nil {
		return err
	}
	return runs.ErrNoOrder
}

// delayed notes for people why a run has no order yet. That is not written down: it is true
// only now. The caller holds writing.
func (k *Keeper) delayed(r run, why error) {
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
func (r run) due() bool { return r.current() && r.task(r.index).State != job.Stopping }

// find returns the run with a name, if its task is or was in it.
func (k *Keeper) find(name string) (run, bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 {
		return run{}, false
	}
	number, err := strconv.ParseInt(parts[0], 10, 64)
	task, other := strconv.Atoi(parts[1])
	try, third := strconv.Atoi(parts[2])
	j := k.jobs[number]
	if err != nil || other != nil || third != nil || j == nil {
		return run{}, false
	}
	index, known := j.TaskIndex(task)
	return run{j, index, try}, known
}

// end takes in how a run has ended, as far as its record says it. The minder does not
// live.
func (k *Keeper) end(r run, record runs.Record) {
	k.mu.RLock()
	of, begun := r.claim(r.index), r.current()
	k.mu.RUnlock()
	if !begun {
		return
	}
	o := job.Outcome{
		Time: record.Ended, Known: !record.Ended.IsZero(), Began: !record.Started.IsZero(), Exit: record.Exit, Signal: strings.TrimPrefix(record.Signal, "SIG"),
		Failure: record.Failure, Shutdown: record.Shutdown, OutOfHost: record.OutOfMemory, Rebooted: record.Boot != "" && record.Boot != k.Boot,
	}
	if !o.Known {
		o.Time = when.Now()
	}
	if o.Began {
		of.Task.Started, of.Task.Output, of.Task.Error = record.Started, record.Output, record.Error
	}
	if record.PeakHost > 0 {
		of.Task.PeakHost = gpu.Some(record.PeakHost)
	}
	complete := k.leases.Learn(of, &o, &of.Task)
	k.writing.Lock()
	defer k.writing.Unlock()
	if k.stopped() || !r.current() {
		return
	}
	if age := time.Since(o.Time); !complete && age >= 0 && age < learnWithin {
		k.at(time.Now().Add(learnPause), func(time.Time) { k.look(r) })
		return
	}
	t := *r.task(r.index) // it may have been cancelled meanwhile
	of.Task.State, of.Task.Code, of.Task.Cause, of.Task.Overran, of.Task.Warned = t.State, t.Code, t.Cause, t.Overran, t.Warned
	_ = k.conclude(r, of.Task, o) // else it looks again
}

// after takes in that a run has ended before its command began. The caller holds writing.
func (k *Keeper) after(r run, o job.Outcome) error { return k.conclude(r, *r.task(r.index), o) }

// conclude decides what the end of a run means, writes that down and acts. If it cannot
// be written down, the record of the run stays, and the keeper looks again. The caller
// holds writing.
func (k *Keeper) conclude(r run, t job.Task, o job.Outcome) error {
	id := r.TaskID(r.index)
	if _, overran := k.overran.Load(id); overran {
		t.Overran = true
	}
	if why, bereft := k.bereft.Load(r.name()); bereft && !o.Known {
		o.Revoked = cmp.Or(why.(string), "its lease had ended")
	}
	event, after := job.Judge(r.Spec, t, o)
	c := change{care: journal.Care{Durable: true, Reserve: true}}
	if !c.step(r.kept, r.index, event, after) {
		return nil
	}
	if err := k.commit(&c); err != nil {
		k.at(time.Now().Add(brokenPause), func(time.Time) { k.look(r) })
		return err
	}
	k.overran.Delete(id)
	k.bereft.Delete(r.name())
	k.unended.Delete(r.name())
	k.unset(r.warnings[r.index])
	delete(r.warnings, r.index)
	of := r.claim(r.index)
	of.Task = t
	if r.task(r.index).State == job.Waiting {
		r.wait(r.index)
	}
	k.sort(r.kept, time.Now())
	now := *r.task(r.index)
	if now.State.Over() {
		k.Publish(endedEvent(r.kept, r.index, &now)) // before anything that may take long
	}
	waiting, over := slices.Clone(k.waitedFor[r.Number]), !r.over.IsZero()
	k.busy.Go(func() {
		k.leases.Release(of)
		if err := k.Minders.Remove(r.name()); err != nil {
			k.Log.Warn("the record of a run cannot be removed", "job", id, "error", err)
		}
		if now.State.Over() {
			k.reconsider(waiting, r.Number, over)
		}
		k.feed(r.owner)
	})
	return nil
}

// reconsider looks at jobs that wait for another one, after that has ended or, if it is
// not over, some of its tasks have.
func (k *Keeper) reconsider(numbers []int64, ended int64, over bool) {
	for _, n := range numbers {
		k.writing.Lock()
		j := k.jobs[n]
		if j == nil || !j.over.IsZero() || j.condition != job.Open ||
			!over && !slices.ContainsFunc(refs(j.Spec), func(r job.Ref) bool { return r.One && r.Number == ended }) {
			k.writing.Unlock()
			continue
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
}

// holder returns the run that has a lease. The caller holds writing or mu.
func (k *Keeper) holder(id string, uid int, fence uint64) (r run, ours bool) {
	named, err := job.ParseID(id)
	j := k.jobs[named.Number]
	if err != nil || j == nil || j.UID != uid {
		return run{}, false
	}
	index, known := j.TaskIndex(named.Task)
	if !known || j.TaskID(index) != id || j.task(index).Fence != fence {
		return run{}, false
	}
	r = j.running(index)
	return r, r.current()
}

// LeaseEnded notes that a lease has ended. It does not wait: the ledger calls it. Where the
// run that had it goes on, it is ended.
func (k *Keeper) LeaseEnded(id string, uid int, fence uint64, why string) {
	go func() {
		k.mu.RLock()
		r, ours := k.holder(id, uid, fence)
		k.mu.RUnlock()
		if !ours {
			return
		}
		k.writing.Lock()
		defer k.writing.Unlock()
		// A minder whose command was ended with the lease writes that down first.
		k.at(time.Now().Add(lookAfter), func(time.Time) { k.lost(r, why) })
	}()
}

// lost ends a run whose lease has ended, as soon as that can be done.
func (k *Keeper) lost(r run, why string) {
	err := k.bereave(r, why)
	if err == nil {
		return
	}
	k.Log.Warn("a minder whose lease has ended cannot be ended", "job", r.TaskID(r.index), "error", err)
	k.writing.Lock()
	defer k.writing.Unlock()
	if !k.stopped() && r.current() {
		k.at(time.Now().Add(brokenPause), func(time.Time) { k.lost(r, why) })
	}
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
func (k *Keeper) warnInTime(r run) {
	if r.Signal == "" || !r.current() || r.task(r.index).Warned {
		return
	}
	left := lookAfter // it is parked, and its time stands still
	if ends, limited := k.leases.Ends(r.claim(r.index)); limited {
		left = min(time.Until(ends.Add(-r.Warning)), lookEvery) // its end moves with the clock
	}
	if r.warnings == nil {
		r.warnings = map[int]*alarm{}
	}
	k.unset(r.warnings[r.index])
	r.warnings[r.index] = k.at(time.Now().Add(left), func(now time.Time) {
		k.writing.Lock()
		defer k.writing.Unlock()
		if k.stopped() || !r.current() || r.task(r.index).Warned {
			return
		}
		of := r.claim(r.index)
		if ends, limited := k.leases.Ends(of); !limited || ends.Add(-r.Warning).After(now) { // it is parked, or was
			k.warnInTime(r)
			return
		}
		t, c := *r.task(r.index), change{}
		t.Warned = true
		c.set(r.kept, r.index, r.index, t, nil)
		_ = k.commit(&c) // else the next daemon signals, too
		k.leases.Signal(of, r.Signal)
	})
}

// resume goes on with what the last daemon left. It lets waiting tasks into the queue
// with their old age, finds the minders that live, and does again what may not have been
// done.
func (k *Keeper) resume() {
	now := time.Now()
	k.writing.Lock()
	var runs []run
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
			if j.task(i).State.Busy() {
				runs = append(runs, j.running(i))
			}
		}
	}
	k.writing.Unlock()
	k.claimLeases()
	k.feedAll()
	for _, r := range runs {
		k.adopt(r)
	}
	for _, j := range doomed {
		k.prevent(j)
	}
	k.releaseStrays()
	k.removeOldRuns()
}

// adopt goes on with a run that the last daemon has begun.
func (k *Keeper) adopt(r run) {
	record, alive, err := k.Minders.Read(r.name())
	k.mu.RLock() // its minder, or its owner, may be calling
	current, state := r.current(), r.task(r.index).State
	k.mu.RUnlock()
	switch {
	case !current:
		return
	case err == nil && !alive && record.PID == 0 && state != job.Stopping:
		k.launch(r.kept, r.index) // nothing says that a minder was started
		return
	case state == job.Stopping:
		k.stop(r, access.Daemon())
	}
	k.look(r)
	if alive {
		k.writing.Lock()
		k.warnInTime(r)
		k.writing.Unlock()
	}
}
