package ledger

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/fair"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/queue"
)

const (
	// maxBatch is the largest number of calls that share one write to the journal.
	// Batches grow by themselves while the clerk waits for the disk; the limit keeps the
	// first call of a batch from waiting for too many others.
	maxBatch = 256
	// retry is how long the clerk waits before it retries a change that the journal
	// refused.
	retry = time.Second
	// clockAgain is how often the clerk looks at the clock at least while anything is going
	// to be due: a timer stands still while the machine sleeps.
	clockAgain = time.Minute
)

// call is work on the book, with a channel for its result.
type call struct {
	do   func(now time.Time) error
	done chan error // has room for the result, so that the clerk never waits; nil if nobody receives it
	err  error
}

// mostCalls is the largest number of calls that one user may have with the clerk at a
// time. It is enough for them to share writes to the disk, and few enough that the call
// of another user comes soon after them.
const mostCalls = 64

// submitFor submits a call for an actor once fewer than mostCalls of the
// same user are under way. An actor who may exceed the limits of a user does not
// wait.
func (l *Ledger) submitFor(ctx context.Context, by access.Actor, do func(now time.Time) error) error {
	if access.May(by, access.Exceed, access.Object{}) == nil {
		return l.submit(ctx, do)
	}
	calls, err := l.limiter.Begin(ctx, fair.UserOf(by))
	if err != nil {
		return err
	}
	defer calls.End()
	return l.submit(ctx, do)
}

// ErrStopped is the error of a ledger that has stopped.
var ErrStopped = errors.New("the daemon is stopping")

// submit runs a call at once, or hands it to the clerk and waits for its result. Once
// the clerk has the call, submit waits for the result even if ctx ends, because the
// caller would otherwise not know it. A call may run twice, so anything that do does
// besides applying changes must allow for that.
func (l *Ledger) submit(ctx context.Context, do func(now time.Time) error) error {
	if done, err := l.here(do); done {
		return err
	}
	e, used := l.spent.Get().(*call)
	if !used {
		e = &call{done: make(chan error, 1)}
	}
	e.do = do
	select {
	case l.calls <- e:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.finished:
		return ErrStopped
	}
	select {
	case err := <-e.done:
		e.do = nil
		l.spent.Put(e)
		return err
	case <-l.finished:
		select {
		case err := <-e.done:
			return err
		default:
			return ErrStopped
		}
	}
}

// clerk takes calls until ctx ends. Its loop: gather, apply, write, answer.
// While it runs, other goroutines may take the seat; when it returns, it keeps
// the seat for good.
func (l *Ledger) clerk(ctx context.Context) {
	l.alarm = time.NewTimer(0)
	defer l.alarm.Stop()
	l.leaveSeat()
	batch := make([]*call, 0, maxBatch)
	for {
		batch = batch[:0]
		rang := false
		select {
		case <-ctx.Done():
			l.seat <- struct{}{}
			close(l.quiet)
			return
		case e := <-l.calls:
			batch = append(batch, e)
		case <-l.wake:
		case <-l.alarm.C:
			rang = true
		}
		l.seat <- struct{}{}
		if rang {
			l.alarmAt = time.Time{}
		}
	gather:
		for len(batch) < maxBatch {
			select {
			case e := <-l.calls:
				batch = append(batch, e)
			default:
				break gather
			}
		}
		l.serveAll(batch)
		l.leaveSeat()
	}
}

// here runs a call in the goroutine that submits it, if no other goroutine works on
// the book or waits to. Waking the clerk, and being woken by it, takes longer than most
// calls.
func (l *Ledger) here(do func(now time.Time) error) (done bool, err error) {
	if len(l.calls) > 0 {
		return false, nil
	}
	select {
	case l.seat <- struct{}{}:
	default:
		return false, nil
	}
	defer crashOnPanic() // the book may have changed in part, and the caller might recover
	l.own = call{do: do}
	l.serveAll([]*call{&l.own})
	err = l.own.err
	l.leaveSeat()
	return true, err
}

// crashOnPanic ends the daemon if the function that defers it panics. It is for work on
// shared state: the work may have changed the state in part, and its caller might recover
// and go on.
func crashOnPanic() {
	if cause := recover(); cause != nil {
		text := fmt.Sprintf("%v\n\n%s", cause, debug.Stack())
		go func() { panic(text) }()
		select {} // until the panic ends the process
	}
}

// serveAll works on a batch, on due changes and on the backlog, and sets the alarm. The
// caller has the seat.
func (l *Ledger) serveAll(batch []*call) {
	l.round.begin()
	l.work(batch)
	l.holders.catchUp()
	l.setAlarm()
}

// leaveSeat lets another goroutine work on the book.
func (l *Ledger) leaveSeat() {
	l.round.end()
	<-l.seat
}

