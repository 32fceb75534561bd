// Package child starts programs and makes sure that nothing of them is left.
//
// Every child leads a process group of its own, so that an interrupt at the terminal does
// not reach it before this process does, and so that a signal also reaches the processes
// that the child started. When the child ends, this package kills the rest of its group
// before it reaps the child: until then no other process can have its number, which is
// also the name of the group.
//
// A child of Start or Run may outlive this process if this process is killed. A
// child of a Launcher does not.
package child

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How says how a child runs. The zero value is right for most.
type How struct {
	Session  bool                // the child leads a session of its own, away from this process's terminal
	User     *syscall.Credential // the child runs as this user; nil means the user of this process
	Ordinary bool                // the child has the ordinary priority, even if this process has a higher one; for Start and Run
	Daemon   bool                // the child's group may live on when the child has ended
}

// outputDelay is how long Wait reads on after the end of a child, because a process that
// has left the group may hold the output open.
const outputDelay = time.Second

// Child is a started program.
type Child struct {
	cmd    *exec.Cmd
	how    How
	sentry *sentry       // leads the group; nil if the child does
	ended  chan struct{} // closed when the child has ended
	stops  chan struct{} // receives when the child was stopped
	gone   chan struct{} // closed when the child is reaped and its output read
	err    error         // from cmd.Wait; valid when gone is closed

	mu      sync.Mutex
	reaped  bool      // the process id may belong to another process
	stopped time.Time // when it was stopped; zero if it runs
	rests   []rest    // earlier stops, oldest first
}

// rest is a stretch of time in which a child was stopped.
type rest struct{ from, until time.Time }

// mostRests is the number of rests to remember: hours, at a second each.
const mostRests = 10_000

// Start starts cmd. It sets the SysProcAttr of cmd, and its WaitDelay unless the caller
// has set it.
func Start(cmd *exec.Cmd, how How) (*Child, error) {
	return start(cmd, how, nil, &syscall.SysProcAttr{Setpgid: !how.Session, Setsid: how.Session}, (*exec.Cmd).Start)
}

func start(cmd *exec.Cmd, how How, m *sentry, attr *syscall.SysProcAttr, begin func(*exec.Cmd) error) (*Child, error) {
	attr.Credential = how.User
	cmd.SysProcAttr = attr
	cmd.WaitDelay = cmp.Or(cmd.WaitDelay, outputDelay)
	if how.Ordinary {
		begin = ordinary(begin)
	}
	if err := begin(cmd); err != nil {
		return nil, err
	}
	c := &Child{cmd: cmd, how: how, sentry: m, ended: make(chan struct{}), stops: make(chan struct{}, 1), gone: make(chan struct{})}
	go c.attend()
	return c, nil
}

// ordinary returns begin for a child without the higher priority of this process. A child
// has the priority of the thread that starts it, and after its start it may be another
// user's, whose priority only a privileged process may change. So a thread lowers its own,
// which it may not raise again, starts the child, and ends.
func ordinary(begin func(*exec.Cmd) error) func(*exec.Cmd) error {
	return func(cmd *exec.Cmd) error {
		result := make(chan error)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			const usual = 20       // as the kernel counts: higher is more
			if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && now > usual {
				_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 0) // one may always lower one's own
			}
			result <- begin(cmd)
		}()
		return <-result
	}
}

// Run starts cmd and waits for its end. If ctx ends first, Run stops the child with the
// grace and returns the error of ctx; otherwise Run returns the result of Wait.
func Run(ctx context.Context, cmd *exec.Cmd, how How, grace time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := Start(cmd, how)
	if err != nil {
		return err
	}
	select {
	case <-c.Ended():
		return c.Wait()
	case <-ctx.Done():
		c.Stop(grace)
		_ = c.Wait()
		return ctx.Err()
	}
}

// attend waits for the end of the child, kills the rest of its group, and reaps the
// child.
func (c *Child) attend() {
	c.awaitEnd()
	if !c.how.Daemon {
		c.Kill()
	}
	close(c.ended)
	c.mu.Lock()
	c.reaped = true
	c.mu.Unlock()
	c.err = c.cmd.Wait()
	c.sentry.dismiss()
	close(c.gone)
}

// The codes of the kernel for a child that was stopped or continued and has not ended.
const (
	cldStopped   = 5
	cldContinued = 6
)

