package batch

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// minder ends the process group of a worker when the runner dies, however it
// dies. The signal that comes with the death of a parent reaches the worker
// alone, and not what it has started: a wrapper would leave the program behind.
//
// It is a shell that leads the group and waits for the end of a pipe, which the
// kernel closes when the runner is gone. It leads the group before the worker
// joins it, so that there is no moment without it. A worker may lead a group of
// its own later, as timeout and setsid do, so it is told the pid too.
type minder struct {
	cmd  *exec.Cmd
	rope *os.File // held by the runner and nobody else
}

// mind is what it does. A signal to the group that a worker may survive must
// not end it.
const mind = `trap "" HUP INT TERM; read -r worker; read -r end; [ "$worker" ] && kill -s KILL -- "-$worker"; kill -s KILL 0`

// startMinder starts one; nil where there is no shell: then workers still die
// with the runner, but not what they have started.
func startMinder() *minder {
	theirs, rope, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer theirs.Close()
	m := &minder{cmd: exec.Command("/bin/sh", "-c", mind, "berth-minder"), rope: rope}
	m.cmd.Env = []string{}
	m.cmd.Stdin = theirs
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := m.cmd.Start(); err != nil {
		_ = rope.Close()
		return nil
	}
	return m
}

// group is the process group that a worker is to join; 0: one of its own.
func (m *minder) group() int {
	if m == nil {
		return 0
	}
	return m.cmd.Process.Pid
}

// watch tells it the worker.
func (m *minder) watch(pid int) {
	if m != nil {
		_, _ = fmt.Fprintln(m.rope, pid) // the pipe takes so little at once
	}
}

// dismiss ends it. Its pid, and with it the name of the group, stays taken
// until then.
func (m *minder) dismiss() {
	if m == nil {
		return
	}
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait() // how it ended tells nothing
	_ = m.rope.Close()
}