// setAlarm sets the time at which the clerk wakes up because something is due. A change
// that the journal refused is due already and must not keep the clerk spinning, so while
// the journal refuses, the clerk tries again once per retry interval. setAlarm never
// moves an alarm to a later time: that costs more than waking up once too early.
func (l *Ledger) setAlarm() {
	now := l.clock.Now()
	var at time.Time
	if l.restless || l.Trouble() != nil {
		at = now.Add(retry)
	} else {
		l.mu.RLock()
		next, any := l.book.Next()
		l.mu.RUnlock()
		if !any {
			return
		}
		look := now.Add(clockAgain)
		if l.waits.absent > 0 {
			look = now.Add(lookAgain)
		}
		if at = next; look.Before(at) {
			at = look
		}
	}
	if l.alarmAt.IsZero() || at.Before(l.alarmAt) {
		l.alarmAt = at
		l.alarm.Reset(max(at.Sub(now), 0))
	}
}

// work applies a batch and writes it to the journal in one write. If the journal or the
// audit log refuses the write, work tries the calls one at a time, so that releases
// still get through on a full disk and waiting requests still time out. If it was the audit
// log, work also grants what that has nothing to do with.
func (l *Ledger) work(batch []*call) {
	if !l.refused.IsZero() && time.Since(l.refused) >= retry {
		l.refused = time.Time{}
	}
	l.restless = !l.refused.IsZero()
	if l.attempt(batch, l.tend) == nil {
		answer(batch)
		if len(batch) == 0 {
			l.probe()
		}
		l.goOn()
		return
	}
	l.restless = true
	for i, e := range batch {
		if err := l.attempt(batch[i:i+1], nil); err != nil {
			e.err = err
		}
		answer(batch[i : i+1])
	}
	_ = l.attempt(nil, func(now time.Time) { l.due(now, timeOuts) }) // writes nothing
	_ = l.attempt(nil, func(now time.Time) { l.due(now, expiries) }) // what the journal refuses stays due
	if !l.refused.IsZero() && l.attempt(nil, l.tend) == nil {
		l.goOn()
	}
}

// goOn has the clerk grant more, if it has not looked at all that may fit. It is for a round
// that was written down: one that was refused is tried again by the alarm.
func (l *Ledger) goOn() {
	if l.more {
		l.nudge()
	}
}

// tend does what is due, and grants the waiting requests that fit. The caller holds mu.
func (l *Ledger) tend(now time.Time) {
	if refused := !l.refused.IsZero(); refused != l.unwritten {
		l.unwritten, l.dirty = refused, true
	}
	l.holders.tend(now)
	l.due(now, everything)
	l.dismissAbsent(now)
	l.recharge()
	l.more = l.serve(now)
}

func answer(batch []*call) {
	for _, e := range batch {
		if e.done != nil {
			e.done <- e.err
		}
	}
}

// attempt applies calls, runs then, and writes the effects of both to
// the journal. If it returns an error, it has undone all of them.
func (l *Ledger) attempt(batch []*call, then func(now time.Time)) error {
	set := l.clock.Set()
	now := l.clock.Now()
	l.mu.Lock()
	if set != 0 {
		l.shift(set)
	}
	l.effects, l.regained = l.effects[:0], l.regained[:0]
	l.do(l.do(batch, now), now)
	if then != nil {
		then(now)
		l.recharge()
	}
	effects := l.effects
	ends := slices.ContainsFunc(effects, func(e lease.Effect) bool { return e.Ends() })
	if ends {
		l.pending = effects
	}
	l.mu.Unlock()

	err := l.hooks.authority(effects, nil)
	if err != nil {
		l.refused = time.Now()
	} else {
		if err = l.write(effects); err != nil {
			_ = l.hooks.authority(effects, err)
		}
	}
	if err != nil {
		l.mu.Lock()
		l.undo(0)
		l.recharge()
		l.pending = nil
		l.mu.Unlock()
		return err
	}
	if ends || len(l.regained) > 0 {
		l.mu.Lock()
		l.pending = nil
		l.holders.backlog.keep(l.regained)
		l.mu.Unlock()
	}
	l.note(effects)
	l.settle(effects)
	l.compactIfLong()
	return nil
}

// do runs calls and undoes those that fail. It returns those that failed after another one had
// left a device stale: what they ask for may have been taken for foreign. The caller holds mu.
func (l *Ledger) do(batch []*call, now time.Time) (again []*call) {
	for _, e := range batch {
		from, stale := len(l.effects), l.stale
		if e.err = e.do(now); e.err != nil {
			l.undo(from)
			if stale {
				again = append(again, e)
			}
		}
	}
	l.recharge()
	return again
}

// shift moves all times by as much as the clock was set. The caller holds mu.
func (l *Ledger) shift(by time.Duration) {
	for was, is := range l.book.Shift(by) {
		if w := l.waiters[was]; w != nil {
			delete(l.waiters, was)
			w.request = is
			l.waiters[is] = w
		}
	}
	if !l.alarmAt.IsZero() {
		l.alarmAt = l.alarmAt.Add(by)
	}
	l.waits.looked = l.waits.looked.Add(by)
	l.rewrite.Store(true)
	l.waits.rewrite.Store(true)
	if l.hooks.Shifted != nil {
		l.hooks.Shifted(by)
	}
}

