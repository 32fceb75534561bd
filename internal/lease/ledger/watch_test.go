package ledger

import (
	"errors"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/internal/process/kinship"
)

// watchable is processes that end on command.
type watchable struct {
	ended map[kinship.ID]func(bool) // of those that are watched
	err   error                     // what Watch answers; nil: it watches
}

func (t *watchable) WatchEnd(id kinship.ID, ended func(bool)) (stop func(), err error) {
	if t.err != nil {
		return nil, t.err
	}
	t.ended[id] = ended
	return func() { delete(t.ended, id) }, nil
}

func (t *watchable) watched() []int {
	pids := []int{}
	for id := range t.ended {
		pids = append(pids, id.PID)
	}
	slices.Sort(pids)
	return pids
}

func (t *watchable) expect(test *testing.T, h *watches, holders int, pids ...int) {
	test.Helper()
	if got := t.watched(); !slices.Equal(got, pids) || h.len() != holders {
		test.Errorf("%v are watched for %d holders, want %v for %d", got, h.len(), pids, holders)
	}
}

func stillHeld() bool { return true }

func TestOneWatchForAllLeasesOfAProcess(t *testing.T) {
	world := &watchable{ended: map[kinship.ID]func(bool){}}
	var exited []kinship.ID
	h := newWatches(world, func(id kinship.ID, _ bool) { exited = append(exited, id) })
	holder, a, b := kinship.ID{PID: 1}, watchedLease{"a", 1}, watchedLease{"b", 2}
	for _, l := range []watchedLease{a, b} {
		if err := h.add(holder, l, stillHeld); err != nil {
			t.Fatal(err)
		}
	}
	world.expect(t, h, 1, 1)
	h.remove(holder, watchedLease{"a", 9}) // another lease of that name
	h.remove(kinship.ID{PID: 2}, b)        // of another process
	h.remove(holder, a)
	world.expect(t, h, 1, 1)
	world.ended[holder](true)
	if !slices.Equal(exited, []kinship.ID{holder}) {
		t.Errorf("%v have ended", exited)
	}
	h.remove(holder, b)
	world.expect(t, h, 0)
}

// A lease may end before it is watched; then nobody removes it later.
func TestLeaseThatEndedBeforeItWasAdded(t *testing.T) {
	world := &watchable{ended: map[kinship.ID]func(bool){}}
	h := newWatches(world, func(kinship.ID, bool) {})
	if err := h.add(kinship.ID{PID: 1}, watchedLease{"a", 1}, func() bool { return false }); err != nil {
		t.Fatal(err)
	}
	world.expect(t, h, 0, 1) // the process rests
}

// A process that has released everything stays watched, for its next lease, and
// is forgotten when it ends or when many others have done the same.
func TestProcessRestsBetweenLeases(t *testing.T) {
	world := &watchable{ended: map[kinship.ID]func(bool){}}
	h := newWatches(world, func(id kinship.ID, _ bool) { t.Errorf("process %d without leases is told of", id.PID) })
	once := func(pid int) {
		t.Helper()
		if err := h.add(kinship.ID{PID: pid}, watchedLease{"a", 1}, stillHeld); err != nil {
			t.Fatal(err)
		}
		h.remove(kinship.ID{PID: pid}, watchedLease{"a", 1})
	}
	once(1)
	once(2)
	world.err = errors.New("it is watched already")
	once(1)
	world.err = nil
	world.expect(t, h, 0, 1, 2)
	world.ended[kinship.ID{PID: 1}](true)
	world.expect(t, h, 0, 2)
	for pid := range mostResting {
		once(10 + pid)
	}
	if pids := world.watched(); len(pids) != mostResting || pids[0] != 10 {
		t.Errorf("%v rest", pids)
	}
	back := kinship.ID{PID: 10 + mostResting - 1} // it holds a lease again, and a child outlives it
	if err := errors.Join(h.add(back, watchedLease{"c", 3}, stillHeld), h.follow(back, kinship.ID{PID: 5})); err != nil {
		t.Fatal(err)
	}
	h.remove(back, watchedLease{"c", 3})
	for pid := range mostResting {
		once(1000 + pid)
	}
	world.err = errors.New("it has ended")
	if err := h.add(kinship.ID{PID: 1}, watchedLease{"b", 2}, stillHeld); !errors.Is(err, world.err) {
		t.Errorf("a lease for a process that ended while it rested: %v", err)
	}
}

func TestProcessThatCannotBeWatched(t *testing.T) {
	world := &watchable{ended: map[kinship.ID]func(bool){}, err: errors.New("too many open files")}
	h := newWatches(world, func(kinship.ID, bool) {})
	if err := h.add(kinship.ID{PID: 1}, watchedLease{"a", 1}, stillHeld); !errors.Is(err, world.err) {
		t.Errorf("add = %v", err)
	}
	world.expect(t, h, 0)
}

func TestWatchesFollow(t *testing.T) {
	world := &watchable{ended: map[kinship.ID]func(bool){}}
	var exited []kinship.ID
	h := newWatches(world, func(id kinship.ID, _ bool) { exited = append(exited, id) })
	holder, child, late := kinship.ID{PID: 1}, kinship.ID{PID: 2}, kinship.ID{PID: 3}
	if err := h.follow(holder, child); err != nil {
		t.Fatal(err)
	}
	world.expect(t, h, 0) // it holds nothing
	h.addExited(holder, watchedLease{"a", 1})
	world.expect(t, h, 1)
	for _, next := range []kinship.ID{child, late} {
		if err := h.follow(holder, next); err != nil {
			t.Fatal(err)
		}
		world.expect(t, h, 1, next.PID)
	}
	world.err = errors.New("it is gone")
	if err := h.follow(holder, child); !errors.Is(err, world.err) {
		t.Errorf("follow = %v", err)
	}
	world.expect(t, h, 1, late.PID) // the old watch stays
	world.ended[late](true)
	if !slices.Equal(exited, []kinship.ID{holder}) {
		t.Errorf("%v have ended", exited)
	}
	h.remove(holder, watchedLease{"a", 1})
	world.expect(t, h, 0)
}

func TestWatchesClose(t *testing.T) {
	world := &watchable{ended: map[kinship.ID]func(bool){}}
	h := newWatches(world, func(kinship.ID, bool) {})
	if err := h.add(kinship.ID{PID: 1}, watchedLease{"a", 1}, stillHeld); err != nil {
		t.Fatal(err)
	}
	h.close()
	world.expect(t, h, 0)
	if err := h.add(kinship.ID{PID: 2}, watchedLease{"b", 2}, stillHeld); err != nil {
		t.Fatal(err)
	}
	h.addExited(kinship.ID{PID: 3}, watchedLease{"c", 3})
	h.remove(kinship.ID{PID: 1}, watchedLease{"a", 1})
	world.expect(t, h, 0)
}

// len returns the number of processes that have leases.
func (w *watches) len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, held := range w.byID {
		if len(held.leases) > 0 {
			n++
		}
	}
	return n
}
