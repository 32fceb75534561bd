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
	"github.com/berth-gpu/berth/internal/cuda"
	"github.com/berth-gpu/berth/internal/park"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/proof"
)

// Mover moves the memory of other processes, as the driver does. Its methods are
// called for several processes at once.
type Mover interface {
	State(pid int) (park.State, error)
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
	for line := range lines {
		order, err := park.ReadOrder(line)
		if err != nil {
			return err
		}
		if w.err == nil {
			w.err = w.out.Encode(park.Answer{Number: order.Number, Outcomes: carryOut(mover, order)})
		}
		if w.err != nil {
			return w.err
		}
	}
	return cmp.Or(w.err, broken)
}

// carryOut does what an order says with all its processes at once.
func carryOut(mover Mover, o park.Order) []park.Outcome {
	if refused := fault(o, park.Before); refused != "" {
		asked := carryOut(mover, park.Order{Step: park.Ask, Processes: o.Processes})
		return refuse(asked, refused)
	}
	outcomes := make([]park.Outcome, len(o.Processes))
	var all sync.WaitGroup
	for i, id := range o.Processes {
		all.Go(func() { outcomes[i] = move(mover, o.Step, id) })
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
func move(mover Mover, step park.Step, id park.Process) park.Outcome {
	out := park.Outcome{Process: id, State: park.Gone}
	table, who := process.Proc(), process.ID{PID: id.PID, Start: id.Start}
	if !table.Alive(who) {
		return out
	}
	if table.Stopped(who) { // the driver would wait for it
		out.State, out.Error = park.Unknown, "the process is stopped by a signal; continue it first"
		return out
	}
	var err error
	if step != park.Ask {
		began := time.Now()
		err = mover.Do(step, id.PID)
		out.Took = time.Since(began).Seconds()
		if !table.Alive(who) {
			if now, gone := table.Identify(id.PID); err == nil && step == park.Lock && gone == nil && now != who {
				_ = mover.Do(park.Unlock, id.PID) // this is another process, which nobody asked to lock
			}
			return out
		}
	}
	state, unknown := mover.State(id.PID)
	if !table.Alive(who) {
		return out
	}
	out.State = state
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
