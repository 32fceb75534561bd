// Package worker starts the processes of a batch's workers and holds the other
// ends of their pipes.
//
// A worker reads from file descriptor 3 and writes to 4; its standard input is
// empty, and what it prints goes to the log. It dies with this process, and
// everything that it has started dies with it.
package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process/child"
)

// Command is the command of a worker.
type Command struct {
	Args []string  // the program and its arguments
	Dir  string    // folder where it runs; empty means the current one
	Env  []string  // KEY=VALUE, added to the environment of this process, or KEY, removed from it
	Log  io.Writer // gets what workers print; nil drops it
}

// Starter starts workers.
type Starter struct {
	command  Command
	log      *sharedLog
	launcher *child.Launcher

	mu    sync.Mutex
	gates map[int]*os.File // gates of the workers that are held, by process id
}

// NewStarter returns a Starter for a command, or an error if the command cannot
// be started. The caller has to close the Starter.
func NewStarter(c Command) (*Starter, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("no worker: give its command, such as -- python worker.py")
	}
	if _, err := exec.LookPath(c.Args[0]); err != nil && c.Dir == "" {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	return &Starter{command: c, log: &sharedLog{to: c.Log}, launcher: child.NewLauncher(), gates: map[int]*os.File{}}, nil
}

// Close ends the Starter, and every worker that is still alive.
func (s *Starter) Close() { s.launcher.Close() }

// pipeBytes is the size of a pipe. A larger pipe means fewer switches between
// this process and the worker.
const pipeBytes = 1 << 20

// Start starts a worker. Each line that the worker prints gets the prefix in
// the log. In env, KEY=VALUE sets a variable, and KEY removes it.
func (s *Starter) Start(prefix string, env []string) (*Process, error) {
	return s.start(prefix, env, s.command.Args, nil)
}

// start starts a command as a worker, with one more file if more is not nil.
func (s *Starter) start(prefix string, env, args []string, more *os.File) (*Process, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	defer theirIn.Close()
	defer theirOut.Close()
	for _, p := range []*os.File{theirIn, theirOut} {
		_, _ = unix.FcntlInt(p.Fd(), unix.F_SETPIPE_SZ, pipeBytes) // or what the system allows
	}
	output := newOutput(prefix, s.log)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = s.command.Dir
	cmd.Env = environment(os.Environ(), s.command.Env, env)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if more != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, more)
	}
	cmd.Stdout, cmd.Stderr = output, output
	c, err := s.launcher.Start(cmd, child.How{})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the worker: %w", err), in.Close(), out.Close())
	}
	p := &Process{Child: c, in: in, out: out, output: output, gone: make(chan struct{})}
	go p.closeWhenGone()
	return p, nil
}

// environment returns base with changes. If a name occurs twice, the last counts; an
// entry without a value removes the name.
func environment(base []string, changes ...[]string) []string {
	env := slices.Clone(base)
	for _, entry := range slices.Concat(changes...) {
		if name := entry + "="; !strings.Contains(entry, "=") {
			env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name) })
			continue
		}
		env = append(env, entry)
	}
	return env
}

// waiting is a shell script that waits for a line on file descriptor 5 and then
// becomes the command in its arguments. If the other end closes without a line,
// it ends.
const waiting = `read -r begin <&5 && exec "$@" 5<&-`

// StartHeld starts a process that becomes the worker, with the same process id, when
// Begin is called. Until then, the caller can do to the process what has to be done
// before the worker begins. If this process ends first, the worker never begins.
func (s *Starter) StartHeld(prefix string, env []string) (*Process, error) {
	theirs, gate, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	p, err := s.start(prefix, env, append([]string{"/bin/sh", "-c", waiting, "berth"}, s.command.Args...), theirs)
	if err != nil {
		_ = gate.Close()
		return nil, err
	}
	s.mu.Lock()
	s.gates[p.PID()] = gate
	s.mu.Unlock()
	go func() {
		<-p.Gone()
		s.takeGate(p.PID(), gate)
	}()
	return p, nil
}

// Begin lets the process become the worker. It does nothing if the worker has begun, or
// has ended.
func (s *Starter) Begin(pid int) {
	s.mu.Lock()
	gate := s.gates[pid]
	s.mu.Unlock()
	if gate != nil {
		_, _ = gate.WriteString("begin\n") // this fails only if the process has ended
		s.takeGate(pid, gate)
	}
}

// takeGate closes a gate and forgets it.
func (s *Starter) takeGate(pid int, gate *os.File) {
	s.mu.Lock()
	if s.gates[pid] == gate {
		delete(s.gates, pid)
	}
	s.mu.Unlock()
	_ = gate.Close() // the gate may be closed already
}
