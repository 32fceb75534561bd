package batch

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is one worker process and its pipes.
type process struct {
	cmd    *exec.Cmd
	minder *minder  // leads its group; nil: it leads one of its own
	in     *os.File // to the worker
	out    *os.File // from the worker
	words  *lastWords
	frames chan answer   // what it says; closed at the end
	exited chan struct{} // closed when the process and its group are gone
	heard  atomic.Int64  // when it last reported progress, in nanoseconds

	mu     sync.Mutex
	reaped bool // the pid may belong to somebody else
}

// answer is a frame, or why there will be no more.
type answer struct {
	frame
	err error
	at  time.Time
}

// The file descriptors of the pipes in the worker. Standard input is empty,
// and standard output and error go to the log: a worker may print what it
// likes.
const workerIn, workerOut = 3, 4

const pipeBytes = 1 << 20

// start starts a worker under a grant.
func (r *Run) start(name string, g *Grant) (*process, error) {
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
		// Fewer switches between runner and worker; as much as the system allows.
		_, _ = unix.FcntlInt(p.Fd(), unix.F_SETPIPE_SZ, pipeBytes)
	}
	p := &process{
		in: in, out: out, frames: make(chan answer, 4), exited: make(chan struct{}),
		words: &lastWords{prefix: fmt.Sprintf("[%s, GPU %d] ", name, g.GPU.Index), to: r.log},
	}
	p.cmd = exec.Command(r.opt.Command[0], r.opt.Command[1:]...)
	p.cmd.Dir = r.opt.Dir
	p.cmd.Env = environment(os.Environ(), r.opt.Env, g.Env, []string{
		envIn + "=" + strconv.Itoa(workerIn), envOut + "=" + strconv.Itoa(workerOut),
		envProtocol + "=" + strconv.Itoa(ProtocolVersion), envName + "=" + name,
	})
	p.cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	p.cmd.Stdout, p.cmd.Stderr = p.words, p.words
	p.cmd.WaitDelay = time.Second // for what a child of the worker may still print
	p.minder = startMinder()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: p.minder.group(), Pdeathsig: syscall.SIGKILL}
	if err := r.spawner.do(p.cmd.Start); err != nil {
		p.minder.dismiss()
		return nil, errors.Join(fmt.Errorf("start the worker: %w", err), in.Close(), out.Close())
	}
	p.minder.watch(p.cmd.Process.Pid)
	go p.reap()
	go p.listen(r.opt.AnswerBytes)
	return p, nil
}

// environment is one with changes: of a name that is there twice the last
// counts, and an entry without a value takes the name out.
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

// reap waits for the end of the process and takes its group with it. The name
// of the group stays taken until then, so the signal can reach nobody else.
func (p *process) reap() {
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.kill()
	p.mu.Lock()
	p.reaped = true
	p.mu.Unlock()
	_ = p.cmd.Wait() // the status is in ProcessState
	p.minder.dismiss()
	p.words.flush()
	_ = p.in.Close()
	// A child that has left the group may hold the pipe open: it is not
	// waited for.
	_ = p.out.SetReadDeadline(time.Now().Add(time.Second))
	close(p.exited)
}

// listen reads what the worker says until it ends or talks nonsense.
func (p *process) listen(most int) {
	defer close(p.frames)
	defer p.out.Close()
	r := bufio.NewReaderSize(p.out, 256<<10)
	likely := 0
	for {
		line, err := readLine(r, likely, most)
		likely = len(line) + len(line)/8
		var f frame
		if err == nil {
			f, err = parseFrame(line)
			if err != nil {
				err = &nonsenseError{err.Error()}
			}
		}
		if f.kind == frameProgress {
			p.heard.Store(time.Now().UnixNano())
			continue
		}
		p.frames <- answer{f, err, time.Now()}
		if err != nil && !errors.Is(err, errTooLong) {
			return
		}
	}
}

// nonsenseError is an answer that is none.
type nonsenseError struct{ text string }

func (e *nonsenseError) Error() string { return "it answered " + e.text }

// send writes to the worker, for as long as a batch may take.
func (p *process) send(data []byte, timeout time.Duration) error {
	if err := p.in.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err := p.in.Write(data)
	return err
}

// signal reaches the worker and all that it started, in the group that it was
// given and, if it has left that, in one that it leads itself.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	pid := p.cmd.Process.Pid
	given := cmp.Or(p.minder.group(), pid)
	_ = syscall.Kill(-given, sig) // it may have ended by itself
	switch group, err := syscall.Getpgid(pid); {
	case err != nil, group == given:
	case group == pid:
		_ = syscall.Kill(-pid, sig)
	default:
		_ = syscall.Kill(pid, sig)
	}
}

// alive reports whether the process has not ended, even if nobody has noticed
// yet.
func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ended unix.Siginfo
	err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &ended, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return !p.reaped && err == nil && ended.Signo == 0
}

func (p *process) kill() { p.signal(syscall.SIGKILL) }

// end waits for the worker to be gone: it is asked, then told, then killed.
func (p *process) end(grace time.Duration) {
	_ = p.send([]byte(byeFrame), grace)
	_ = p.in.Close()
	if !p.gone(grace) {
		p.signal(syscall.SIGTERM)
		p.gone(min(grace, time.Second))
	}
	p.destroy(unkillable)
}

// gone waits for the end of the process, and passes over what it still says.
func (p *process) gone(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	frames := p.frames
	for {
		select {
		case <-p.exited:
			return true
		case _, more := <-frames:
			if !more {
				frames = nil
			}
		case <-timer.C:
			return false
		}
	}
}

// unkillable is how long a process may take to die of SIGKILL. One that hangs
// in a driver does not die at all, and must not hold up the run.
const unkillable = 10 * time.Second

// destroy kills the worker if it lives, and waits until it is gone and nobody
// listens to it any more. It reports whether it is gone; if not, it can at
// least not be heard any more.
func (p *process) destroy(patience time.Duration) bool {
	p.kill()
	gone := p.gone(patience)
	if !gone {
		_ = p.in.Close()
		_ = p.out.Close()
	}
	for range p.frames { // so that listen can end
	}
	return gone
}

// fate says how the process ended, with the last that it printed. why is that
// of the grant; it may be nil.
func (p *process) fate(why func(signalled bool) string) string {
	text := "it cannot be killed: the driver of its GPU may hang"
	select {
	case <-p.exited:
		text = "it ended: " + p.cmd.ProcessState.String()
		status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		if why == nil {
			break
		}
		if reason := why(status.Signaled()); reason != "" {
			text += ", because " + reason
		}
	default:
	}
	return text + p.saying()
}

// saying is the last that it printed, as the end of a sentence; empty: nothing.
func (p *process) saying() string {
	if words := p.words.last(); words != "" {
		return "; it last printed: " + words
	}
	return ""
}
