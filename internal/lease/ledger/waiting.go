package ledger

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// Whoever waits is written down in a log of its own, so that the queue survives the
// daemon. After a start, the requests of the log stand at their places as absent ones:
// they hold back whoever the rules keep behind them, and are not granted. A client that
// asks again takes its place. The others leave: at once if their process has ended, and
// after returnLimit in any case.
//
// The log is written once for a batch in which somebody begins or ceases to wait, and
// nobody waits for the disk: clients of this machine do not survive its crash either. If
// the disk refuses the write, requests wait as always, and lose their places at the next
// start.

const (
	// returnLimit is how long a place is kept for a client that has not asked again.
	returnLimit = 10 * time.Second
	// lookAgain is how often the clerk looks whether the processes of absent clients
	// still live.
	lookAgain = time.Second
)

// waits is the log of waiting requests.
type waits struct {
	journal journal.Journal    // nil if nothing is written down
	noted   map[lease.Key]bool // what waits by the log
	places  []*lease.Request   // of the log at the start, until Run puts them into the queue
	absent  int                // how many absent requests there may be in the queue
	looked  time.Time          // when the clerk last looked after their processes

	// Of the last batch, to be used again.
	began  []*lease.Request
	gone   []lease.Key
	buffer []byte
	ends   []int
	group  [][]byte

	compacting atomic.Bool
	rewrite    atomic.Bool // the clock was set
}

// open reads the log of waiting requests.
func (w *waits) open(open func(func(journal.Entry) error) (journal.Journal, error)) (err error) {
	w.noted = map[lease.Key]bool{}
	if open == nil {
		return nil
	}
	places := map[lease.Key]*lease.Request{}
	w.journal, err = open(func(e journal.Entry) error {
		k, r, err := lease.ReadWaiting(e.Data)
		if err != nil {
			return fmt.Errorf("%w: %w", journal.ErrContradiction, err)
		}
		if delete(places, k); r != nil {
			places[k] = r
			w.places = append(w.places, r) // those of the same time keep their order
		}
		return nil
	})
	w.places = slices.DeleteFunc(w.places, func(r *lease.Request) bool { return places[r.Key()] != r })
	return err
}

// close closes the log.
func (w *waits) close() error {
	if w.journal == nil {
		return nil
	}
	return w.journal.Close()
}

// putBack puts the requests of the log into the queue, at their places. It leaves out
// those that were granted, whose processes have ended, or whose clients have stopped
// waiting meanwhile. It runs before the clerk takes its first call.
func (l *Ledger) putBack(now time.Time) {
	w := &l.waits
	var gone []lease.Key
	l.mu.Lock()
	for _, r := range w.places {
		if r.Requested.After(now) { // the clock was set back
			r.Until = r.Until.Add(now.Sub(r.Requested))
			r.Requested, r.Since = now, now
		}
		r.Deadline = now.Add(returnLimit)
		over := l.hasEnded(r) || r.Until.Before(now)
		if !over {
			_, err := l.book.Apply(lease.Ask{Request: r}, now)
			over = err != nil // it was granted, or makes no sense any more
		}
		if over {
			gone = append(gone, r.Key())
			continue
		}
		w.noted[r.Key()] = true
		w.absent++
	}
	l.mu.Unlock()
	w.places, w.looked = nil, now
	w.write(nil, gone)
}

// hasEnded reports whether the process of an absent client has ended.
func (s *state) hasEnded(r *lease.Request) bool {
	h := r.Holder
	return h.PID != 0 && (h.Boot != s.boot || s.processes.Ended(process.ID{PID: h.PID, Start: h.Start}))
}

// AbsentInUnit returns the holder of the absent request for a unit or container, by its id,
// if the actor may speak for that holder.
func (l *Ledger) AbsentInUnit(id, unit string, by access.Actor) (holder lease.Holder, waits bool) {
	l.mu.Lock() // not RLock: Waiting sorts the queue
	defer l.mu.Unlock()
	for _, r := range l.book.Waiting() {
		if r.Absent && r.ID == id && r.Unit == unit && access.May(by, access.Speak, access.Of(access.Process, r.Holder.UID, "")) == nil {
			return r.Holder, true
		}
	}
	return lease.Holder{}, false
}

