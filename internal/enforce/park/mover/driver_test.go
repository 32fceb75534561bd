package mover_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// card is a device with a driver that moves the memory of processes as NVIDIA's
// does: a step that was begun is done, whoever waits for it; memory that comes back
// without room is lost.
type card struct {
	uuid  string
	total gpu.MiB

	mu      sync.Mutex
	procs   map[int]*proc
	next    int
	wrong   []string // what must never happen
	faultMu sync.Mutex
	fault   func(step move.Step) string
}

// proc is a process with memory on the card, if it is not away.
type proc struct {
	move.Process
	lease   string
	uid     int
	fence   uint64
	memory  gpu.MiB
	state   move.State
	moving  chan struct{} // closed when the step is done that was begun; nil: none was
	coming  gpu.MiB       // that is back already in a restore that goes on
	stopped bool          // by somebody: it does not answer the driver
	lost    bool
	refuses int // the code that checkpoint answers; 0: it works

	imported gpu.MiB // memory of other processes that it has opened
}

const firstPID = 5_000_001 // of simulated processes

func newCard(uuid string, total gpu.MiB) *card {
	return &card{uuid: uuid, total: total, procs: map[int]*proc{}, next: firstPID, fault: func(move.Step) string { return "" }}
}

// begin starts a process that uses memory under a lease.
func (c *card) begin(id string, fence uint64, memory gpu.MiB) *proc {
	return c.beginAs(1000, id, fence, memory)
}

// beginAs does the same for a user.
func (c *card) beginAs(uid int, id string, fence uint64, memory gpu.MiB) *proc {
	c.mu.Lock()
	defer c.mu.Unlock()
	if free := c.free(); free < memory {
		c.wrong = append(c.wrong, fmt.Sprintf("%s was sold %s, and %s are free", id, memory, free))
		return nil
	}
	p := &proc{Process: move.Process{PID: c.next, Start: 1}, lease: id, uid: uid, fence: fence, memory: memory, state: move.Running}
	c.next++
	c.procs[p.PID] = p
	return p
}

// free returns what no process has. The caller holds mu.
func (c *card) free() gpu.MiB {
	free := c.total
	for _, p := range c.procs {
		free -= p.here()
	}
	return free
}

// here returns what the process has on the card.
func (p *proc) here() gpu.MiB {
	if p.state == move.Checkpointed {
		return p.coming
	}
	return p.memory
}

// plan has faults happen at some steps.
func (c *card) plan(fault func(move.Step) string) {
	c.faultMu.Lock()
	defer c.faultMu.Unlock()
	c.fault = fault
}

// with changes processes.
func (c *card) with(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// End is in process.Simulated.
func (c *card) End(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.procs, pid)
}

// Started is in process.Simulated.
func (c *card) Started(pid int) (uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.procs[pid]
	return 1, p != nil
}

// Facts is in process.Simulated.
func (c *card) Facts(pid int) (kinship.Facts, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.procs[pid]
	if p == nil {
		return kinship.Facts{}, false
	}
	return kinship.Facts{UID: access.KnownUID(p.uid), Cgroups: []string{"/programs"}, Origin: kinship.Origin{Lease: p.lease, Fence: p.fence, UID: p.uid}}, true
}

// sample measures the card.
func (c *card) sample() gpu.Sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := gpu.Sample{GPU: c.uuid, Time: time.Now(), MemoryTotal: gpu.Some(c.total), MemoryUsed: gpu.Some(c.total - c.free()), MemoryFree: gpu.Some(c.free()), Processes: []gpu.Process{}}
	for _, p := range c.procs {
		if used := p.here(); used > 0 {
			s.Processes = append(s.Processes, gpu.Process{PID: p.PID, Memory: gpu.Some(used)})
		}
	}
	return s
}

// of returns the processes of a lease.
func (c *card) of(fence uint64) (list []*proc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.procs {
		if p.fence == fence {
			list = append(list, p)
		}
	}
	return list
}

// states returns the states of the processes of a lease, and how often each.
func (c *card) states(fence uint64) map[move.State]int {
	all := map[move.State]int{}
	for _, p := range c.of(fence) {
		c.mu.Lock()
		all[p.state]++
		c.mu.Unlock()
	}
	return all
}

// session is a helper process that talks to the driver of a card.
type session struct {
	*card
	d    *daemon // that started it
	over bool
}

var errHelper = errors.New("the helper process ended")

func (s *session) Close() error { s.over = true; return nil }

