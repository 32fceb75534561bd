package watch

import (
	"errors"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/internal/process/kinship"
)

// table is processes that end on command.
type table struct {
	ended map[kinship.ID]func() // of those that are watched
	err   error                 // what Watch answers; nil: it watches
}

func (t *table) Watch(id kinship.ID, ended func()) (stop func(), err error) {
	if t.err != nil {
		return nil, t.err
	}
	t.ended[id] = ended
	return func() { delete(t.ended, id) }, nil
}

func (t *table) watched() []int {
	pids := []int{}
	for id := range t.ended {
		pids = append(pids, id.PID)
	}
	slices.Sort(pids)
	return pids
}

func (t *table) expect(test *testing.T, h *Holders, holders int, pids ...int) {
	test.Helper()
	if got := t.watched(); !slices.Equal(got, pids) || h.Len() != holders {
		test.Errorf("%v are watched for %d holders, want %v for %d", got, h.Len(), pids, holders)
	}
}

func always() bool { return true }

func TestOneWatchForAllLeasesOfAProcess(t *testing.T) {
	world := &table{ended: map[kinship.ID]func(){}}
	var exited []kinship.ID
	h := New(world, func(id kinship.ID) { exited = append(exited, id) })
	holder, a, b := kinship.ID{PID: 1}, Lease{"a", 1}, Lease{"b", 2}
	for _, l := range []Lease{a, b} {
		if err := h.Add(holder, l, always); err != nil {
			t.Fatal(err)
		}
	}
	world.expect(t, h, 1, 1)
	h.Remove(holder, Lease{"a", 9}) // another lease of that name
	h.Remove(kinship.ID{PID: 2}, b) // of another process
	h.Remove(holder, a)
	world.expect(t, h, 1, 1)
	world.ended[holder]()
	if !slices.Equal(exited, []kinship.ID{holder}) {
		t.Errorf("%v have ended", exited)
	}
	h.Remove(holder, b)
	world.expect(t, h, 0)
}

// A lease may end before it is watched; then nobody removes it later.
func TestLeaseThatEndedBeforeItWasAdded(t *testing.T) {
	world := &table{ended: map[kinship.ID]func(){}}
	h := New(world, func(kinship.ID) {})
	if err := h.Add(kinship.ID{PID: 1}, Lease{"a", 1}, func() bool { return false }); err != nil {
		t.Fatal(err)
	}
	world.expect(t, h, 0, 1) // the process rests
}

// A process that has released everything stays watched, for its next lease, and
// is forgotten when it ends or when many others have done the same.
func TestProcessRestsBetweenLeases(t *testing.T) {
	world := &table{ended: map[kinship.ID]func(){}}
	h := New(world, func(id kinship.ID) { t.Errorf("process %d without leases is told of", id.PID) })
	once := func(pid int) {
		t.Helper()
		if err := h.Add(kinship.ID{PID: pid}, Lease{"a", 1}, always); err != nil {
			t.Fatal(err)
		}
		h.Remove(kinship.ID{PID: pid}, Lease{"a", 1})
	}
	once(1)
	once(2)
	world.err = errors.New("it is watched already")
	once(1)
	world.err = nil
	world.expect(t, h, 0, 1, 2)
	world.ended[kinship.ID{PID: 1}]()
	world.expect(t, h, 0, 2)
	for pid := range maxResting {
		once(10 + pid)
	}
	if pids := world.watched(); len(pids) != maxResting || pids[0] != 10 {
		t.Errorf("%v rest", pids)
	}
	world.err = errors.New("it has ended")
	if err := h.Add(kinship.ID{PID: 1}, Lease{"b", 2}, always); !errors.Is(err, world.err) {
		t.Errorf("a lease for a process that ended while it rested: %v", err)
	}
}

func TestProcessThatCannotBeWatched(t *testing.T) {
	world := &table{ended: map[kinship.ID]func(){}, err: errors.New("too many open files")}
	h := New(world, func(kinship.ID) {})
	if err := h.Add(kinship.ID{PID: 1}, Lease{"a", 1}, always); !errors.Is(err, world.err) {
		t.Errorf("Add = %v", err)
	}
	world.expect(t, h, 0)
}

func TestFollow(t *testing.T) {
	world := &table{ended: map[kinship.ID]func(){}}
	var exited []kinship.ID
	h := New(world, func(id kinship.ID) { exited = append(exited, id) })
	holder, child, late := kinship.ID{PID: 1}, kinship.ID{PID: 2}, kinship.ID{PID: 3}
	if err := h.Follow(holder, child); err != nil {
		t.Fatal(err)
	}
	world.expect(t, h, 0) // it holds nothing
	h.AddExited(holder, Lease{"a", 1})
	world.expect(t, h, 1)
	for _, next := range []kinship.ID{child, late} {
		if err := h.Follow(holder, next); err != nil {
			t.Fatal(err)
		}
		world.expect(t, h, 1, next.PID)
	}
	world.err = errors.New("it is gone")
	if err := h.Follow(holder, child); !errors.Is(err, world.err) {
		t.Errorf("Follow = %v", err)
	}
	world.expect(t, h, 1, late.PID) // the old watch stays
	world.ended[late]()
	if !slices.Equal(exited, []kinship.ID{holder}) {
		t.Errorf("%v have ended", exited)
	}
	h.Remove(holder, Lease{"a", 1})
	world.expect(t, h, 0)
}

func TestClose(t *testing.T) {
	world := &table{ended: map[kinship.ID]func(){}}
	h := New(world, func(kinship.ID) {})
	if err := h.Add(kinship.ID{PID: 1}, Lease{"a", 1}, always); err != nil {
		t.Fatal(err)
	}
	h.Close()
	world.expect(t, h, 0)
	if err := h.Add(kinship.ID{PID: 2}, Lease{"b", 2}, always); err != nil {
		t.Fatal(err)
	}
	h.AddExited(kinship.ID{PID: 3}, Lease{"c", 3})
	h.Remove(kinship.ID{PID: 1}, Lease{"a", 1})
	world.expect(t, h, 0)
}