// takePlace takes the absent request that r is asked again for out of the queue. The
// request gets its age, and waits no longer than it would have without the restart. The
// caller holds mu.
func (s *state) takePlace(r *lease.Request, now time.Time) error {
	absent := s.book.Request(r.Key())
	if absent == nil || !r.Returns(absent) {
		return nil
	}
	if _, err := s.apply(lease.Withdraw{Key: r.Key(), By: access.Daemon(), Why: "its client asks again"}, now); err != nil {
		return err
	}
	r.Since, r.Arrival = absent.Requested, absent.Arrival
	r.Wait = gpu.Some(max(min(r.Wait.Or(s.settings.Wait), absent.Until.Sub(now)), 0))
	return nil
}

// dismissAbsent takes absent requests out of the queue whose processes have ended. The
// caller holds mu.
func (l *Ledger) dismissAbsent(now time.Time) {
	w := &l.waits
	if w.absent == 0 || now.Sub(w.looked) < lookAgain {
		return
	}
	w.looked, w.absent = now, 0
	for _, r := range slices.Clone(l.book.Waiting()) {
		switch {
		case !r.Absent:
		case l.hasEnded(r):
			_, _ = l.apply(lease.Withdraw{Key: r.Key(), By: access.Daemon(), Why: "its process has ended"}, now) // it waits, so the book takes it
		default:
			w.absent++
		}
	}
}

// leaveIfAbsent returns the change for a request whose time is over: one whose client is
// absent gives up its place, and nobody is told that it timed out. The caller holds mu.
func (s *state) leaveIfAbsent(c lease.Change) lease.Change {
	late, is := c.(lease.TimeOut)
	if !is {
		return c
	}
	if r := s.book.Request(late.Key); r == nil || !r.Absent {
		return c
	}
	return lease.Withdraw{Key: late.Key, By: access.Daemon(), Why: "its client did not come back"}
}

// note writes down who began and who ceased to wait in a batch.
func (l *Ledger) note(effects []lease.Effect) {
	w := &l.waits
	if w.journal == nil {
		return
	}
	began, gone := w.began[:0], w.gone[:0]
	l.mu.RLock()
	for i := range effects {
		r := effects[i].Request
		if r == nil || r.Into != 0 {
			continue
		}
		switch now, k := l.book.Request(r.Key()), r.Key(); {
		case now == r:
			began = append(began, r)
			w.noted[k] = true
		case now == nil && w.noted[k]:
			gone = append(gone, k)
			delete(w.noted, k)
		}
	}
	l.mu.RUnlock()
	w.write(began, gone)
	clear(began)
	w.began, w.gone = began, gone
	l.compactWaits()
}

// write writes to the log. An error costs places at the next start, and nothing else; if
// the disk is at fault, the journal says so.
func (w *waits) write(began []*lease.Request, gone []lease.Key) {
	if w.journal == nil || len(began)+len(gone) == 0 {
		return
	}
	w.buffer, w.ends, w.group = w.buffer[:0], w.ends[:0], w.group[:0]
	for _, k := range gone {
		w.buffer = lease.AppendGone(w.buffer, k)
		w.ends = append(w.ends, len(w.buffer))
	}
	for _, r := range began {
		w.buffer = lease.AppendWaiting(w.buffer, r)
		w.ends = append(w.ends, len(w.buffer))
	}
	from := 0
	for _, end := range w.ends { // slice last: the buffer moves while it grows
		w.group = append(w.group, w.buffer[from:end])
		from = end
	}
	_ = w.journal.Append(w.group, journal.Care{Reserve: true})
}

// compactWaits replaces a long log by the requests that wait now, in a new goroutine.
func (l *Ledger) compactWaits() {
	w := &l.waits
	stats := w.journal.Stats()
	if !w.rewrite.Load() && (stats.LogEntries < compactEntries || stats.LogEntries < compactFactor*len(w.noted)) || !w.compacting.CompareAndSwap(false, true) {
		return
	}
	w.rewrite.Store(false)
	l.mu.Lock()                               // not RLock: Waiting sorts the queue
	waiting := slices.Clone(l.book.Waiting()) // requests never change, so the list may leave this goroutine
	l.mu.Unlock()
	go func() {
		defer w.compacting.Store(false)
		err := w.journal.Compact(stats.LastSeq, func(yield func([]byte) bool) {
			var buffer []byte
			for _, r := range waiting {
				if r.Into != 0 {
					continue
				}
				if buffer = lease.AppendWaiting(buffer[:0], r); !yield(buffer) {
					return
				}
			}
		})
		if err != nil && !errors.Is(err, journal.ErrClosed) {
			w.rewrite.Store(true) // it has to be done
			select {
			case <-time.After(compactRetry):
			case <-l.finished:
			}
		}
	}()
}
