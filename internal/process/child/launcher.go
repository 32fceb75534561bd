package child

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Launcher starts children that die with this process, however it dies: the
// kernel kills the child, and a sentry kills the rest of its group.
//
// The kernel kills the child when the thread that started it ends. The Go runtime ends
// threads at any time, except one that a goroutine is locked to. So a Launcher has a
// thread of its own.
type Launcher struct {
	starts chan func()
	ended  chan struct{}
}

// NewLauncher returns a Launcher. The caller must close it.
func NewLauncher() *Launcher {
	l := &Launcher{starts: make(chan func()), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for start := range l.starts {
			start()
		}
	}()
	return l
}

// Start starts cmd as the function Start does. The child cannot lead a session: Start
// ignores how.Session.
func (l *Launcher) Start(cmd *exec.Cmd, how How) (*Child, error) {
	m := startSentry()
	c, err := start(cmd, how, m, &syscall.SysProcAttr{Setpgid: true, Pgid: m.group(), Pdeathsig: syscall.SIGKILL}, l.begin)
	if err != nil {
		m.dismiss()
		return nil, err
	}
	m.watch(c.PID())
	return c, nil
}

// begin starts a command on the thread of the launcher.
func (l *Launcher) begin(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	l.starts <- func() { result <- cmd.Start() }
	return <-result
}

// Close ends the thread, and with it every child that is still alive.
func (l *Launcher) Close() {
	close(l.starts)
	<-l.ended
}

// sentry kills the process group of a child when this process dies. The signal that the
// kernel sends at the death of a parent reaches only the child, not the processes that
// the child has started: a wrapper would leave its program behind.
//
// A sentry is a shell that leads the group and reads from a pipe. The kernel closes the
// pipe when this process is gone. The sentry leads the group before the child joins it,
// so there is no moment without it. A child may lead a group of its own later, as timeout
// and setsid do, so the sentry also gets the process id of the child.
type sentry struct {
	cmd  *exec.Cmd
	rope *os.File // writing end of the pipe; no other process has it
}

// watchScript is the script of a sentry. It ignores signals to the group that a child
// may survive.
const watchScript = `trap "" HUP INT TERM; read -r child; read -r end; [ "$child" ] && kill -s KILL -- "-$child"; kill -s KILL 0`

// startSentry starts a sentry. It returns nil if there is no shell; then children still
// die with this process, but the processes that they have started do not.
func startSentry() *sentry {
	theirs, rope, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer theirs.Close()
	m := &sentry{cmd: exec.Command("/bin/sh", "-c", watchScript, "berth-sentry"), rope: rope}
	m.cmd.Env = []string{}
	m.cmd.Stdin = theirs
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := m.cmd.Start(); err != nil {
		_ = rope.Close()
		return nil
	}
	return m
}

// group returns the process group for the child to join; 0 means a new one.
func (m *sentry) group() int {
	if m == nil {
		return 0
	}
	return m.cmd.Process.Pid
}

// watch sends the sentry the process id of the child.
func (m *sentry) watch(pid int) {
	if m != nil {
		_, _ = fmt.Fprintln(m.rope, pid) // a few bytes never block a pipe
	}
}

// dismiss ends the sentry. Until then, its process id keeps the number of the group in
// use.
func (m *sentry) dismiss() {
	if m == nil {
		return
	}
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait() // how it ended does not matter
	_ = m.rope.Close()
}
