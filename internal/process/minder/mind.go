package minder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/cgroup"
	"github.com/berth-gpu/berth/internal/process/child"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// Post says which run a minder minds.
type Post struct {
	Runs   string // the folder of the runs
	Run    string
	Groups []string // the folders of the control group that the minder enters
}

// ErrRefused means that the daemon has no order for this minder and never will have.
var ErrRefused = errors.New("the daemon has no order for this run")

const (
	// The minder asks again for its order after this time, which doubles up to the most.
	firstPause = 50 * time.Millisecond
	mostPause  = 2 * time.Second

	// endWithin is how long the minder tries to write down the end.
	endWithin = time.Minute

	// mostFailure is the limit of the text of a failure, in bytes.
	mostFailure = 2 << 10
)

// Mind is a minder: it takes the run, asks for its order, runs it, and writes down how it
// ended. It asks again while ask returns an error other than ErrRefused, because the
// daemon may be restarting. Mind changes the user of this process, so the process must end
// after it. Its error is about the record: what becomes of the command is written there.
func Mind(ctx context.Context, at Post, ask func(ctx context.Context, run string) (api.MinderOrder, error)) error {
	// The kernel kills the command when the thread that started it ends, and this thread
	// ends with the process.
	runtime.LockOSThread()
	m := newMinder(at)
	if err := errors.Join(hide(), closeInherited()); err != nil {
		return err
	}
	folder, err := Open(at.Runs)
	if err != nil {
		return err
	}
	m.note, err = folder.take(at.Run)
	if errors.Is(err, errTaken) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := m.begin(); err != nil {
		return fmt.Errorf("write that run %s has begun: %w", at.Run, err)
	}
	if err := cgroup.Group(at.Groups).Enter(); err != nil {
		return m.conclude(failed(err))
	}
	return m.conclude(m.run(ctx, ask))
}

// minder is a minder at work.
type minder struct {
	post  Post
	note  *note
	ended chan os.Signal // a process below this one has ended
	asked chan os.Signal // this process was asked to end
	use   usage
	over  chan struct{} // closed when the command has ended
}

// newMinder begins to catch signals. None of them ends the minder, except those that no
// process survives: whoever signals everything of the run means the command, and its end
// has to be written down. Signals that are caught are not ignored in the command, even if
// the daemon ignores them.
func newMinder(at Post) *minder {
	m := &minder{post: at, ended: make(chan os.Signal, 1), asked: make(chan os.Signal, 1), over: make(chan struct{})}
	signal.Notify(m.ended, syscall.SIGCHLD)
	signal.Notify(m.asked, syscall.SIGTERM)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE,
		syscall.SIGALRM, syscall.SIGVTALRM, syscall.SIGPROF, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGIO, syscall.SIGPWR,
		syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGABRT, syscall.SIGTRAP, syscall.SIGSYS)
	return m
}

// closeInherited closes the files that this process inherited beside the first three:
// they belong to the daemon. Files that Go has opened have the mark that no program
// inherits them, so those without it were inherited.
func closeInherited() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("look at the open files: %w", err)
	}
	for _, e := range entries {
		fd := 0
		if _, err := fmt.Sscan(e.Name(), &fd); err != nil || fd < 3 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
	return nil
}

// begin writes down which process minds the run.
func (m *minder) begin() error {
	id, err := process.Proc().Identify(os.Getpid())
	if err != nil {
		return err
	}
	boot, err := process.Proc().Boot()
	if err != nil {
		return err
	}
	return errors.Join(
		m.note.write(begunAt, runs.Record{Version: api.MinderVersion, PID: id.PID, Start: id.Start, Boot: boot, Groups: m.post.Groups}),
		m.note.syncName(), // while this process is root
	)
}

// run gets the order and runs the command. It returns how that ended.
func (m *minder) run(ctx context.Context, ask func(context.Context, string) (api.MinderOrder, error)) runs.Record {
	order, err := m.order(ctx, ask)
	if err == nil && order.Version > api.MinderVersion {
		err = fmt.Errorf("the daemon gave an order of version %d, and this minder understands up to %d: restart the daemon after an update", order.Version, api.MinderVersion)
	}
	if err == nil && len(order.Command) == 0 {
		err = errors.New("the order has no command")
	}
	if err != nil {
		return failed(err)
	}
	pid, err := m.start(order)
	if err != nil {
		return failed(err)
	}
	m.use.begin()
	defer close(m.over)
	return m.wait(pid)
}

