// Package runner starts the processes of a plan's runs.
//
// A lease is bound to the process that uses it, and the process must know its
// devices before it starts. So a run begins as a process of this program that
// waits: the lease is taken for it, then it is told what to become. From there
// on it is the command, with the same process id; the lease ends with it,
// whoever else is killed.
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

// orderFile is the file descriptor of the pipe that a process reads its order
// from.
const orderFile = 3

// Order says what a process has to become.
type Order struct {
	Path string   `json:"path"` // of the program
	Args []string `json:"args"` // its own name first
	Env  []string `json:"env"`
	Plan string   `json:"plan,omitempty"` // where its parent has the plan, for BERTH_PLAN; empty: it gets none
}

// ErrNoOrder means that the parent ended before it sent the order.
var ErrNoOrder = errors.New("the parent ended before it sent the command to run")

// Await waits for the order of this process. Only a process of Start may call
// it.
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
		return Order{}, fmt.Errorf("read the command to run: %w", err)
	}
	return o, o.takePlan()
}

// Process is a process that waits for its order, and then the command.
type Process struct {
	*child.Child
	order    *os.File  // writing end; nil once the order is given
	terminal *terminal // that it reads from; nil: none
}

// Start starts a process of this program. self is the command line that makes
// this program call Await and then be what it is told.
func Start(self []string, stdin *os.File, stdout, stderr io.Writer) (*Process, error) {
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
	return &Process{Child: c, order: write, terminal: terminalOf(stdin)}, nil
}

// Become gives the order, and the terminal with it.
func (p *Process) Become(o Order) error {
	p.terminal.lend(p.PID())
	err := json.NewEncoder(p.order).Encode(o)
	err = errors.Join(err, p.order.Close())
	p.order = nil
	if err != nil {
		return fmt.Errorf("tell process %d what to become: %w", p.PID(), err)
	}
	return nil
}

// Abort ends a process that did not become anything.
func (p *Process) Abort() {
	if p.order != nil {
		_ = p.order.Close()
	}
	p.Stop(0)
	p.terminal.takeBack()
	_ = p.Wait()
}

// End waits until the command has ended, and returns the error of its end. When
// ctx ends first, the command is asked to stop, and killed after the grace.
func (p *Process) End(ctx context.Context, grace time.Duration) error {
	p.await(ctx, grace)
	p.terminal.takeBack()
	return p.Wait()
}

func (p *Process) await(ctx context.Context, grace time.Duration) {
	for {
		select {
		case <-p.Ended():
			return
		case <-p.Stops():
			p.stopped()
		case <-ctx.Done():
			p.Stop(grace)
			return
		}
	}
}

// stopped lets the shell have its turn when a run at a terminal was stopped,
// from the keyboard or because it reads in the background: this process stops
// too. If the terminal is ours by now, the run was stopped only for not having
// it.
func (p *Process) stopped() {
	if p.terminal == nil {
		return // whoever stopped it lets it go on
	}
	if !p.terminal.ours() {
		p.terminal.takeBack()
		pause()
	}
	p.terminal.lend(p.PID())
	p.Signal(unix.SIGCONT)
}
