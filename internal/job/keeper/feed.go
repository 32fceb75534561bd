package keeper

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/when"
)

const (
	// mostQueued is how many tasks of a user stand in the queue of leases. The others
	// wait before it, so that they cost it nothing.
	mostQueued = 32

	// A task that the ledger refuses at present, or that cannot be written down, is tried
	// again after this.
	refusedPause = 20 * time.Second
	brokenPause  = 5 * time.Second

	lookEvery = time.Minute // while a pause goes on
)

// wait notes that a task that was in the queue before waits again. The caller holds
// writing.
func (j *kept) wait(index int) {
	if j.task(index).NotBefore.IsZero() {
		at, there := slices.BinarySearch(j.again, index)
		if !there {
			j.again = slices.Insert(j.again, at, index)
		}
		return
	}
	if until := j.task(index).NotBefore; len(j.paused) == 0 || until.Before(j.resumes) {
		j.resumes = until
	}
	j.paused = append(j.paused, index)
}

// unwait takes the tasks off the lists of those that wait which do not any more. The caller
// holds writing.
func (j *kept) unwait() {
	left := func(i int) bool { return j.task(i).State != job.Waiting }
	j.again, j.paused = slices.DeleteFunc(j.again, left), slices.DeleteFunc(j.paused, left)
}

// pauses reports whether a task that waits until a time still does. A pause that seems
// longer than any is one from before the clock was set back.
func pauses(until, now time.Time) bool {
	return until.After(now) && (now.IsZero() || until.Sub(now) <= job.LongestPause)
}

// Shift moves the times of whoever waits by as much as the clock was set. It does not wait:
// the ledger calls it.
func (k *Keeper) Shift(by time.Duration) { k.runs.Send(shifts{by}) }

// shift moves the times by which tasks wait, so that none is older or younger than it was
// because the clock was set. When a user wants a job to begin stays. The caller holds
// writing.
func (k *Keeper) shift(by time.Duration) {
	move := func(times ...*time.Time) {
		for _, t := range times {
			if !t.IsZero() {
				*t = t.Add(by)
			}
		}
	}
	for _, j := range k.jobs {
		k.mu.Lock()
		move(&j.since, &j.unheld, &j.met, &j.resumes)
		var was, is *job.Task // tasks share values
		for i, t := range j.tasks {
			if t == nil || t.State != job.Waiting && t.State != job.Held {
				continue
			}
			if t != was {
				moved := *t
				move(&moved.Since, &moved.NotBefore)
				was, is = t, &moved
			}
			j.tasks[i] = is
		}
		k.mu.Unlock()
		k.sort(j, when.Now())
	}
	k.rewrite = true
	k.compactIfLong()
}

// sort finds out whether a job has a task for the queue, and puts it among the jobs of
// its user that have. It has the job looked at again when that will change with time
// alone. The caller holds writing. A zero now means that Run will look at it.
func (k *Keeper) sort(j *kept, now time.Time) {
	wake := time.Time{}
	if len(j.paused) > 0 && !pauses(j.resumes, now) {
		for _, i := range j.paused {
			if until := j.task(i).NotBefore; !pauses(until, now) {
				j.again = append(j.again, i)
			} else if wake.IsZero() || until.Before(wake) {
				wake = until
			}
		}
		slices.Sort(j.again)
		j.again, j.resumes = slices.Compact(j.again), wake
		j.paused = slices.DeleteFunc(j.paused, func(i int) bool { return !pauses(j.task(i).NotBefore, now) })
	}
	if len(j.paused) > 0 {
		wake = time.Now().Add(min(time.Until(j.resumes), lookEvery))
	}
	if j.Begin.After(now) {
		wake = j.Begin
	}
	for j.next < len(j.tasks) && j.tasks[j.next] != nil {
		j.next++
	}
	ready := j.over.IsZero() && !j.stays() && !j.changing && j.condition == job.Met && !j.Begin.After(now) && (len(j.again) > 0 || j.next < len(j.tasks)) &&
		(j.Most == 0 || j.inUse()+len(j.queued) < j.Most)
	if ready != j.ready {
		k.mu.Lock()
		j.owner.enlist(j, ready)
		k.mu.Unlock()
	}
	if now.IsZero() || !j.over.IsZero() {
		wake = time.Time{}
	}
	k.runs.Set(&j.looks, wake, sorts{j.Number})
}

// stays reports whether none of its tasks that wait may begin.
func (j *kept) stays() bool { return j.held || j.bare }

// enlist puts a job among those that have a task for the queue, or takes it out.
func (u *user) enlist(j *kept, ready bool) {
	at, _ := slices.BinarySearchFunc(u.ready, j, func(a, b *kept) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.Number, b.Number))
	})
	if j.ready = ready; ready {
		u.ready = slices.Insert(u.ready, at, j)
	} else {
		u.ready = slices.Delete(u.ready, at, at+1)
	}
}

