package keeper

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/text/words"
	"github.com/berth-gpu/berth/internal/when"
)

// Errors for callers to test.
var (
	// ErrUnknown means that there is no such job.
	ErrUnknown = errors.New("there is no such job")
	// ErrState means that a job is in a state in which that cannot be done.
	ErrState = errors.New("that cannot be done now")
	// ErrLimit means that a user has as many jobs as allowed.
	ErrLimit = errors.New("too many jobs")
)

// The limits of what is kept.
const (
	keepFor   = 90 * 24 * time.Hour
	mostEnded = 100_000   // tasks, and up to a 64th more until Run tidies
	mostOfOne = 256 << 20 // bytes of the jobs and environments of one user

	// mostAwaited limits how many jobs and tasks the jobs of one user wait for, each for
	// each of those: the end of a task has all of them looked at, whoever it belongs to.
	mostAwaited = 100_000

	// tidiedAtOnce limits the jobs that are forgotten while nobody else can change a job.
	// Each takes 10 to 20 µs.
	tidiedAtOnce = 1000

	// MostSpec is the limit of one job without its environment, in bytes, and of the
	// command of each of its tasks; MostEnvironment is that of its environment.
	MostSpec        = 256 << 10
	MostEnvironment = 256 << 10
)

// Fits refuses a job with a task whose command would be too long. It looks only at the
// template, so that nothing is made that large.
func Fits(s *job.Spec) error {
	if n := s.LongestCommand(); n > MostSpec {
		return fmt.Errorf("%w: with its parameters the command of a task has %d bytes, and %d are allowed; put its words into a file", ErrLimit, n, MostSpec)
	}
	return nil
}

// Submit takes in a job that Fits, and returns when it is on disk. The keeper gives it its number.
func (k *Keeper) Submit(s job.Spec, environment []string, by gpu.By) (job.Spec, error) {
	defer fault.Shared()
	<-k.begun
	limits := k.Limits(s.UID, s.User)
	k.writing.Lock()
	err := k.room(&s, limits) // a job that is refused takes no number
	k.writing.Unlock()
	if err != nil {
		return job.Spec{}, err
	}
	for taken := true; taken; taken = k.leases.Taken(&s) { // so that an id means one thing to people
		if s.Number, err = k.Numbers(); err != nil {
			return job.Spec{}, err
		}
	}
	k.writing.Lock()
	j, err := k.submit(&s, environment, limits)
	never := err == nil && j.condition == job.Never
	k.writing.Unlock()
	if err != nil {
		return job.Spec{}, err
	}
	k.Publish(submittedEvent(j, by))
	if never { // what it waits for ended a moment ago
		k.prevent(j)
	}
	k.feed(j.owner)
	return *j.Spec, nil
}

// submit takes in a job. The caller holds writing.
func (k *Keeper) submit(s *job.Spec, environment []string, limits Limits) (j *kept, err error) {
	if k.stopped() {
		return nil, runs.ErrStopped
	}
	if err := k.room(s, limits); err != nil {
		return nil, err
	}
	if environment != nil {
		if err := k.journal.Write(nil, journal.Care{}); err != nil { // broken, so that nothing is to be left beside it
			return nil, err
		}
		if s.Environment, err = k.environments.keep(s.UID, environment); err != nil {
			return nil, err
		}
	}
	e := entry{Submit: s}
	text := e.text()
	apart := *s // the numbers of its tasks, which are limited, are not words of its own
	apart.Array = nil
	if len((&entry{Submit: &apart}).text()) > MostSpec {
		k.environments.remove(s.Environment)
		return nil, fmt.Errorf("%w: without its environment it takes more than the %d bytes that are allowed; put its words into a file", ErrLimit, MostSpec)
	}
	if err := k.journal.Write([][]byte{text}, journal.Care{Durable: true}); err != nil {
		if errors.Is(err, journal.ErrFull) || errors.Is(err, journal.ErrTooLarge) {
			k.environments.remove(s.Environment)
		}
		return nil, err // the next start removes the environment, unless it finds the job: a broken disk may not take an entry back
	}
	k.mu.Lock()
	j = k.add(s, int64(len(text)))
	k.mu.Unlock()
	k.judge(j)
	k.note(j)
	k.sort(j, time.Now())
	k.compactIfLong()
	return j, nil
}

