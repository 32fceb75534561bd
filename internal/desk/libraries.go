package desk

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
)

// reports remembers what the programs of leases say about the memory of their libraries.
// Nothing is decided by it: a program may say what it likes.
type reports struct {
	mu  sync.Mutex // guards all
	all map[uint64]map[process.ID]report
}

// report is what one process said.
type report struct {
	at        time.Time
	libraries []api.LibraryMemory
}

// The most leases and processes of one lease that reports remembers: the newest that stand.
const (
	mostReports   = 1024
	mostReporters = 64
)

// add keeps what a process says, in place of what it said before. standing lists the leases
// that stand; add asks for it only if there is no room for another one.
func (r *reports) add(fence uint64, by process.ID, said report, standing func() map[uint64]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[uint64]map[process.ID]report{}
	}
	if r.all[fence] == nil {
		if len(r.all) >= mostReports {
			stand := standing()
			maps.DeleteFunc(r.all, func(other uint64, _ map[process.ID]report) bool { return !stand[other] })
		}
		if len(r.all) >= mostReports {
			delete(r.all, slices.Min(slices.Collect(maps.Keys(r.all)))) // fences grow
		}
		r.all[fence] = map[process.ID]report{}
	}
	of := r.all[fence]
	if _, again := of[by]; !again && len(of) >= mostReporters {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(of)), func(a, b process.ID) int { return of[a].at.Compare(of[b].at) })
		delete(of, oldest)
	}
	of[by] = said
}

// sum returns what the living processes of a lease hold together, by library, or nil if
// none has said anything.
func (r *reports) sum(fence uint64, alive func(process.ID) bool) *api.LibraryReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.all[fence]
	maps.DeleteFunc(of, func(id process.ID, _ report) bool { return id != (process.ID{}) && !alive(id) })
	if len(of) == 0 {
		delete(r.all, fence)
		return nil
	}
	var sum api.LibraryReport
	found := map[string]api.LibraryMemory{}
	for _, said := range of {
		if said.at.After(sum.Time) {
			sum.Time = said.at
		}
		for _, l := range said.libraries {
			found[l.Name] = api.LibraryMemory{Name: l.Name, Allocated: found[l.Name].Allocated + l.Allocated, Cached: found[l.Name].Cached + l.Cached}
		}
	}
	sum.Libraries = slices.SortedFunc(maps.Values(found), func(a, b api.LibraryMemory) int { return cmp.Compare(a.Name, b.Name) })
	return &sum
}

const mostMemory gpu.MiB = 1 << 40