// states waits for what was begun.
func (s *session) states(ctx context.Context, ids []move.Process) ([]move.Outcome, error) {
	if s.over || s.d.dead.Load() {
		return nil, errHelper
	}
	all := make([]move.Outcome, len(ids))
	for i, id := range ids {
		o, err := s.state(ctx, id)
		if err != nil {
			return nil, err
		}
		all[i] = o
	}
	return all, nil
}

func (s *session) state(ctx context.Context, id move.Process) (move.Outcome, error) {
	for {
		s.mu.Lock()
		p := s.procs[id.PID]
		switch {
		case p == nil || p.Process != id:
			s.mu.Unlock()
			return move.Outcome{Process: id, State: move.Gone}, nil
		case p.moving == nil && !p.stopped:
			defer s.mu.Unlock()
			return move.Outcome{Process: id, State: p.state, Imported: p.imported}, nil
		}
		moving := p.moving
		s.mu.Unlock()
		select {
		case <-moving: // nil if it is stopped: for ever
		case <-ctx.Done():
			return move.Outcome{}, context.Cause(ctx)
		}
	}
}

// after is where a step leads, and before where it begins.
var (
	after  = map[move.Step]move.State{move.Lock: move.Locked, move.Checkpoint: move.Checkpointed, move.Restore: move.Locked, move.Unlock: move.Running}
	before = map[move.Step]move.State{move.Lock: move.Running, move.Checkpoint: move.Locked, move.Restore: move.Checkpointed, move.Unlock: move.Locked}
)

// Do takes a step. The fault that was planned for it happens before or after it.
func (s *session) Do(ctx context.Context, step move.Step, ids []move.Process) ([]move.Outcome, error) {
	if step == move.Ask {
		return s.states(ctx, ids)
	}
	if s.over || s.d.dead.Load() {
		return nil, errHelper
	}
	s.faultMu.Lock()
	planned := s.fault
	s.faultMu.Unlock()
	fault := planned(step)
	switch fault {
	case "hang":
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case "break before":
		return nil, errHelper
	case "die before":
		s.d.die()
	case "refuse":
		all, err := s.states(ctx, ids)
		for i := range all {
			all[i].Error = "it is refused for a test"
		}
		return all, err
	}
	if s.d.dead.Load() {
		return nil, errHelper
	}
	all := make([]move.Outcome, len(ids))
	for i, id := range ids {
		all[i] = s.take(step, id)
	}
	switch fault {
	case "break within":
		return nil, errHelper // the driver goes on
	case "die within":
		s.d.die()
		return nil, errHelper
	}
	for i, id := range ids {
		o, err := s.state(ctx, id)
		if err != nil {
			return nil, err
		}
		all[i].State, all[i].Imported = o.State, o.Imported
	}
	if fault == "die after" {
		s.d.die()
	}
	if fault == "break after" || s.d.dead.Load() {
		return nil, errHelper
	}
	if fault == "deny" { // it was done, and the answer says otherwise
		for i := range all {
			all[i].Error = "it is denied for a test"
		}
	}
	return all, nil
}

// take begins a step with one process.
func (s *session) take(step move.Step, id move.Process) move.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.procs[id.PID]
	o := move.Outcome{Process: id, State: move.Gone}
	if p == nil || p.Process != id {
		return o
	}
	o.State = p.state
	switch {
	case p.stopped || p.moving != nil:
		return o
	case p.lost:
		o.Error, o.Code = "CUDA_ERROR_OPERATING_SYSTEM", 304
	case p.state != before[step]:
		o.Error, o.Code = "CUDA_ERROR_ILLEGAL_STATE", 401
	case step == move.Checkpoint && p.refuses != 0:
		o.Error, o.Code = "CUDA_ERROR_NOT_SUPPORTED", p.refuses
	case step == move.Restore && s.free() < p.memory:
		o.Error, o.Code, p.lost = "CUDA_ERROR_OUT_OF_MEMORY", 2, true
		s.wrong = append(s.wrong, fmt.Sprintf("%s is lost: %s are free, and it needs %s", p.lease, s.free(), p.memory))
	default:
		s.move(p, step)
	}
	return o
}

// move has a process be somewhere else after a while. The caller holds mu.
func (s *session) move(p *proc, step move.Step) {
	took := time.Millisecond
	switch step {
	case move.Checkpoint:
		took = time.Duration(p.memory) * time.Second / 1500
	case move.Restore:
		took = time.Duration(p.memory) * time.Second / 5000
		p.coming = p.memory
	}
	done := make(chan struct{})
	p.moving = done
	time.AfterFunc(took, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.state, p.coming, p.moving = after[step], 0, nil
		close(done)
	})
}