// room returns an error if a user may not have one more job. It forgets jobs of the user
// that have ended to make room. The caller holds writing.
func (k *Keeper) room(s *job.Spec, limits Limits) error {
	u := k.users[s.UID]
	if u == nil {
		u = &user{}
	}
	if most, limited := limits.Waiting.Get(); limited && u.open+s.Tasks() > most {
		next := "wait until some have begun, or cancel some"
		if s.Tasks() > most {
			next = "submit fewer tasks"
		}
		return fmt.Errorf("%w: you have %s that %s not begun, and this one has %s; %d are allowed (waiting_jobs). To go on, %s, or ask an administrator for more", ErrLimit,
			words.Count(u.open, "task"), words.Form(u.open, "has", "have"), words.Count(s.Tasks(), "task"), most, next)
	}
	if n := len(refs(s)); n > 0 && u.awaits+n > mostAwaited {
		return fmt.Errorf("%w: your jobs wait for %s, and this one for %d; %d are allowed. To go on, wait until some have begun, or wait for an array, which counts as one", ErrLimit,
			words.Count(u.awaits, "other"), n, mostAwaited)
	}
	const enough = mostOfOne - MostSpec - MostEnvironment
	if u.size < enough {
		return nil
	}
	defer k.forgotten()
	n := 0
	for _, p := range k.ended {
		if u.size < mostOfOne-mostOfOne/8 || n >= tidiedAtOnce && u.size < enough {
			break
		}
		if p.owner == u && !k.needed(p) {
			if !k.forget(p.number) {
				break
			}
			n++
		}
	}
	if u.size >= enough {
		return fmt.Errorf("%w: your jobs take %d MiB, and %d are allowed; cancel some, or wait until they have ended", ErrLimit, u.size>>20, mostOfOne>>20)
	}
	return nil
}

// needed reports whether another job of its owner waits for this one. Those of others do
// not keep it.
func (k *Keeper) needed(p *past) bool {
	return slices.ContainsFunc(k.waitedFor[p.number], func(n int64) bool {
		other := k.jobs[n]
		return other != nil && other.owner == p.owner
	})
}

// forget forgets a job that has ended. It reports false if that cannot be written down.
// The caller holds writing.
func (k *Keeper) forget(number int64) bool {
	e := entry{Forget: number}
	if k.journal.Write([][]byte{e.text()}, journal.Care{Reserve: true}) != nil {
		return false
	}
	k.mu.Lock()
	k.drop(number)
	k.mu.Unlock()
	return true
}

// forgotten drops the jobs that were forgotten from the list of those that have ended.
// The caller holds writing.
func (k *Keeper) forgotten() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = slices.DeleteFunc(k.ended, func(p *past) bool { return k.past[p.number] != p })
}

// tidy forgets jobs that ended long ago, and if there are too many, the oldest of users
// who have more than an equal share. It reports whether some are left for another call.
// The caller holds writing.
func (k *Keeper) tidy(now time.Time) (more bool) {
	defer k.forgotten()
	left, share, old := tidiedAtOnce, k.share(), k.oldBefore(now)
	for _, p := range k.ended {
		young := p.over.After(old)
		if young && k.endedSum <= mostEnded {
			break
		}
		if young && p.owner.ended <= share || k.needed(p) {
			continue
		}
		if left == 0 {
			return true
		}
		if !k.forget(p.number) {
			break // later
		}
		left--
	}
	k.tidyAt = max(mostEnded, k.endedSum) + mostEnded/64
	return false
}

// oldBefore returns before when a job must have ended to be old: by the clock, and also by
// that of an hour ago, so that nothing is forgotten because the clock is wrong for a while, as
// after a start. The caller holds writing.
func (k *Keeper) oldBefore(now time.Time) time.Time {
	if now.Sub(k.looked) >= time.Hour {
		k.lookedBefore, k.looked = k.looked, now
	}
	if before := k.lookedBefore.Round(0); before.Before(now.Round(0)) { // by the clock
		return before.Add(-keepFor)
	}
	return now.Add(-keepFor)
}

// share returns how many tasks that have ended are kept for each user, however many
// others have.
func (k *Keeper) share() int {
	n := 0
	for _, u := range k.users {
		if u.ended > 0 {
			n++
		}
	}
	return mostEnded / max(n, 1)
}

// Act is what somebody wants to do to a job or to one of its tasks.
type Act struct {
	job.Ref
	By  access.Actor
	Why string // for people; may be empty
}

// whom says who did something, if that is not the owner.
func (a *Act) whom(j *kept) string {
	if access.Owns(a.By, access.Of(access.Held, j.UID, j.User)) {
		return "its owner"
	}
	return lease.ByOf(a.By).String()
}

