package exam

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/cuda"
	"github.com/berth-gpu/berth/internal/device/park"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Mover moves the memory of other processes, as the driver does. Its methods are
// called for several processes at once.
type Mover interface {
	State(pid int) (park.State, error)
	// Thread returns the thread of a process in which the driver moves its memory.
	Thread(pid int) (int, error)
	// Imported returns how much memory of other processes a process has opened.
	Imported(pid int) gpu.Opt[gpu.MiB]
	Do(step park.Step, pid int) error
}

// OpenMover loads the driver to move the memory of other processes.
func OpenMover() (Mover, error) {
	return checkpoints{}, cuda.LoadCheckpoint(cuda.Library)
}

// checkpoints moves memory by NVIDIA's driver.
type checkpoints struct{}

// lockLimit is how long a process may stay in a call to the driver before it is
// locked: less than the daemon waits for the answer.
const lockLimit = 8 * time.Second

func (checkpoints) State(pid int) (park.State, error) {
	state, err := cuda.StateOf(pid)
	if refused := (*cuda.Error)(nil); errors.As(err, &refused) && refused.Uninitialized() {
		return park.Without, nil
	}
	if err != nil {
		return park.Unknown, err
	}
	switch state {
	case cuda.ProcessRunning:
		return park.Running, nil
	case cuda.ProcessLocked:
		return park.Locked, nil
	case cuda.ProcessCheckpointed:
		return park.Checkpointed, nil
	case cuda.ProcessFailed:
		return park.Failed, nil
	}
	return park.Unknown, nil
}

func (checkpoints) Thread(pid int) (int, error) { return cuda.ThreadOf(pid) }

func (checkpoints) Imported(pid int) gpu.Opt[gpu.MiB] { return cuda.Imported(pid) }

func (checkpoints) Do(step park.Step, pid int) error {
	switch step {
	case park.Lock:
		return cuda.Lock(pid, lockLimit)
	case park.Checkpoint:
		return cuda.Checkpoint(pid)
	case park.Restore:
		return cuda.Restore(pid)
	}
	return cuda.Unlock(pid)
}

// park does what orders say, one after the other, until the input ends.
func (p Process) park(in io.Reader, w *writer) error {
	lines := make(chan []byte)
	var broken error // valid when lines is closed
	go func() {      // reads ahead, to notice during a step that the daemon has ended
		defer close(lines)
		scan := bufio.NewScanner(in)
		scan.Buffer(nil, park.MostLine)
		for scan.Scan() {
			lines <- bytes.Clone(scan.Bytes())
		}
		if broken = scan.Err(); broken == nil {
			p.Gone()
		}
	}()
	mover, err := p.Mover()
	if err != nil {
		w.write(proof.Line{Unable: gpu.Printable(err.Error(), mostText)})
		return w.err
	}
	w.write(proof.Line{Opened: true})
	m := &moving{Mover: mover, table: process.Proc()}
	for line := range lines {
		order, err := park.ReadOrder(line)
		if err != nil {
			return err
		}
		if w.err == nil {
			w.err = w.out.Encode(park.Answer{Number: order.Number, Outcomes: m.carryOut(order)})
		}
		if w.err != nil {
			return w.err
		}
	}
	return cmp.Or(w.err, broken)
}

// moving carries out orders.
type moving struct {
	Mover
	stills
	table process.Table
}

// carryOut does what an order says with all its processes at once.
func (m *moving) carryOut(o park.Order) []park.Outcome {
	if refused := fault(o, park.Before); refused != "" {
		asked := m.carryOut(park.Order{Step: park.Ask, Processes: o.Processes, Awake: o.Awake})
		return refuse(asked, refused)
	}
	outcomes := make([]park.Outcome, len(o.Processes))
	var all sync.WaitGroup
	for i, id := range o.Processes {
		all.Go(func() { outcomes[i] = m.move(o.Step, id, o.Awake) })
	}
	if o.Fault != nil && o.Fault.When == park.During {
		time.Sleep(duringAfter)
		fault(o, park.During)
	}
	all.Wait()
	return refuse(outcomes, fault(o, park.After))
}

