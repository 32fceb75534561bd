package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Launcher starts children that die with this process, however it dies: the
// kernel kills the child, and a minder kills the rest of its group.
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
	m := startMinder()
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