// on lets do decide a change of one task, or of the tasks of a job from an index on that
// have not ended, as many as one piece may have. It gives do the tasks that are as they were
// submitted in one piece. Next is where the next piece begins.
func (k *Keeper) on(r job.Ref, from int, do func(c *change, j *kept, first, last int)) (j *kept, c *change, next int, err error) {
	if j = k.job(r.Number); j == nil {
		return nil, nil, 0, ErrUnknown
	}
	c = &change{care: journal.Care{Durable: true, Reserve: true}}
	if r.One {
		index, known := j.TaskIndex(r.Task)
		if !known || !j.Many() {
			return nil, nil, 0, ErrUnknown
		}
		do(c, j, index, index)
		return j, c, j.total(), nil
	}
	first := from
	for ; first < len(j.tasks) && !c.full(); first++ {
		last := first
		for last+1 < len(j.tasks) && j.tasks[first] == nil && j.tasks[last+1] == nil && j.queued[last+1] == nil {
			last++
		}
		if !j.task(first).State.Over() {
			do(c, j, first, last)
		}
		first = last
	}
	if first >= len(j.tasks) { // also if it has ended, and no task can change
		first = j.total()
	}
	return j, c, first, nil
}

// Cancel ends a job or a task: what waits never begins, and the programs of what runs are
// ended.
func (k *Keeper) Cancel(a Act) error {
	now := when.Now()
	return k.change(a.Ref, "it has ended", func(c *change, j *kept, first, last int) {
		t := *j.task(first)
		t.Code, t.Cause = job.ByCancel, "cancelled by "+a.whom(j)
		if a.Why != "" {
			t.Cause += ": " + a.Why
		}
		if !t.State.Busy() {
			t.Ended = now
		}
		c.steps(j, first, last, job.Cancel, t)
	}, a.By)
}

// expire cancels a task that has waited too long.
func (k *Keeper) expire(j *kept, index int, why error) {
	now := when.Now()
	_ = k.change(job.Ref{Number: j.Number, Task: j.TaskNumber(index), One: j.Many()}, "", func(c *change, j *kept, first, last int) {
		t := *j.task(first)
		t.Code, t.Cause, t.Ended = job.WaitedTooLong, why.Error(), now
		c.steps(j, first, last, job.Prevent, t)
	}, access.Daemon()) // it waits again if that cannot be written down
}

// prevent cancels a job that can never begin.
func (k *Keeper) prevent(j *kept) {
	now := when.Now()
	why := "none of the jobs that it waits for has failed"
	k.mu.RLock()
	if other := k.job(j.prevented.Number); other != nil {
		name := other.ID()
		if j.prevented.One {
			name = fmt.Sprintf("%s.%d", name, j.prevented.Task)
		}
		why = name + " did not end well"
	} else if j.prevented.Number != 0 {
		why = "a job that it waits for is forgotten"
	}
	k.mu.RUnlock()
	err := k.change(job.Ref{Number: j.Number}, "", func(c *change, j *kept, first, last int) {
		t := *j.task(first)
		t.Code, t.Cause, t.Ended = job.Impossible, "it can never begin: "+why, now
		c.steps(j, first, last, job.Prevent, t)
	}, access.Daemon())
	if err != nil && !errors.Is(err, ErrState) && !errors.Is(err, ErrUnknown) {
		k.writing.Lock()
		k.runs.After(brokenPause, never{j.Number})
		k.writing.Unlock()
	}
}

// whyEnd says why the programs of a run are ended.
const whyEnd = "its job was cancelled"

// steps lets an event happen to tasks that have the same value.
func (c *change) steps(j *kept, first, last int, e job.Event, t job.Task) {
	if first == last {
		c.step(j, first, e, t)
		return
	}
	if to, acts, changes := job.Next(t.State, e); changes {
		t.State = to
		c.set(j, first, last, t, acts)
	}
}

// change makes a change of a job and acts on it. If nothing changes, it refuses. Of a job
// with many tasks, some may have changed if it fails.
func (k *Keeper) change(r job.Ref, unchanged string, do func(c *change, j *kept, first, last int), by access.Actor) error {
	defer fault.Shared()
	<-k.begun
	changed, told := false, false
	for from, more := 0, true; more; {
		k.writing.Lock()
		if k.stopped() {
			k.writing.Unlock()
			return runs.ErrStopped
		}
		j, c, next, err := k.on(r, from, do)
		if err == nil {
			err = k.commit(c)
		}
		if err != nil {
			if j != nil && j.changing {
				j.changing = false
				k.sort(j, time.Now())
			}
			k.writing.Unlock()
			return err
		}
		from, more = next, next < j.total()
		j.changing = more
		ended := k.follow(j, c.updates, by)
		if ended >= 0 && !told {
			told = true
			t := *j.task(ended)
			k.Publish(endedEvent(j, ended, &t))
		}
		changed = changed || len(c.updates) > 0
		if ended >= 0 {
			k.stir(j.Number)
		}
		k.writing.Unlock()
		k.feed(j.owner)
	}
	if !changed {
		return fmt.Errorf("%w: %s", ErrState, unchanged)
	}
	return nil
}

