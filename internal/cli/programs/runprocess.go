package programs

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

// orderFile is the file descriptor of the pipe from which a process reads its order.
const orderFile = 3

// runOrder is the command that a process becomes.
type runOrder struct {
	Path string   `json:"path"` // of the program
	Args []string `json:"args"` // the first is its own name
	Env  []string `json:"env"`
	Plan string   `json:"plan,omitempty"` // path of the parent's plan, for BERTH_PLAN; empty if none
}

// ErrNoOrder means that the parent ended before it sent the order.
var ErrNoOrder = errors.New("the parent ended before it sent the command to run")

// awaitOrder waits for the order of this process. Only a process that startRun started
// may call it.
func awaitOrder() (runOrder, error) {
	file := os.NewFile(orderFile, "order")
	if file == nil {
		return runOrder{}, ErrNoOrder
	}
	syscall.CloseOnExec(orderFile)
	var o runOrder
	err := json.NewDecoder(file).Decode(&o)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return runOrder{}, ErrNoOrder
	}
	if err != nil {
		return runOrder{}, fmt.Errorf("read the command to run: %w", err)
	}
	return o, o.takePlan()
}

// runProcess is the process of a run.
//
// A lease is bound to the process that uses it, and the process must know its devices
// before it starts. So a run begins as a process of this program that waits: its parent
// takes the lease for it, and then sends it the command to become. From then on it is
// the command, with the same process id; the lease ends with it, whatever other process
// is killed.
type runProcess struct {
	*child.Child
	order    *os.File  // writing end; nil after the order is sent
	terminal *terminal // the terminal that it reads from; nil if none
}

// startRun starts a process of this program. The command line self makes this program
// call awaitOrder and become the command of the order.
func startRun(self []string, stdin *os.File, stdout, stderr io.Writer) (*runProcess, error) {
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
	return &runProcess{Child: c, order: write, terminal: terminalOf(stdin)}, nil
}

// become sends the order, and lends the terminal to the command.
func (p *runProcess) become(o runOrder) error {
	p.terminal.lend(p.PID())
	err := json.NewEncoder(p.order).Encode(o)
	err = errors.Join(err, p.order.Close())
	p.order = nil
	if err != nil {
		return fmt.Errorf("send process %d the command to run: %w", p.PID(), err)
	}
	return nil
}

// abort ends a process that has not become a command.
func (p *runProcess) abort() {
	if p.order != nil {
		_ = p.order.Close()
	}
	p.Stop(0)
	p.terminal.takeBack()
	_ = p.Wait()
}

// end waits until the command has ended, and returns the error of its end. If ctx ends
// first, it asks the command to stop, and kills it after grace.
func (p *runProcess) end(ctx context.Context, grace time.Duration) error {
	p.await(ctx, grace)
	p.terminal.takeBack()
	return p.Wait()
}

func (p *runProcess) await(ctx context.Context, grace time.Duration) {
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

// stopped handles a run at a terminal that was stopped, by the keyboard or because it
// read in the background: this process stops too, so that the shell takes over. If the
// terminal belongs to this process by now, the run was stopped only because it did not
// have the terminal, and continues.
func (p *runProcess) stopped() {
	if p.terminal == nil {
		return // the process that stopped it continues it
	}
	if !p.terminal.ours() {
		p.terminal.takeBack()
		pause()
	}
	p.terminal.lend(p.PID())
	p.Signal(unix.SIGCONT)
}