// apply makes a change to the book. The caller holds mu.
func (s *state) apply(c lease.Change, now time.Time) (lease.Effect, error) {
	e, err := s.book.Apply(c, now)
	if err == nil {
		s.effects = append(s.effects, e)
		s.reflect(&e, 1)
	}
	return e, err
}

// undo reverts the effects of this batch from index from on. The caller holds mu.
func (s *state) undo(from int) {
	undone := s.effects[from:]
	s.book.Revert(undone...)
	for i := range undone {
		s.reflect(&undone[i], -1)
		if undone[i].Kind == lease.Asked {
			delete(s.waiters, undone[i].Request)
		}
	}
	s.effects = s.effects[:from]
}

// due applies the changes of this kind that are due. The caller holds mu.
func (l *Ledger) due(now time.Time, kind func(lease.Change) bool) {
	if next, any := l.book.Next(); !any || now.Before(next) {
		return
	}
	changes := slices.DeleteFunc(l.book.Due(now), func(c lease.Change) bool { return !kind(c) })
	if slices.ContainsFunc(changes, timeOuts) {
		l.explainTimeOuts(changes)
	}
	for _, c := range changes {
		_, _ = l.apply(l.leaveIfAbsent(l.revokeIfAlone(l.keepIfUsed(c), l.hooks.Changed == nil)), now) // it is due, so the book takes it
	}
}

// explainTimeOuts records what is in the way of each request that is about to time out.
// It runs before any of them leaves the queue, because that changes the reasons of the
// others. The caller holds mu.
func (s *state) explainTimeOuts(changes []lease.Change) {
	var late []*lease.Request
	least := queue.AnyLoad
	for _, c := range changes {
		t, is := c.(lease.TimeOut)
		if r := s.book.Request(t.Key); is && s.waiters[r] != nil {
			late = append(late, r)
			least = least.Smaller(leastAdvice(r))
		}
	}
	slices.SortFunc(late, s.book.Compare)
	n := s.front(least)
	for _, r := range late {
		advance(n, r)
		w := s.waiters[r]
		w.refusal, w.quota = s.refusal(r, n), s.overQuota(r, n)
	}
}

func everything(lease.Change) bool { return true }
func timeOuts(c lease.Change) bool { _, is := c.(lease.TimeOut); return is }
func expiries(c lease.Change) bool { return !timeOuts(c) }

// write writes the durable effects to the journal. If there are none, it writes nothing.
func (l *Ledger) write(effects []lease.Effect) error {
	l.buffer, l.ends, l.group = l.buffer[:0], l.ends[:0], l.group[:0]
	care := journal.Care{Reserve: true}
	for i := range effects {
		e := &effects[i]
		if !e.Durable() {
			continue
		}
		l.entry = lease.EntryIn(&l.kept, e)
		l.buffer = lease.AppendEntry(l.buffer, &l.entry)
		l.ends = append(l.ends, len(l.buffer))
		care.Durable = care.Durable || e.Lease().OutlivesBoot()
		care.Reserve = care.Reserve && !e.Takes()
	}
	if len(l.ends) == 0 {
		return nil
	}
	from := 0
	for _, end := range l.ends { // slice last: the buffer moves while it grows
		l.group = append(l.group, l.buffer[from:end])
		from = end
	}
	return l.journal.Write(l.group, care)
}

// settle announces the effects of a batch and answers its waiters, after the journal has
// the batch.
func (l *Ledger) settle(effects []lease.Effect) {
	for i := range effects {
		e := &effects[i]
		l.announce(e)
		if e.Request != nil && e.Kind != lease.Asked {
			l.dismiss(e)
		}
		if e.Kind == lease.Detached || e.Kind == lease.Bound && processOf(e.Before) != processOf(e.After) {
			l.holders.left(e.Before)
		}
		if e.Ends() {
			l.holders.ended(e.Before)
		}
		if l.hooks.Changed != nil {
			l.hooks.Changed(e)
		}
	}
}

// dismiss sends a waiter the outcome of its request.
func (l *Ledger) dismiss(e *lease.Effect) {
	l.mu.Lock()
	w := l.waiters[e.Request]
	delete(l.waiters, e.Request)
	l.mu.Unlock()
	if w == nil {
		return // the request did not wait: its call decides it
	}
	switch {
	case e.Grants():
		w.done <- outcome{lease: e.After}
	case e.Kind == lease.TimedOut:
		w.done <- outcome{err: &placement.TimeoutError{Request: e.Request, Waited: e.Time.Sub(e.Request.Requested), Refusal: w.refusal, Quota: w.quota}}
	case e.Before != nil && e.After == nil:
		w.done <- outcome{err: fmt.Errorf("%s %s: %w: the lease has ended", e.Request.For(), e.Request.ID, lease.ErrStaleFence)}
	default:
		w.done <- outcome{err: fmt.Errorf("wait for %s: %w", e.Request.ID, ErrWithdrawn)}
	}
}