// follow does the acts of a change by somebody. It returns the first task that has ended; -1
// if none has. The caller holds writing.
func (k *Keeper) follow(j *kept, updates []update, by access.Actor) (ended int) {
	ended = -1
	for _, u := range updates {
		for _, act := range u.acts {
			switch act {
			case job.Kill:
				k.runs.End(j.running(u.first).name(), by, whyEnd)
			case job.Tell:
				if ended < 0 {
					ended = u.first
				}
			}
		}
		for i := u.first; i <= u.last; i++ {
			if slices.Contains(u.acts, job.Withdraw) {
				k.leave(j, i)
			}
			if j.queued[i] != nil && j.task(i).State.Over() { // it does not come back, and its job may be packed when it has left
				k.vacate(j, i)
			}
			if slices.Contains(u.acts, job.Feed) && j.queued[i] == nil { // else it waits when it has left its place
				j.wait(i)
			}
		}
	}
	j.unwait()
	k.sort(j, time.Now())
	return ended
}

// Hold keeps a job or a task that has not begun from beginning.
func (k *Keeper) Hold(a Act) error {
	if !a.One {
		return k.set(a.Ref, func(j *kept, s *setting) error {
			switch {
			case s.Held:
				return fmt.Errorf("%w: it is held already", ErrState)
			case j.counts[job.Waiting] == 0:
				return fmt.Errorf("%w: it does not wait", ErrState)
			}
			s.Held = true
			return nil
		})
	}
	return k.change(a.Ref, "it does not wait", func(c *change, j *kept, first, last int) {
		t := *j.task(first)
		t.Code, t.Cause, t.Since = job.OnHold, "held by "+a.whom(j), time.Time{}
		c.steps(j, first, last, job.Hold, t)
	}, a.By)
}

// Unhold lets a job or a task that is held begin at its turn.
func (k *Keeper) Unhold(a Act) error {
	now := when.Now()
	k.mu.RLock()
	if j := k.jobs[a.Number]; j != nil && j.bare && j.over.IsZero() {
		defer k.mu.RUnlock()
		return fmt.Errorf("%w: %s", ErrState, j.bareText())
	}
	k.mu.RUnlock()
	err := k.change(a.Ref, "it is not held", func(c *change, j *kept, first, last int) {
		t := *j.task(first)
		t.Code, t.Cause, t.NotBefore, t.Requeues, t.Vain = "", "", now, 0, 0
		c.steps(j, first, last, job.Unhold, t)
	}, a.By)
	if a.One || err != nil && !errors.Is(err, ErrState) {
		return err
	}
	loose := k.set(a.Ref, func(j *kept, s *setting) error {
		if !s.Held || !j.over.IsZero() {
			return fmt.Errorf("%w: it is not held", ErrState)
		}
		s.Held, s.Unheld = false, now
		return nil
	})
	if err == nil && errors.Is(loose, ErrState) {
		return nil // some of its tasks were held
	}
	return loose
}

// Prioritize gives a job another priority.
func (k *Keeper) Prioritize(r job.Ref, priority int) error {
	return k.set(r, func(j *kept, s *setting) error {
		if !j.over.IsZero() {
			return fmt.Errorf("%w: it has ended", ErrState)
		}
		s.Priority = priority
		return nil
	})
}

// set changes the settings of a job. Its tasks in the queue leave it, and come back as
// the job now is.
func (k *Keeper) set(r job.Ref, do func(*kept, *setting) error) error {
	defer fault.Shared()
	<-k.begun
	k.writing.Lock()
	j := k.job(r.Number)
	var err error
	switch {
	case k.stopped():
		err = runs.ErrStopped
	case j == nil:
		err = ErrUnknown
	}
	var s *setting
	if err == nil {
		s = j.setting()
		err = do(j, s)
	}
	if err == nil {
		e := entry{Change: s}
		err = k.journal.Write([][]byte{e.text()}, journal.Care{Durable: true, Reserve: true})
	}
	if err != nil {
		k.writing.Unlock()
		return err
	}
	k.mu.Lock()
	if j.ready {
		j.owner.enlist(j, false)
	}
	j.apply(s)
	k.mu.Unlock()
	k.leaveQueue(j)
	k.sort(j, time.Now())
	k.writing.Unlock()
	k.feed(j.owner)
	return nil
}
