package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/child"
)

// orderFile is the number under which a child that waits has the pipe with its
// order.
const orderFile = 3

// Order is what a child is to become.
type Order struct {
	Path string   `json:"path"` // of the program
	Args []string `json:"args"` // its own name first
	Env  []string `json:"env"`
	Plan string   `json:"plan,omitempty"` // where its parent has the plan, for BERTH_PLAN; empty: it gets none
}

// ErrNoOrder is what a child finds when whoever started it has gone.
var ErrNoOrder = errors.New("whoever would have said what to become has gone")

// Await is for a child: it waits until it is told what to become.
func Await() (Order, error) {
	file := os.NewFile(orderFile, "order")
	if file == nil {
		return Order{}, ErrNoOrder
	}
	syscall.CloseOnExec(orderFile)
	var o Order
	err := json.NewDecoder(file).Decode(&o)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Order{}, ErrNoOrder
	}
	if err != nil {
		return Order{}, fmt.Errorf("read what to become: %w", err)
	}
	return o, o.takePlan()
}

// recruit is a child that waits for its order, and then the command.
type recruit struct {
	*child.Child
	order    *os.File  // writing end; nil once the order is given
	terminal *terminal // that it reads from; nil: none
}

// hatch starts a child that waits.
func hatch(self []string, stdin *os.File, stdout, stderr io.Writer) (*recruit, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	cmd := &exec.Cmd{
		// As it runs now, even if the file has been replaced meanwhile.
		Path: "/proc/self/exe", Args: self,
		Stdout: stdout, Stderr: stderr, ExtraFiles: []*os.File{read},
	}
	if stdin != nil {
		cmd.Stdin = stdin
	}
	c, err := child.Start(cmd, child.How{})
	if err != nil {
		_ = write.Close()
		return nil, fmt.Errorf("start a process: %w", err)
	}
	return &recruit{Child: c, order: write, terminal: terminalOf(stdin)}, nil
}

// become gives the order, and the terminal with it.
func (r *recruit) become(o Order) error {
	r.terminal.lend(r.PID())
	err := json.NewEncoder(r.order).Encode(o)
	err = errors.Join(err, r.order.Close())
	r.order = nil
	if err != nil {
		return fmt.Errorf("tell process %d what to become: %w", r.PID(), err)
	}
	return nil
}

// abort ends a child that did not become anything.
func (r *recruit) abort() {
	if r.order != nil {
		_ = r.order.Close()
	}
	r.Stop(0)
	r.terminal.takeBack()
	_ = r.Wait()
}

// end waits until the command has ended. When ctx ends first, the command is
// asked to stop, and killed after the grace.
func (r *recruit) end(ctx context.Context, grace time.Duration) (status int, err error) {
	r.await(ctx, grace)
	r.terminal.takeBack()
	err = r.Wait()
	failed := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &failed):
		return -1, err
	case ctx.Err() != nil:
		return failed.ExitCode(), ErrStopped
	}
	if signal := child.KilledBy(err); signal != 0 {
		return -1, &KilledError{signal}
	}
	return failed.ExitCode(), fmt.Errorf("exit status %d", failed.ExitCode())
}

func (r *recruit) await(ctx context.Context, grace time.Duration) {
	for {
		select {
		case <-r.Ended():
			return
		case <-r.Stops():
			r.stopped()
		case <-ctx.Done():
			r.Stop(grace)
			return
		}
	}
}

// stopped lets the shell have its turn when a run at a terminal was stopped,
// from the keyboard or because it reads in the background: this process stops
// too. If the terminal is ours by now, the run was stopped only for not having
// it.
func (r *recruit) stopped() {
	if r.terminal == nil {
		return // whoever stopped it lets it go on
	}
	if !r.terminal.ours() {
		r.terminal.takeBack()
		pause()
	}
	r.terminal.lend(r.PID())
	r.Signal(unix.SIGCONT)
}
