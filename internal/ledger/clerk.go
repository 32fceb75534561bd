package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/journal"
	"github.com/berth-gpu/berth/internal/lease"
)

const (
	// maxBatch is how many errands share one write to the journal. Batches grow
	// by themselves while the disk is waited for; the limit keeps the first in
	// a batch from waiting for a crowd.
	maxBatch = 256
	// retry is how soon something is tried again that the journal refused.
	retry = time.Second
)

// errand is something to do to the book, and where to say how it went.
type errand struct {
	do   func(now time.Time) error
	done chan error // has room for the answer: the clerk never waits
	err  error
}

// clerk takes errands until ctx ends. Its loop: gather, apply, write, answer.
func (l *Ledger) clerk(ctx context.Context) {
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	batch := make([]*errand, 0, maxBatch)
	for {
		l.setAlarm(alarm)
		batch = batch[:0]
		select {
		case <-ctx.Done():
			return
		case e := <-l.errands:
			batch = append(batch, e)
		case <-l.wake:
		case <-alarm.C:
		}
	gather:
		for len(batch) < maxBatch {
			select {
			case e := <-l.errands:
				batch = append(batch, e)
			default:
				break gather
			}
		}
		l.work(batch)
	}
}

// setAlarm wakes the clerk when something comes due.
func (l *Ledger) setAlarm(alarm *time.Timer) {
	l.mu.RLock()
	next, any := l.book.Next()
	l.mu.RUnlock()
	wait := time.Hour
	if any {
		wait = time.Until(next)
	}
	if l.restless {
		wait = min(wait, retry)
	}
	alarm.Reset(max(wait, 0))
}

// work does a batch: all of it in one write, or, if the journal does not take
// that, one errand at a time, so that what frees something still gets through
// on a full disk.
func (l *Ledger) work(batch []*errand) {
	l.restless = false
	if l.attempt(batch, true) == nil {
		answer(batch)
		return
	}
	l.restless = true
	for i, e := range batch {
		if err := l.attempt(batch[i:i+1], false); err != nil {
			e.err = err
		}
		answer(batch[i : i+1])
	}
}

func answer(batch []*errand) {
	for _, e := range batch {
		e.done <- e.err
	}
}

// attempt applies errands and writes down what they did. With an error nothing
// of it happened. With turns, what has come due and who can be served is seen
// to as well.
func (l *Ledger) attempt(batch []*errand, turns bool) error {
	now := time.Now()
	l.mu.Lock()
	l.effects = l.effects[:0]
	for _, e := range batch {
		from := len(l.effects)
		if e.err = e.do(now); e.err != nil {
			l.undo(from)
		}
	}
	if turns {
		l.due(now)
		l.serve(now)
	}
	effects := l.effects
	l.mu.Unlock()

	if err := l.write(effects); err != nil {
		l.mu.Lock()
		l.undo(0)
		l.mu.Unlock()
		return err
	}
	l.settle(effects)
	l.compactIfLong()
	return nil
}

// apply makes a change to the book. The caller holds mu.
func (l *Ledger) apply(c lease.Change, now time.Time) (lease.Effect, error) {
	e, err := l.book.Apply(c, now)
	if err == nil {
		l.effects = append(l.effects, e)
		l.reflect(&e, 1)
	}
	return e, err
}

// undo takes back the effects of this batch from a position on. The caller
// holds mu.
func (l *Ledger) undo(from int) {
	undone := l.effects[from:]
	l.book.Revert(undone...)
	for i := range undone {
		l.reflect(&undone[i], -1)
		if undone[i].Kind == lease.Asked {
			delete(l.waiters, undone[i].Request.ID)
		}
	}
	l.effects = l.effects[:from]
}

// reflect shows placement what an effect did, or with sign −1 that it was
// taken back. The caller holds mu.
func (l *Ledger) reflect(e *lease.Effect, sign int) {
	subject := e.Lease()
	if subject == nil {
		return
	}
	for _, p := range subject.Parts {
		switch {
		case e.Before == nil:
			l.snapshot.AddLeases(subject.Holder.Service, p.GPU, sign)
		case e.After == nil:
			l.snapshot.AddLeases(subject.Holder.Service, p.GPU, -sign)
		}
		l.refresh(p.GPU)
	}
	if e.After == nil || sign < 0 || e.Kind == lease.WasParked {
		l.dirty = true
	}
}