// awaitEnd waits until the child has ended, and does not reap it.
func (c *Child) awaitEnd() {
	for {
		var news unix.Siginfo
		err := unix.Waitid(unix.P_PID, c.PID(), &news, unix.WEXITED|unix.WSTOPPED|unix.WCONTINUED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || news.Code != cldStopped && news.Code != cldContinued:
			return
		default:
			// Reap the event, so that the kernel reports it once. A child that was
			// continued may have been stopped again in between: the reaped event counts.
			var reaped unix.Siginfo
			_ = unix.Waitid(unix.P_PID, c.PID(), &reaped, unix.WSTOPPED|unix.WCONTINUED|unix.WNOHANG, nil)
			if reaped.Code == cldStopped || reaped.Code == cldContinued {
				c.note(reaped.Code == cldStopped)
			}
		}
	}
}

// note records that the child was stopped or continued.
func (c *Child) note(stopped bool) {
	c.mu.Lock()
	switch {
	case stopped && c.stopped.IsZero():
		c.stopped = time.Now()
	case !stopped && !c.stopped.IsZero():
		if len(c.rests) == mostRests {
			c.rests = slices.Delete(c.rests, 0, 1)
		}
		c.rests = append(c.rests, rest{c.stopped, time.Now()})
		c.stopped = time.Time{}
	}
	c.mu.Unlock()
	if stopped {
		select {
		case c.stops <- struct{}{}:
		default:
		}
	}
}

// Rested returns how long signals have kept the child stopped since a time. Time limits
// of a child exclude that.
func (c *Child) Rested(since time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := time.Duration(0)
	add := func(r rest) {
		if r.from.Before(since) {
			r.from = since
		}
		total += max(r.until.Sub(r.from), 0)
	}
	if !c.stopped.IsZero() {
		add(rest{c.stopped, time.Now()})
	}
	for i := len(c.rests) - 1; i >= 0 && c.rests[i].until.After(since); i-- {
		add(c.rests[i])
	}
	return total
}

// PID returns the process id of the child.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Ended returns a channel that is closed when the child has ended and the rest of its
// group has been killed. Some of its output may still be unread.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// Stops returns a channel that receives when a signal has stopped the child, as Ctrl-Z
// does.
func (c *Child) Stops() <-chan struct{} { return c.stops }

// Gone returns a channel that is closed when the child has ended and its output has been
// read.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// Wait waits until the child is gone. Its error is nil if the child exited
// with status 0, and an *exec.ExitError if the child ended in another way.
func (c *Child) Wait() error {
	<-c.gone
	if errors.Is(c.err, exec.ErrWaitDelay) {
		return nil
	}
	return c.err
}

// State returns how the child ended. It is nil until the child is gone.
func (c *Child) State() *os.ProcessState {
	select {
	case <-c.gone:
		return c.cmd.ProcessState
	default:
		return nil
	}
}

// KilledBy returns the signal that ended a child, from an error of Wait or Run.
// It returns 0 if the child exited by itself.
func KilledBy(err error) syscall.Signal {
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) {
		return 0
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	if !status.Signaled() {
		return 0
	}
	return status.Signal()
}

// Head is a writer that keeps the beginning of the output of a child and drops the rest.
type Head struct {
	Limit int // bytes
	kept  []byte
	more  bool
}

// Write never fails, so that it does not hold up a child.
func (h *Head) Write(p []byte) (int, error) {
	room := h.Limit - len(h.kept)
	h.kept = append(h.kept, p[:min(room, len(p))]...)
	h.more = h.more || len(p) > room
	return len(p), nil
}

// String returns the beginning as text, and says whether more was dropped.
func (h *Head) String() string {
	text := strings.ToValidUTF8(strings.TrimSpace(string(h.kept)), "\uFFFD")
	if h.more {
		text += " … and more"
	}
	return text
}

// Tail is a writer that keeps the end of the output of a child, because a traceback ends
// with the error.
type Tail struct {
	Limit int // bytes
	kept  []byte
}

// Write never fails, so that it does not hold up a child.
func (t *Tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-t.Limit):]...)
	t.kept = append(t.kept[:0], t.kept[max(0, len(t.kept)-t.Limit):]...)
	return len(p), nil
}

// Lines returns the last n lines as text, or fewer if there are fewer.
func (t *Tail) Lines(n int) []string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "?"))
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-n):]
}
