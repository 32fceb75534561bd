// Package runner starts the processes of a plan's runs.
//
// A lease is bound to the process that uses it, and the process must know its
// devices before it starts. So a run begins as a process of this program that
// waits: its parent takes the lease for it, and then sends it the command to
// become. From there on it is the command, with the same process id; the lease
// ends with it, whatever other process is killed.
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

	"github.com/berth-gpu/berth/internal/process/child"
)

// orderFile is the file descriptor of the pipe that a process reads its order
// from.
const orderFile = 3

// Order says which command a process becomes.
type Order struct {
	Path string   `json:"path"` // of the program
	Args []string `json:"args"` // its own name first
	Env  []string `json:"env"`
	Plan string   `json:"plan,omitempty"` // path of the parent's plan, for BERTH_PLAN; empty: none
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

// Process is a process that waits for its order and then becomes the command.
type Process struct {
	*child.Child
	order    *os.File  // writing end; nil once the order is given
	terminal *terminal // the one that it reads from; nil: none
}

// Start starts a process of this program. self is the command line that makes
// this program call Await and become the command of the order.
func Start(self []string, stdin *os.File, stdout, stderr io.Writer) (*Process, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	cmd := &exec.Cmd{
		// This is the running program, even if its file was replaced.
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

// Become sends the order, and lends the terminal to the command.
func (p *Process) Become(o Order) error {
	p.terminal.lend(p.PID())
	err := json.NewEncoder(p.order).Encode(o)
	err = errors.Join(err, p.order.Close())
	p.order = nil
	if err != nil {
		return fmt.Errorf("send process %d the command to run: %w", p.PID(), err)
	}
	return nil
}

// Abort ends a process that has not become a command.
func (p *Process) Abort() {
	if p.order != nil {
		_ = p.order.Close()
	}
	p.Stop(0)
	p.terminal.takeBack()
	_ = p.Wait()
}

// End waits until the command has ended, and returns the error of its end. If
// ctx ends first, End asks the command to stop, and kills it after the grace.
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

// stopped handles a run at a terminal that was stopped, by the keyboard or
// because it read in the background: this process stops too, so that the shell
// takes over. If the terminal is ours by now, the run was stopped only because
// it did not have the terminal, and continues.
func (p *Process) stopped() {
	if p.terminal == nil {
		return // who stopped it continues it
	}
	if !p.terminal.ours() {
		p.terminal.takeBack()
		pause()
	}
	p.terminal.lend(p.PID())
	p.Signal(unix.SIGCONT)
}
