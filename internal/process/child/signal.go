package child

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Signal sends a signal to the child and to its group. A child may have left
// the group that it was given, as timeout and setsid do: then the signal goes
// to the group that the child leads now, or to the child alone.
func (c *Child) Signal(signal syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return
	}
	given := c.group()
	_ = unix.Kill(-given, signal) // an error means that the group is empty
	switch group, err := unix.Getpgid(c.PID()); {
	case err != nil, group == given:
	case group == c.PID():
		_ = unix.Kill(-c.PID(), signal)
	default:
		_ = unix.Kill(c.PID(), signal)
	}
}

// group returns the process group that the child was started in.
func (c *Child) group() int {
	if c.sentry != nil {
		return c.sentry.group()
	}
	return c.PID()
}

// Kill kills the child and its group. It does not wait.
func (c *Child) Kill() { c.Signal(unix.SIGKILL) }

// Stop asks the child and its group to end, and kills them if the child has
// not ended after the grace. Without a grace Stop kills at once. Stop waits for
// the end of the child, but not for its output.
func (c *Child) Stop(grace time.Duration) {
	if grace > 0 {
		c.Signal(unix.SIGTERM)
		select {
		case <-c.ended:
			return
		case <-time.After(grace):
		}
	}
	c.Kill()
	<-c.ended
}

// Alive reports whether the child has not ended. It asks the kernel, so it notices an end
// before Ended does.
func (c *Child) Alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var end unix.Siginfo
	err := unix.Waitid(unix.P_PID, c.PID(), &end, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return !c.reaped && err == nil && end.Signo == 0
}
