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

// child is a process that waits for its order, and then the command.
type child struct {
	cmd      *exec.Cmd
	order    *os.File  // writing end; nil once the order is given
	terminal *terminal // that it reads from; nil: none
	stops    chan struct{}
	gone     chan struct{}
}

// hatch starts a child that waits. It leads a process group of its own, so that
// whatever it starts later can be ended with it, and so that the terminal's
// interrupt does not reach it before we do.
func hatch(self []string, stdin *os.File, stdout, stderr io.Writer) (*child, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	cmd := &exec.Cmd{
		// As it runs now, even if the file has been replaced meanwhile.
		Path: "/proc/self/exe", Args: self,
		Stdout: stdout, Stderr: stderr, ExtraFiles: []*os.File{read},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		WaitDelay:   time.Second, // for something that left the group and holds on to the output
	}
	if stdin != nil {
		cmd.Stdin = stdin
	}
	if err := cmd.Start(); err != nil {
		_ = write.Close()
		return nil, fmt.Errorf("start a process: %w", err)
	}
	c := &child{cmd: cmd, order: write, terminal: terminalOf(stdin), stops: make(chan struct{}, 1), gone: make(chan struct{})}
	go c.watch()
	return c, nil
}

// cldStopped is how the kernel says that a child was stopped, and has not ended.
const cldStopped = 5

// watch tells when the child is stopped and when it has ended. The end is left
// for Wait to collect.
func (c *child) watch() {
	defer close(c.gone)
	for {
		var news unix.Siginfo
		err := unix.Waitid(unix.P_PID, c.pid(), &news, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		switch {
		case err == unix.EINTR:
		case err != nil || news.Code != cldStopped:
			return
		default:
			_ = unix.Waitid(unix.P_PID, c.pid(), nil, unix.WSTOPPED|unix.WNOHANG, nil) // told once
			select {
			case c.stops <- struct{}{}:
			default:
			}
		}
	}
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// become gives the order, and the terminal with it.
func (c *child) become(o Order) error {
	c.terminal.lend(c.pid())
	err := json.NewEncoder(c.order).Encode(o)
	err = errors.Join(err, c.order.Close())
	c.order = nil
	if err != nil {
		return fmt.Errorf("tell process %d what to become: %w", c.pid(), err)
	}
	return nil
}

// abort ends a child that did not become anything.
func (c *child) abort() {
	if c.order != nil {
		_ = c.order.Close()
	}
	c.kill(unix.SIGKILL)
	<-c.gone
	c.terminal.takeBack()
	_ = c.cmd.Wait()
}

// end waits until the command has ended, or ctx has: then it is asked to stop,
// and killed after a while. What is left of its process group goes with it.
func (c *child) end(ctx context.Context, grace time.Duration) (status int, err error) {
	c.await(ctx, grace)
	c.kill(unix.SIGKILL)
	<-c.gone
	c.terminal.takeBack()
	err = c.cmd.Wait()
	failed := (*exec.ExitError)(nil)
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return 0, nil
	case !errors.As(err, &failed):
		return -1, err
	case ctx.Err() != nil:
		return failed.ExitCode(), ErrStopped
	}
	if ended := failed.Sys().(syscall.WaitStatus); ended.Signaled() {
		return -1, &KilledError{ended.Signal()}
	}
	return failed.ExitCode(), fmt.Errorf("exit status %d", failed.ExitCode())
}

func (c *child) await(ctx context.Context, grace time.Duration) {
	for {
		select {
		case <-c.gone:
			return
		case <-c.stops:
			c.stopped()
		case <-ctx.Done():
			c.kill(unix.SIGTERM)
			timer := time.NewTimer(grace)
			defer timer.Stop()
			select {
			case <-c.gone:
			case <-timer.C:
			}
			return
		}
	}
}

// stopped is when a run at a terminal was stopped: from its keyboard, or because
// it reads in the background. Then we are too, and the shell has its turn. If the
// terminal is ours by now, the run was stopped only for not having it.
func (c *child) stopped() {
	if c.terminal == nil {
		return // whoever stopped it lets it go on
	}
	if !c.terminal.ours() {
		c.terminal.takeBack()
		pause()
	}
	c.terminal.lend(c.pid())
	c.kill(unix.SIGCONT)
}

// kill sends a signal to the child and its whole group. Until the child is
// waited for, its number is that of no other process.
func (c *child) kill(signal syscall.Signal) { _ = unix.Kill(-c.pid(), signal) }
