package ledger

import (
	"slices"
	"sync"

	"github.com/berth-gpu/berth/internal/process"
)

// watcher starts a watch over one process: it calls ended once, in a new goroutine, when
// the process has ended, and says whether a signal killed it, as far as anybody knows,
// unless stop is called before. process.Table is a watcher.
type watcher interface {
	WatchEnd(id process.ID, ended func(killed bool)) (stop func(), err error)
}

// watchedLease names one lease. The fence is part of the name, because an id may be
// used again.
type watchedLease struct {
	ID    string
	Fence uint64
}

// watches notices the end of the processes that leases are bound to. Its methods may be
// called from any goroutine.
//
// It keeps one watch for each process, however many leases the process holds. It goes on
// watching a process for a while after its last lease: a program that takes one lease
// after the other has none in between, and starting a watch costs more than the rest of a
// grant.
type watches struct {
	table  watcher
	exited func(id process.ID, killed bool)

	mu      sync.Mutex
	byID    map[process.ID]*watchedProcess
	resting []process.ID // processes that have released their last lease, oldest first
	closed  bool
}

// mostResting is the largest number of processes without leases that are watched.
const mostResting = 64

// watchedProcess is a process that has leases, or had some a while ago.
type watchedProcess struct {
	leases map[watchedLease]bool
	stop   func()
	rests  bool // it is in resting, although it may have leases again
	ended  bool // the process has ended, so a watch over it reports nothing more
}

// newWatches returns watches that call exited, in a new goroutine, when a process that
// leases are bound to has ended.
func newWatches(table watcher, exited func(holder process.ID, killed bool)) *watches {
	return &watches{table: table, exited: exited, byID: map[process.ID]*watchedProcess{}}
}

// add watches a process for a lease. While it holds the lock, add calls stands to check
// that the lease still exists and is still bound to this process. If not, the call of
// remove for it may be over already, so add takes the lease out again. After close, add
// does nothing.
func (w *watches) add(id process.ID, l watchedLease, stands func() bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	if held := w.byID[id]; held == nil || held.ended {
		stop, err := w.table.WatchEnd(id, func(killed bool) { w.end(id, killed) })
		switch {
		case err != nil:
			return err // also for a process that has ended
		case held != nil:
			stop()
		default:
			w.byID[id] = &watchedProcess{leases: map[watchedLease]bool{}, stop: stop}
		}
	}
	w.byID[id].leases[l] = true
	if !stands() {
		w.removeLocked(id, l)
	}
	return nil
}

// addExited adds a lease of a process that has ended already, and watches nothing until
// follow names another process.
func (w *watches) addExited(id process.ID, l watchedLease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if w.byID[id] == nil {
		w.byID[id] = &watchedProcess{leases: map[watchedLease]bool{}, stop: func() {}, ended: true}
	}
	w.byID[id].leases[l] = true
}

// follow watches another process in place of a holder that has ended. When the
// other one ends, exited is called with the holder again. follow does nothing
// if the holder has no leases.
func (w *watches) follow(id, other process.ID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := w.byID[id]
	if held == nil {
		return nil
	}
	stop, err := w.table.WatchEnd(other, func(bool) { w.exited(id, false) })
	if err != nil {
		return err
	}
	held.stop()
	held.stop, held.ended = stop, true
	return nil
}

// end records that a process has ended, and calls exited if it has leases. A lease that
// is granted to it from now on needs its own watch, which finds that out.
func (w *watches) end(id process.ID, killed bool) {
	w.mu.Lock()
	held := w.byID[id]
	holds := held != nil && len(held.leases) > 0
	if held != nil {
		held.ended = true
		w.rouse(id)
		if !holds {
			w.forget(id)
		}
	}
	w.mu.Unlock()
	if holds {
		w.exited(id, killed)
	}
}

// remove forgets a lease that has ended, or is bound to another process now. A
// process without leases is watched until it ends, or until many others have
// released their last lease.
func (w *watches) remove(id process.ID, l watchedLease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removeLocked(id, l)
}

func (w *watches) removeLocked(id process.ID, l watchedLease) {
	held := w.byID[id]
	if held == nil || !held.leases[l] {
		return
	}
	delete(held.leases, l)
	switch {
	case len(held.leases) > 0:
	case held.ended:
		w.forget(id)
	case !held.rests:
		held.rests = true
		if w.resting = append(w.resting, id); len(w.resting) > mostResting {
			w.wakeOldest()
		}
	}
}

// wakeOldest takes the process that has rested longest off the list, and forgets it
// unless it has leases again.
func (w *watches) wakeOldest() {
	oldest := w.resting[0]
	w.rouse(oldest)
	if len(w.byID[oldest].leases) == 0 {
		w.forget(oldest)
	}
}

// forget ends the watch over a process.
func (w *watches) forget(id process.ID) {
	w.rouse(id)
	w.byID[id].stop()
	delete(w.byID, id)
}

// rouse takes a process off the list of those that rest.
func (w *watches) rouse(id process.ID) {
	if held := w.byID[id]; held.rests {
		held.rests = false
		w.resting = slices.DeleteFunc(w.resting, func(other process.ID) bool { return other == id })
	}
}

// close stops all watches for good.
func (w *watches) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, held := range w.byID {
		held.stop()
	}
	w.byID, w.resting, w.closed = nil, nil, true
}
