package check

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
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Checkpoints moves the memory of other processes, as the driver does. Callers call its
// methods for several processes at once.
type Checkpoints interface {
	State(pid int) (move.State, error)
	// Thread returns the thread of a process in which the driver moves its memory.
	Thread(pid int) (int, error)
	// Imported returns how much memory of other processes a process has opened.
	Imported(pid int) gpu.Opt[gpu.MiB]
	Do(step move.Step, pid int) error
}

// OpenCheckpoints loads the driver to move the memory of other processes.
func OpenCheckpoints() (Checkpoints, error) {
	return nvidiaCheckpoints{}, cuda.LoadCheckpoint(cuda.Library)
}

// nvidiaCheckpoints moves memory with NVIDIA's driver.
type nvidiaCheckpoints struct{}

// lockLimit is how long the driver waits for a process to leave its calls before it locks
// the process: less than the daemon waits for the answer.
const lockLimit = 8 * time.Second

func (nvidiaCheckpoints) State(pid int) (move.State, error) {
	state, err := cuda.StateOf(pid)
	if refused := (*cuda.Error)(nil); errors.As(err, &refused) && refused.Uninitialized() {
		return move.Without, nil
	}
	if err != nil {
		return move.Unknown, err
	}
	switch state {
	case cuda.ProcessRunning:
		return move.Running, nil
	case cuda.ProcessLocked:
		return move.Locked, nil
	case cuda.ProcessCheckpointed:
		return move.Checkpointed, nil
	case cuda.ProcessFailed:
		return move.Failed, nil
	}
	return move.Unknown, nil
}

func (nvidiaCheckpoints) Thread(pid int) (int, error) { return cuda.ThreadOf(pid) }

func (nvidiaCheckpoints) Imported(pid int) gpu.Opt[gpu.MiB] { return cuda.Imported(pid) }

func (nvidiaCheckpoints) Do(step move.Step, pid int) error {
	switch step {
	case move.Lock:
		return cuda.Lock(pid, lockLimit)
	case move.Checkpoint:
		return cuda.Checkpoint(pid)
	case move.Restore:
		return cuda.Restore(pid)
	}
	return cuda.Unlock(pid)
}

// park carries out orders, one after the other, until the input ends.
func (p Process) park(in io.Reader, w *writer) error {
	lines := make(chan []byte)
	var broken error // valid when lines is closed
	go func() {      // reads ahead, to notice during a step that the daemon has ended
		defer close(lines)
		scan := bufio.NewScanner(in)
		scan.Buffer(nil, move.MostLine)
		for scan.Scan() {
			lines <- bytes.Clone(scan.Bytes())
		}
		if broken = scan.Err(); broken == nil {
			p.Gone()
		}
	}()
	checkpoints, err := p.Checkpoints()
	if err != nil {
		return w.unable(err)
	}
	w.write(Line{Opened: true})
	m := &moving{Checkpoints: checkpoints, table: process.Proc()}
	for line := range lines {
		order, err := move.ReadOrder(line)
		if err != nil {
			return err
		}
		if w.err == nil {
			w.err = w.out.Encode(move.Answer{Number: order.Number, Outcomes: m.carryOut(order)})
		}
		if w.err != nil {
			return w.err
		}
	}
	return cmp.Or(w.err, broken)
}

// moving carries out orders.
type moving struct {
	Checkpoints
	stills
	table process.Table
}

// carryOut carries out an order with all its processes at once.
func (m *moving) carryOut(o move.Order) []move.Outcome {
	if refused := fault(o, move.Before); refused != "" {
		asked := m.carryOut(move.Order{Step: move.Ask, Processes: o.Processes, Awake: o.Awake})
		return refuse(asked, refused)
	}
	outcomes := make([]move.Outcome, len(o.Processes))
	var all sync.WaitGroup
	for i, id := range o.Processes {
		all.Go(func() { outcomes[i] = m.move(o.Step, id, o.Awake) })
	}
	if o.Fault != nil && o.Fault.When == move.During {
		time.Sleep(duringAfter)
		fault(o, move.During)
	}
	all.Wait()
	return refuse(outcomes, fault(o, move.After))
}

