package mover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/check"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

const (
	// attempts is how often a move begins anew after a helper broke off, and how often a
	// process may refuse to come back before it is lost.
	attempts = 3
	// mostSessions is the most sessions at once for the leases of one user. Each may be a
	// helper process with the rights of the daemon, which takes hundreds of MiB, and a
	// user may have a thousand leases.
	mostSessions = 16
)

// stepError says that a step failed.
type stepError struct {
	step  move.Step
	why   string
	never bool // it will always refuse the step
	hangs bool // it did not answer
}

func (e *stepError) Error() string { return e.why }

// errEnded says that a lease ended while its memory moved.
var errEnded = errors.New("the lease has ended")

// movement moves the memory of one lease to a goal.
type movement struct {
	p       *Mover
	r       *record
	goal    park.Goal
	on      gpu.Device
	session check.Session // nil unless one is open
	broken  int           // number of sessions that broke off
}

// moveTo moves the memory of the processes of a lease to a goal, and returns their states
// then. If a process refuses to leave, or a session does not answer, it returns the error
// at once. It leaves a process behind as failed that refuses again and again to come
// back, and brings back the others.
func (p *Mover) moveTo(ctx context.Context, r *record, goal park.Goal) ([]move.Outcome, error) {
	reading, found := p.Monitor.Find(r.GPU)
	if !found {
		return nil, errors.New("its device is not there")
	}
	m := &movement{p: p, r: r, goal: goal, on: reading.Device}
	defer m.close()
	all, err := m.states(ctx)
	refusals := map[move.Process]int{}
	for err == nil {
		for i, o := range all { // leave behind those that refused too often
			if goal == park.Back && refusals[o.Process] >= attempts && o.State != move.Running && o.State != move.Gone {
				all[i].State = move.Failed
			}
		}
		if o, shares := park.Imports(all); shares && goal == park.Away {
			return all, refuse(r.Key.ID, move.Shared, fmt.Sprintf("process %d has opened %s of memory of another process (CUDA IPC), and the driver would not bring it back", o.PID, o.Imported), "End the process, or have it close that memory.")
		}
		step, on := park.NextStep(goal, all)
		if step == "" {
			return all, nil
		}
		if goal == park.Away && p.hasEnded(r) {
			return all, errEnded
		}
		var done []move.Outcome
		done, err = m.take(ctx, step, on)
		switch {
		case m.mayTryAgain(ctx, err):
			all, err = m.states(ctx) // the step may have been done
			continue
		case err != nil:
			return all, err
		}
		all = park.Merge(all, done)
		if refused := park.Refusals(done); refused != "" {
			m.count(step)
			if goal == park.Away {
				never := slices.ContainsFunc(done, func(o move.Outcome) bool { return o.Code == device.CodeNotSupported })
				return all, &stepError{step: step, why: fmt.Sprintf("the driver refused to %s: %s", doing[step], refused), never: never}
			}
			for _, o := range done {
				switch {
				case step == move.Restore && o.Code == device.CodeOutOfMemory:
					refusals[o.Process] = attempts // the driver does not bring it back any more
				case o.Error != "":
					refusals[o.Process]++
				}
			}
			all, err = m.again(ctx, all)
		}
	}
	return all, err
}

// doing says what a step does, to follow "refused to".
var doing = map[move.Step]string{
	move.Lock: "hold the calls of its programs", move.Checkpoint: "take its memory off the device",
	move.Restore: "bring its memory back", move.Unlock: "let its programs go on",
}

// states asks for the states of all processes.
func (m *movement) states(ctx context.Context) ([]move.Outcome, error) {
	ids := identities(m.r.Processes)
	if len(ids) == 0 {
		return nil, nil
	}
	limit := park.Limit(move.Checkpoint, memory(m.r.Processes)) // the driver first finishes what an earlier daemon began
	for {
		all, err := m.ask(ctx, move.Ask, ids, limit)
		if !m.mayTryAgain(ctx, err) {
			return all, err
		}
	}
}

// mayTryAgain reports whether an error means that a session broke off, and that another
// one may know more.
func (m *movement) mayTryAgain(ctx context.Context, err error) bool {
	broke := (*stepError)(nil)
	return errors.As(err, &broke) && !broke.hangs && m.broken < attempts && ctx.Err() == nil
}

// again asks for the states of all processes, and keeps what they refused.
func (m *movement) again(ctx context.Context, all []move.Outcome) ([]move.Outcome, error) {
	now, err := m.states(ctx)
	if err != nil {
		return all, err
	}
	before := map[move.Process]move.Outcome{}
	for _, o := range all {
		before[o.Process] = o
	}
	for i, n := range now {
		if o, known := before[n.Process]; known && n.Error == "" {
			now[i].Error, now[i].Code = o.Error, o.Code
		}
	}
	return now, nil
}

