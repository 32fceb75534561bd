package world

import (
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Pids of the machine begin after those that a kernel gives, so that no process of the machine
// that the test runs on is ever meant. They are used again.
const (
	firstPID = 5_000_001
	lastPID  = firstPID + 4_000
)

// proc is a process. The mutex of processes guards it.
type proc struct {
	pid    int
	start  uint64
	parent int
	uid    int
	name   string
	cgroup string
	lease  string // BERTH_LEASE and BERTH_FENCE in its environment
	fence  uint64

	stopped bool
	deaf    bool                // it does not end by SIGTERM
	memory  map[string]gpu.MiB  // that it has on each device
	parking map[string]*parking // what a driver does to its memory; by device
	watched []*watch
	ended   func(signal process.Signal) // called without the mutex once it has ended; may be nil
}

// parking is where the memory of a process is while a driver moves it.
type parking struct {
	state move.State
	done  time.Time // of the last step
	lost  bool      // it can never come back
}

type watch struct{ ended func(killed bool) }

// processes are those of the machine. It is a process.World.
type processes struct {
	mu    sync.Mutex
	boot  string
	begun time.Time
	next  int
	all   map[int]*proc
}

func newProcesses(boot string) *processes {
	return &processes{boot: boot, begun: time.Now(), next: firstPID, all: map[int]*proc{}}
}

// begin starts a process.
func (p *processes) begin(like proc) process.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.all[p.next] != nil {
		p.turn()
	}
	like.pid, like.start = p.next, uint64(time.Since(p.begun)/(10*time.Millisecond))+1
	if like.memory == nil {
		like.memory = map[string]gpu.MiB{}
	}
	like.parking = map[string]*parking{}
	p.all[like.pid] = &like
	p.turn()
	return process.ID{PID: like.pid, Start: like.start}
}

func (p *processes) turn() {
	if p.next++; p.next >= lastPID {
		p.next = firstPID
	}
}

// end ends a process, if it has not ended. Its children belong to nobody from then on, as to
// process 1.
func (p *processes) end(id process.ID, signal process.Signal) {
	p.mu.Lock()
	q := p.all[id.PID]
	if q == nil || q.start != id.Start {
		p.mu.Unlock()
		return
	}
	delete(p.all, id.PID)
	for _, other := range p.all {
		if other.parent == id.PID {
			other.parent = 1
		}
	}
	watched := q.watched
	q.watched = nil
	p.mu.Unlock()
	for _, w := range watched {
		go w.ended(signal != 0)
	}
	if q.ended != nil {
		q.ended(signal)
	}
}

// with changes a process, or returns false if it has ended.
func (p *processes) with(id process.ID, change func(*proc)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.all[id.PID]
	if q == nil || q.start != id.Start {
		return false
	}
	change(q)
	return true
}

func (p *processes) runs(id process.ID) bool { return p.with(id, func(*proc) {}) }

// under returns the processes below one, and that one.
func (p *processes) under(id process.ID) (tree []process.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.all[id.PID]; q == nil || q.start != id.Start {
		return nil
	}
	pids := []int{id.PID}
	for i := 0; i < len(pids); i++ {
		tree = append(tree, process.ID{PID: pids[i], Start: p.all[pids[i]].start})
		for _, other := range p.all {
			if other.parent == pids[i] && !slices.Contains(pids, other.pid) {
				pids = append(pids, other.pid)
			}
		}
	}
	return tree
}

// Boot implements process.World.
func (p *processes) Boot() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.boot
}

// PIDs implements process.World.
func (p *processes) PIDs() (pids []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid := range p.all {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

// Started implements process.Simulated.
func (p *processes) Started(pid int) (uint64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.all[pid]
	if q == nil {
		return 0, false
	}
	return q.start, true
}

// Facts implements process.Simulated.
func (p *processes) Facts(pid int) (kinship.Facts, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.all[pid]
	if q == nil {
		return kinship.Facts{}, false
	}
	f := kinship.Facts{UID: access.KnownUID(q.uid), Programs: kinship.Programs(q.name)}
	if q.lease != "" {
		f.Origin = kinship.Origin{Lease: q.lease, Fence: q.fence, UID: q.uid}
	}
	if q.cgroup != "" {
		f.Cgroups = []string{q.cgroup}
	}
	return f, true
}

// Look implements process.World.
func (p *processes) Look(pid int) (parent int, stopped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.all[pid]; q != nil {
		return q.parent, q.stopped
	}
	return 0, false
}

// End implements process.Simulated.
func (p *processes) End(pid int) { p.Deliver(pid, process.Kill) }

// Deliver implements process.World.
func (p *processes) Deliver(pid int, signal process.Signal) {
	p.mu.Lock()
	q := p.all[pid]
	if q == nil {
		p.mu.Unlock()
		return
	}
	id, ends := process.ID{PID: pid, Start: q.start}, false
	switch signal {
	case process.Probe:
	case process.Stop:
		q.stopped = true
	case process.Continue:
		q.stopped = false
	case process.Kill:
		ends = true
	default:
		ends = !q.deaf && !q.stopped
	}
	p.mu.Unlock()
	switch {
	case ends && signal == process.Kill:
		p.end(id, signal)
	case ends:
		time.AfterFunc(100*time.Millisecond, func() { p.end(id, signal) })
	}
}

// Watch implements process.World.
func (p *processes) Watch(pid int, ended func(killed bool)) (stop func()) {
	w := &watch{ended}
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.all[pid]
	if q == nil {
		go ended(true)
		return func() {}
	}
	q.watched = append(q.watched, w)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		q.watched = slices.DeleteFunc(q.watched, func(o *watch) bool { return o == w })
	}
}