// move takes a step with one process and returns the state after it. A process that ended
// is gone, even if another one has its number by now.
//
// From its lock to its unlock, the threads of the process are still, except the one in
// which the driver works. While the memory is away and no tracer holds them, a signal
// keeps the whole process stopped, unless it is to run on: see rest.
func (m *moving) move(step move.Step, id move.Process, awake bool) move.Outcome {
	out := move.Outcome{Process: id, State: move.Gone}
	who := process.ID{PID: id.PID, Start: id.Start}
	if !m.table.Alive(who) {
		return out
	}
	stopped := m.table.Stopped(who)
	if stopped && step == move.Lock { // the driver would wait for it
		out.State, out.Error = move.Unknown, "the process is stopped by a signal; continue it first"
		return out
	}
	if stopped || step == move.Checkpoint || step == move.Restore {
		m.still(id)
	}
	if stopped || step == move.Restore || step == move.Unlock { // a signal to stop may not have come there yet
		_ = m.table.Signal(kinship.Authority(), who, process.Continue) // only the thread of the driver runs now
	}
	var err error
	switch step {
	case move.Ask:
	case move.Unlock:
		m.let(id)
		fallthrough
	default:
		began := time.Now()
		err = m.Do(step, id.PID)
		out.Took = time.Since(began).Seconds()
		if !m.table.Alive(who) {
			if now, gone := m.table.Identify(id.PID); err == nil && step == move.Lock && gone == nil && now != who {
				_ = m.Do(move.Unlock, id.PID) // this is another process, which nobody asked to lock
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
	m.rest(who, state, awake, stopped && step == move.Ask)
	out.State = state
	if step == move.Ask || step == move.Lock { // before its memory may be taken off
		out.Imported = m.Imported(id.PID).Or(0)
	}
	if err == nil && state == move.Unknown {
		err = unknown
	}
	if err != nil {
		out.Error = gpu.Printable(err.Error(), mostWritten)
	}
	if refused := (*cuda.Error)(nil); errors.As(err, &refused) {
		out.Code = refused.Code
	}
	return out
}

// still holds the threads of a process. Where the kernel does not allow that, the process
// runs the risk: most programs make no call that the driver lets through.
func (m *moving) still(id move.Process) {
	if tid, err := m.Thread(id.PID); err == nil {
		_ = m.hold(id, tid)
	}
	if !m.table.Alive(process.ID(id)) {
		m.let(id) // another process may have its number by now
	}
}

// rest leaves a process as its state demands after a step. It stops a process whose
// memory is away by a signal, unless the process is to run on, or is a job of a shell at
// a terminal, which would take the terminal back. It holds a locked process. again means
// that the process was stopped before, and must be stopped again.
func (m *moving) rest(who process.ID, state move.State, awake, again bool) {
	id := move.Process{PID: who.PID, Start: who.Start}
	if state == move.Checkpointed && !awake {
		c, err := m.table.Control(who)
		again = again || err == nil && c.Manager == 0
	}
	switch {
	case again:
		_ = m.table.Signal(kinship.Authority(), who, process.Stop) // before it is let go: no thread runs in between
		m.let(id)
		for range 1000 { // until the signal has arrived: the next caller must see it
			if m.table.Stopped(who) || !m.table.Alive(who) {
				break
			}
			time.Sleep(time.Millisecond)
		}
	case state == move.Locked:
		m.still(id)
	default:
		m.let(id)
	}
}

// duringAfter is how long a step has run when a fault happens during it. It is a variable
// for the sake of tests.
var duringAfter = 200 * time.Millisecond

// fault triggers the fault of an order if this is its moment. It returns why the step is
// refused, or the empty string if it is not.
func fault(o move.Order, now move.When) string {
	if o.Fault == nil || o.Fault.When != now || o.Fault.Step != o.Step {
		return ""
	}
	switch o.Fault.What {
	case move.KillHelper:
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	case move.KillDaemon:
		if parent := os.Getppid(); parent > 1 {
			_ = unix.Kill(parent, unix.SIGKILL)
		}
	case move.Refuse:
		return "this error was planned for a test"
	}
	select {} // it ends with its input, or is killed
}