// failed returns the end of a run whose command could not be started.
func failed(err error) runs.Record {
	end := runs.Record{Failure: err.Error(), Short: runs.IsShort(err)}
	if program := (*child.ProgramError)(nil); errors.As(err, &program) {
		end.Exit = gpu.Some(program.Exit)
	}
	return end
}

// errForgotten means that the record of the run was removed: no daemon knows the run.
var errForgotten = errors.New("the record of the run is gone")

// errAsked means that this process was asked to end.
var errAsked = errors.New("it was ended before it could start")

// order asks the daemon for the order until it answers, until this process is asked to
// end, or until nobody can know the run any more.
func (m *minder) order(ctx context.Context, ask func(context.Context, string) (api.MinderOrder, error)) (api.MinderOrder, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, 1)
	var order api.MinderOrder
	go func() {
		for pause := firstPause; ; pause = min(2*pause, mostPause) {
			var err error
			if order, err = ask(ctx, m.post.Run); err == nil || errors.Is(err, ErrRefused) || ctx.Err() != nil {
				answers <- err
				return
			}
			if m.note.removed() {
				answers <- errForgotten
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}()
	select {
	case err := <-answers:
		return order, err
	case <-m.asked:
		cancel()
		<-answers
		return api.MinderOrder{}, errAsked
	}
}

// start becomes the user and starts the command. It returns the pid of the command.
func (m *minder) start(order api.MinderOrder) (int, error) {
	as, err := personOf(order)
	if err != nil {
		return 0, err
	}
	if err := settle(); err != nil {
		return 0, err
	}
	if err := as.become(); err != nil {
		return 0, err
	}
	place, err := as.prepare(order)
	if err != nil {
		return 0, err
	}
	defer place.close()
	started := runs.Record{
		Started: time.Now(), UID: order.UID, Lease: order.Lease.ID, Fence: order.Lease.Fence, Output: place.output.Name(),
	}
	if place.errors != place.output {
		started.Error = place.errors.Name()
	}
	select {
	case <-m.asked: // while it prepared
		return 0, errAsked
	default:
	}
	// From here on nobody else starts this command, whatever happens.
	if err := errors.Join(m.note.write(startedAt, started), m.note.sync()); err != nil {
		return 0, fmt.Errorf("write down that the command is started: %w", err)
	}
	pid, err := place.start()
	if err == nil && order.Parts > 0 && order.Output == "" {
		go keepParts(started.Output, order.Parts, m.over)
	}
	return pid, err
}

// settle undoes, while this process is root, what the daemon is beyond an ordinary process
// and what its children inherit. It is about this thread, which starts the command.
func settle() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("take over what the command leaves behind: %w", err)
	}
	// These fail where nothing has to be undone, or where this process may not.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 0)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("0"), 0)
	_, _ = unix.KeyctlJoinSessionKeyring("")
	var none unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil); err != nil {
		return fmt.Errorf("unblock the signals: %w", err)
	}
	_, _ = unix.Setsid() // the daemon or systemd did it
	return nil
}

// conclude writes down how the run ended, and then ends what is left of it.
func (m *minder) conclude(end runs.Record) error {
	end.Ended = time.Now()
	end.PeakHost, end.CPU = m.use.peak, m.use.cpu
	end.OutOfMemory = cgroup.Killed(groupPrefix) > 0
	end.Failure = gpu.Printable(end.Failure, mostFailure)
	err := m.writeEnd(end)
	// A shutdown signals every process, this one perhaps last. The exit code is safe while
	// the machine is asked, and also while it is written again: it fits into a sector.
	if err == nil && end.Exit != gpu.Some(0) && shuttingDown() {
		end.Shutdown = true
		err = m.writeEnd(end)
	}
	m.endRest()
	if err != nil {
		return fmt.Errorf("write down how run %s ended: %w", m.post.Run, err)
	}
	return nil
}

// writeEnd writes down how the run ended. On a full disk it tries again for some time:
// room for this was reserved, but not every file system keeps it.
func (m *minder) writeEnd(end runs.Record) error {
	for deadline := time.Now().Add(endWithin); ; time.Sleep(firstPause) {
		err := errors.Join(m.note.write(endedAt, end), m.note.sync())
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