// due ends what has come to its end. The caller holds mu.
func (l *Ledger) due(now time.Time) {
	if next, any := l.book.Next(); !any || now.Before(next) {
		return
	}
	for _, change := range l.book.Due(now) {
		if x, is := change.(lease.TimeOut); is && l.waiters[x.ID] != nil {
			// Said before it leaves: afterwards nobody knows what it waited for.
			l.waiters[x.ID].refusal = l.refusal(l.book.Request(x.ID))
		}
		_, _ = l.apply(change, now) // it is due, so the book takes it
	}
}

// write puts effects into the journal. Nothing durable means nothing to write.
func (l *Ledger) write(effects []lease.Effect) error {
	l.buffer, l.ends, l.group = l.buffer[:0], l.ends[:0], l.group[:0]
	care := journal.Care{Reserve: true}
	for i := range effects {
		e := &effects[i]
		if !e.Durable() {
			continue
		}
		record := lease.RecordOf(e)
		l.buffer = record.Append(l.buffer)
		l.ends = append(l.ends, len(l.buffer))
		care.Durable = care.Durable || outlivesBoot(e.Lease())
		care.Reserve = care.Reserve && e.After == nil
	}
	if len(l.ends) == 0 {
		return nil
	}
	from := 0
	for _, end := range l.ends { // cut last: the buffer moves while it grows
		l.group = append(l.group, l.buffer[from:end])
		from = end
	}
	return l.journal.Append(l.group, care)
}

// outlivesBoot reports whether a lease would still stand after the machine was
// started again. One that is bound to a process would not, so its records need
// to survive the daemon, and not the machine.
func outlivesBoot(l *lease.Lease) bool { return l.Binding != lease.ByProcess }

// settle tells everybody what a batch did, now that it is written down.
func (l *Ledger) settle(effects []lease.Effect) {
	for i := range effects {
		e := &effects[i]
		l.announce(e)
		if e.Request != nil && e.Kind != lease.Asked {
			l.dismiss(e)
		}
		if e.After == nil && e.Before != nil {
			l.holders.ended(e.Before)
		}
	}
}

// dismiss answers the one who waited.
func (l *Ledger) dismiss(e *lease.Effect) {
	l.mu.Lock()
	w := l.waiters[e.Request.ID]
	delete(l.waiters, e.Request.ID)
	l.mu.Unlock()
	if w == nil {
		return
	}
	switch e.Kind {
	case lease.Granted:
		w.done <- outcome{lease: e.After}
	case lease.TimedOut:
		w.done <- outcome{err: &TimeoutError{Request: e.Request, Waited: e.Time.Sub(e.Request.Requested), Refusal: w.refusal}}
	default:
		w.done <- outcome{err: fmt.Errorf("wait for %s: %w", e.Request.ID, context.Canceled)}
	}
}

// Thresholds for making the journal shorter: far more records than leases, and
// enough of them to be worth it.
const (
	compactRecords = 20_000
	compactFactor  = 4
)

// compactIfLong replaces a long journal by the leases that stand, in a
// goroutine of its own; the clerk goes on appending meanwhile.
func (l *Ledger) compactIfLong() {
	stats := l.journal.Stats()
	if stats.LogRecords < compactRecords || stats.LogRecords < compactFactor*stats.SnapshotRecords || !l.compacting.CompareAndSwap(false, true) {
		return
	}
	l.mu.RLock()
	standing := l.book.Leases() // leases never change, so the list may leave this goroutine
	fence := l.fenceRecord(l.book.Fence())
	l.mu.RUnlock()
	go func() {
		defer l.compacting.Store(false)
		err := l.journal.Compact(stats.LastSeq, func(yield func([]byte) bool) {
			var buffer []byte
			for _, each := range standing {
				record := lease.RecordOfLease(each)
				if buffer = record.Append(buffer[:0]); !yield(buffer) {
					return
				}
			}
			yield(fence.Append(buffer[:0]))
		})
		if err != nil && !errors.Is(err, journal.ErrClosed) {
			l.emit(gpu.EventJournal, gpu.Warning, time.Now(), "", "", nil, "The journal could not be made shorter, and only grows: %v", err)
		}
	}()
}