// judge finds out what the jobs that a job waits for mean for it. The caller holds
// writing.
func (k *Keeper) judge(j *kept) {
	if j.condition == job.Met {
		return
	}
	last := time.Time{}
	condition, why := job.Depend(j.Spec, func(r job.Ref) job.Ending {
		ending, at := k.endingOf(r)
		if at.After(last) {
			last = at
		}
		return ending
	})
	k.mu.Lock()
	j.condition, j.met, j.prevented = condition, last, why
	k.mu.Unlock()
}

// note writes down that a job may begin as far as others are concerned, which are not
// needed for that any more. If it cannot be written down now, they are kept, and the next
// daemon finds out again. The caller holds writing.
func (k *Keeper) note(j *kept) {
	if j.condition != job.Met || j.noted {
		return
	}
	if !j.met.IsZero() {
		e := entry{Change: j.setting()}
		if k.journal.Write([][]byte{e.text()}, journal.Care{}) != nil {
			return
		}
	}
	j.noted = true
	k.mu.Lock()
	k.unwait(j)
	k.mu.Unlock()
}

// endingOf returns how a job or a task that others wait for has ended, and when. One that
// is forgotten has ended long ago, and nobody knows how.
func (k *Keeper) endingOf(r job.Ref) (job.Ending, time.Time) {
	if p := k.past[r.Number]; p != nil {
		return p.ending(r)
	}
	j := k.jobs[r.Number]
	if j == nil {
		return job.Badly, time.Time{}
	}
	if r.One {
		index, known := j.TaskIndex(r.Task)
		if !known {
			return job.Badly, time.Time{}
		}
		return endingOfTask(j.task(index))
	}
	switch {
	case j.over.IsZero():
		return job.NotYet, time.Time{}
	case j.counts[job.Done] == j.total():
		return job.Well, j.over
	}
	return job.Badly, j.over
}

func endingOfTask(t *job.Task) (job.Ending, time.Time) {
	switch {
	case !t.State.Over():
		return job.NotYet, time.Time{}
	case t.State == job.Done:
		return job.Well, t.Ended
	}
	return job.Badly, t.Ended
}

// feed lets tasks of a user into the queue of leases, as many as there are places.
func (k *Keeper) feed(u *user) {
	k.mu.RLock()
	name, idle := u.name, len(u.ready) == 0
	k.mu.RUnlock()
	if idle {
		return
	}
	limits := k.Limits(u.uid, name)
	k.writing.Lock()
	defer k.writing.Unlock()
	if k.stopped() {
		return
	}
	k.mu.Lock()
	u.limits = limits
	k.mu.Unlock()
	if limits.Passing {
		k.runs.Set(&u.feeds, time.Now().Add(refusedPause), feeds{u.uid})
	}
	now := when.Now()
	var c change
	type chosen struct {
		*kept
		index int
	}
	var come []chosen
	for u.queued < mostQueued && len(u.ready) > 0 && !limits.full(u) {
		j := u.ready[0]
		index := j.next
		if len(j.again) > 0 {
			index, j.again = j.again[0], j.again[1:]
		} else {
			j.next++
		}
		t := *j.task(index)
		if t.Since.IsZero() || t.Since.Before(j.unheld) {
			t.Since, t.Code, t.Cause = j.eligible(&t, now).Add(time.Duration(index)), "", "" // the tasks of a job go in their order
			c.set(j, index, index, t, nil)
		}
		k.mu.Lock()
		if j.queued == nil {
			j.queued = map[int]*place{}
		}
		j.queued[index] = &place{}
		u.queued++
		k.mu.Unlock()
		come = append(come, chosen{j, index})
		k.sort(j, now)
	}
	if len(come) == 0 {
		return
	}
	if err := k.commit(&c); err != nil { // they have no age yet, and try again
		for _, each := range come {
			k.vacate(each.kept, each.index)
			each.wait(each.index)
			k.sort(each.kept, now)
		}
		k.runs.Set(&u.feeds, time.Now().Add(brokenPause), feeds{u.uid})
		return
	}
	for _, each := range come {
		k.runs.Ask(each.ask(each.index))
	}
}

// feedAll feeds all users.
func (k *Keeper) feedAll() {
	k.mu.RLock()
	users := slices.Collect(maps.Values(k.users))
	k.mu.RUnlock()
	for _, u := range users {
		k.feed(u)
	}
}

// LimitsChanged has tasks begin that limits kept waiting, if they do not any more, and
// takes those out of the queue that may not begin. It does not wait for that.
func (k *Keeper) LimitsChanged() { k.runs.Send(limits{}) }