// move takes a step with one process, and says where the process stands then. A
// process that ended is gone, even if another one has its number by now.
//
// The threads of the process are still from its lock to its unlock, all but the one
// in which the driver works. While the memory is away and nobody holds them, a
// signal keeps the whole process stopped, unless it is to run on: see rest.
func (m *moving) move(step park.Step, id park.Process, awake bool) park.Outcome {
	out := park.Outcome{Process: id, State: park.Gone}
	who := process.ID{PID: id.PID, Start: id.Start}
	if !m.table.Alive(who) {
		return out
	}
	stopped := m.table.Stopped(who)
	if stopped && step == park.Lock { // the driver would wait for it
		out.State, out.Error = park.Unknown, "the process is stopped by a signal; continue it first"
		return out
	}
	if stopped || step == park.Checkpoint || step == park.Restore {
		m.still(id)
	}
	if stopped || step == park.Restore || step == park.Unlock { // a signal to stop may not have come there yet
		_ = m.table.Signal(kinship.Authority(), who, process.Continue) // only the thread of the driver runs now
	}
	var err error
	switch step {
	case park.Ask:
	case park.Unlock:
		m.let(id)
		fallthrough
	default:
		began := time.Now()
		err = m.Do(step, id.PID)
		out.Took = time.Since(began).Seconds()
		if !m.table.Alive(who) {
			if now, gone := m.table.Identify(id.PID); err == nil && step == park.Lock && gone == nil && now != who {
				_ = m.Do(park.Unlock, id.PID) // this is another process, which nobody asked to lock
			}
			m.let(id)
			return out
		}
	}
	state, unknown := m.State(id.PID)
	if !m.table.Alive(who) {
		m.let(id)
		return out
	}
	m.rest(who, state, awake, stopped && step == park.Ask)
	out.State = state
	if step == park.Ask || step == park.Lock { // before its memory may be taken off
		out.Imported = m.Imported(id.PID).Or(0)
	}
	if err == nil && state == park.Unknown {
		err = unknown
	}
	if err != nil {
		out.Error = gpu.Printable(err.Error(), mostText)
	}
	if refused := (*cuda.Error)(nil); errors.As(err, &refused) {
		out.Code = refused.Code
	}
	return out
}

// still holds the threads of a process. Where that is not allowed, the process takes
// its chance: most programs make no call that the driver lets through.
func (m *moving) still(id park.Process) {
	if tid, err := m.Thread(id.PID); err == nil {
		_ = m.hold(id, tid)
	}
	if !m.table.Alive(process.ID(id)) {
		m.let(id) // another process may have its number by now
	}
}

// rest leaves a process as its state demands when a step is over. A process whose
// memory is away is stopped by a signal, unless it is to run on, or is a job of a
// shell at a terminal, which would take the terminal back. Again says that it was
// stopped before, and is to be stopped again. A process that is locked is held.
func (m *moving) rest(who process.ID, state park.State, awake, again bool) {
	id := park.Process{PID: who.PID, Start: who.Start}
	if state == park.Checkpointed && !awake {
		c, err := m.table.Control(who)
		again = again || err == nil && c.Manager == 0
	}
	switch {
	case again:
		_ = m.table.Signal(kinship.Authority(), who, process.Stop) // before it is let go: no thread runs in between
		m.let(id)
		for range 1000 { // until it has come there: who asks next has to see it
			if m.table.Stopped(who) || !m.table.Alive(who) {
				break
			}
			time.Sleep(time.Millisecond)
		}
	case state == park.Locked:
		m.still(id)
	default:
		m.let(id)
	}
}

// duringAfter is how long a step has been going on when a fault happens during it.
const duringAfter = 200 * time.Millisecond

// fault lets the fault of an order happen, if this is its moment. It returns why the
// step is refused; empty: it is not.
func fault(o park.Order, now park.When) string {
	if o.Fault == nil || o.Fault.When != now || o.Fault.Step != o.Step {
		return ""
	}
	switch o.Fault.What {
	case park.KillHelper:
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	case park.KillDaemon:
		if parent := os.Getppid(); parent > 1 {
			_ = unix.Kill(parent, unix.SIGKILL)
		}
	case park.Refuse:
		return "this error was planned for a test"
	}
	select {} // it ends with its input, or is killed
}

// refuse adds an error to outcomes; none if why is empty.
func refuse(outcomes []park.Outcome, why string) []park.Outcome {
	for i := range outcomes {
		if why != "" && outcomes[i].Error == "" {
			outcomes[i].Error = why
		}
	}
	return outcomes
}