// take takes a step. Before memory leaves, it measures how much there is: the processes
// are locked, and take no more. Before memory comes back, it waits until the device has
// room.
func (m *movement) take(ctx context.Context, step move.Step, on []move.Process) ([]move.Outcome, error) {
	if m.goal == park.Away { // a process may have changed its user meanwhile
		for _, id := range on {
			if errors.Is(m.p.Processes.Reaches(m.r.In, process.ID(id)), process.ErrSpared) {
				return nil, refuseOthers(m.r.Key.ID, id.PID)
			}
		}
	}
	if step == move.Checkpoint {
		if err := m.p.remeasure(ctx, m.r); err != nil {
			return nil, err
		}
	}
	size, moves := gpu.MiB(0), map[move.Process]bool{}
	for _, id := range on {
		moves[id] = true
	}
	for _, p := range m.r.Processes {
		if moves[p.Process] {
			size += p.Memory
		}
	}
	if step == move.Restore {
		release, err := m.p.awaitRoom(ctx, m.r, size, on, m)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	if step == move.Checkpoint || step == move.Restore {
		defer m.hugePages()()
	}
	m.r.touched = true
	began := time.Now()
	done, err := m.ask(ctx, step, on, park.Limit(step, size))
	m.took(step, size, time.Since(began), err == nil && park.Refusals(done) == "")
	if broke := (*stepError)(nil); step == move.Restore && errors.As(err, &broke) && broke.hangs && size > m.p.leased(m.r) {
		m.p.hang(m.r)
	}
	return done, err
}

// hugePages has the kernel use huge pages while memory moves, if the settings say so.
// Memory of a simulated device does not move.
func (m *movement) hugePages() (release func()) {
	m.p.mu.Lock()
	wanted := m.p.settings.Optimization.HugePages == "while_moving"
	m.p.mu.Unlock()
	if !wanted || m.on.Vendor == gpu.Simulated {
		return func() {}
	}
	return m.p.Pages.Hold()
}

// ask asks a session to take a step, and opens one if there is none.
func (m *movement) ask(ctx context.Context, step move.Step, on []move.Process, limit time.Duration) ([]move.Outcome, error) {
	if m.session == nil { // the time to wait for others does not count as hanging
		if err := m.p.admit(ctx, m.r.Key.Owner); err != nil {
			return nil, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var all []move.Outcome
	var err error
	if m.session == nil {
		if m.session, err = m.p.Open(limited, m.on, m.r.Awake); err != nil {
			m.session = nil
			m.p.dismiss(m.r.Key.Owner)
		}
	}
	if err == nil {
		all, err = m.session.Do(limited, step, on)
	}
	if err == nil && len(all) != len(on) {
		err = fmt.Errorf("there are %d answers about %d processes", len(all), len(on))
	}
	if err == nil {
		return all, nil
	}
	m.close()
	m.broken++
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	m.count(step)
	e := &stepError{step: step, why: err.Error()}
	if errors.Is(limited.Err(), context.DeadlineExceeded) {
		e.hangs = true
		e.why = fmt.Sprintf("its processes did not answer the driver within %v", limit)
		for _, id := range m.r.Processes {
			if m.p.Processes.Stopped(process.ID(id.Process)) {
				e.why = fmt.Sprintf("process %d is stopped, so it does not answer the driver; continue it with kill -CONT %d", id.PID, id.PID)
				break
			}
		}
	}
	return nil, e
}

func (m *movement) close() {
	if m.session != nil {
		_ = m.session.Close() // it ends its helper in any case
		m.session = nil
		m.p.dismiss(m.r.Key.Owner)
	}
}

// admit waits until the leases of an owner have fewer than mostSessions sessions, and
// counts one more.
func (p *Mover) admit(ctx context.Context, owner lease.Owner) error {
	p.mu.Lock()
	open := p.open[owner]
	if open == nil {
		open = make(chan struct{}, mostSessions)
		p.open[owner] = open
	}
	p.mu.Unlock()
	select {
	case open <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// dismiss notes the end of a session for a lease of an owner.
func (p *Mover) dismiss(owner lease.Owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	<-p.open[owner]
}

// took counts the duration of a step and, if the step is done, the memory that it moved.
func (m *movement) took(step move.Step, memory gpu.MiB, took time.Duration, done bool) {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	m.r.Moving += took
	m.p.counts.Took[m.goal] += took
	if done && (step == move.Checkpoint || step == move.Restore) {
		m.p.counts.Moved[m.goal] += memory
	}
}

// count counts a step that failed.
func (m *movement) count(failed move.Step) {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	if failed != move.Ask {
		m.p.counts.Failures[failed]++
	}
}