// recall takes the tasks out of the queue whose users may begin none.
func (k *Keeper) recall() {
	k.mu.RLock()
	names := map[*user]string{}
	for _, u := range k.users {
		if u.queued > 0 {
			names[u] = u.name
		}
	}
	k.mu.RUnlock()
	maps.DeleteFunc(names, func(u *user, name string) bool { return !k.Limits(u.uid, name).Off })
	k.writing.Lock()
	defer k.writing.Unlock()
	for _, j := range k.jobs {
		if _, off := names[j.owner]; off {
			k.leaveQueue(j)
		}
	}
}

// leaveQueue takes the tasks of a job out of the queue of leases; they wait before it then.
// The caller holds writing.
func (k *Keeper) leaveQueue(j *kept) {
	for index := range j.queued {
		k.leave(j, index)
	}
}

// leave takes a task out of the queue of leases, if it is there. The caller holds writing.
func (k *Keeper) leave(j *kept, index int) {
	if here := j.queued[index]; here != nil {
		here.leaving = true
		k.runs.Leave(j.key(index))
	}
}

// eligible returns since when a task may be in the queue.
func (j *kept) eligible(t *job.Task, now time.Time) time.Time {
	since := j.since
	for _, other := range []time.Time{j.Begin, j.met, j.unheld, t.NotBefore} {
		if other.After(since) {
			since = other
		}
	}
	if j.Most > 0 && (j.next > j.Most || t.Try > 0) || since.After(now) { // it waited for another task of its job
		since = now
	}
	return since
}

// vacate takes a task from its place. The caller holds writing.
func (k *Keeper) vacate(j *kept, index int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if j.queued[index] != nil {
		delete(j.queued, index)
		j.owner.queued--
	}
}

// answered takes a task from its place in the queue, after its request was answered. It
// returns nil if the task is not there. Waits says that the task still wants a lease. The
// caller holds writing.
func (k *Keeper) answered(key lease.Key) (j *kept, index int, waits bool) {
	j = k.jobs[key.Run.Number]
	if j == nil {
		return nil, 0, false
	}
	index, known := j.TaskIndex(key.Run.Task)
	if !known || j.queued[index] == nil {
		return nil, 0, false
	}
	leaving := j.queued[index].leaving
	k.vacate(j, index)
	waiting := j.task(index).State == job.Waiting
	if waiting && leaving { // it comes back as it now is
		j.wait(index)
	}
	return j, index, waiting && !leaving
}

// granted takes in that a task has got its lease.
func (k *Keeper) granted(key lease.Key, l api.Lease) {
	k.writing.Lock()
	defer k.writing.Unlock()
	j, index, waits := k.answered(key)
	err := runs.ErrNoOrder
	if waits {
		if err = k.grant(j, index, l); err == nil {
			k.runs.Start(j.running(index).run())
		} else {
			k.postpone(j, index, err, when.Now().Add(brokenPause))
		}
	}
	if err != nil {
		k.runs.Forget(run.Run{Key: key, Fence: l.Fence}, "nobody waits for it any more")
	}
	if j != nil {
		k.sort(j, when.Now())
		k.busy.Go(func() { k.feed(j.owner) })
	}
}

// refused takes in that a task gets no lease now, or has left the queue if err is nil.
func (k *Keeper) refused(key lease.Key, err error) {
	k.writing.Lock()
	defer k.writing.Unlock()
	j, index, waits := k.answered(key)
	if j == nil {
		return
	}
	if waits && err != nil {
		k.postpone(j, index, err, when.Now().Add(refusedPause))
	} else if waits {
		j.wait(index)
	}
	k.sort(j, when.Now())
	k.busy.Go(func() {
		if waits && errors.Is(err, run.ErrWaited) {
			k.expire(j, index, err)
		}
		k.feed(j.owner)
	})
}

// postpone has a task wait until a time before it stands in the queue again, and notes
// why. That is not written down: it is true only now. The caller holds writing.
func (k *Keeper) postpone(j *kept, index int, why error, until time.Time) {
	t := *j.task(index)
	t.Code, t.Cause, t.NotBefore = job.Refused, why.Error(), until
	k.mu.Lock()
	k.put(j, index, index, &t)
	k.mu.Unlock()
	j.wait(index)
}

// grant writes down that a task has its lease. The caller holds writing.
func (k *Keeper) grant(j *kept, index int, l api.Lease) error {
	c := change{care: journal.Care{Durable: true}}
	t := *j.task(index)
	t.Try, t.Fence, t.Granted, t.Code, t.Cause, t.Devices, t.NotBefore = t.Try+1, l.Fence, l.Granted, "", "", nil, time.Time{}
	for _, p := range l.Parts {
		t.Devices, t.Memory = append(t.Devices, p.GPU), p.Memory
	}
	t.Started, t.Exit, t.Output, t.Error, t.PID = time.Time{}, job.Task{}.Exit, "", "", 0
	c.step(j, index, job.Grant, t)
	return k.commit(&c)
}
