// Package ward keeps one program of berth running beside the daemon.
//
// The program outlives the daemon: the next daemon finds it by a lock that it holds, and
// goes on watching it. A program that has ended is started again, at once the first time,
// and with growing pauses if it keeps ending. One that is to run in another way is told to
// end, and the next one is started beside it, so that the old one can finish what it does.
package ward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Program is what runs.
type Program struct {
	Command []string
	// User and Group are those of its process, without further groups. Nil: those of the
	// daemon.
	User *User
	// Digest tells programs apart that have to run in different ways, beside the command
	// and the user.
	Digest string
}

// User is a user of the machine.
type User struct{ UID, GID int }

// key tells whether a program that runs is the one that has to.
func (p *Program) key() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // cannot happen: it is text and numbers
	}
	return string(text)
}

// State says how the program is.
type State struct {
	Running bool
	Why     string // why it does not run, or why it ended last; empty if it never did
	Failed  int    // how often it ended soon after its start, one after the other
}

// Options are the parts of a Ward.
type Options struct {
	Folder  string      // for the lock and the log; only the daemon can read it
	Name    string      // of the files
	Changed func(State) // called when the state has changed; must not block
}

const (
	// steady is how long a program runs until its end counts as a first one.
	steady = 5 * time.Second
	// The pause before the next start grows from the first to the longest.
	firstPause, longestPause = 50 * time.Millisecond, 5 * time.Second
	// mostLog is how large the log may be when a program is started.
	mostLog = 1 << 20
	// lookAgain is how often a program is looked at of which only the lock is known.
	lookAgain = time.Second
)

// Ward keeps one program running.
type Ward struct {
	Options
	changed chan struct{} // has room for one; want has changed

	mu    sync.Mutex // guards what follows
	told  bool       // Want was called
	want  *Program
	state State
}

// New returns a ward. What runs is left alone until Want says what has to run.
func New(o Options) *Ward { return &Ward{Options: o, changed: make(chan struct{}, 1)} }

// Want says which program has to run; nil means none.
func (w *Ward) Want(p *Program) {
	w.mu.Lock()
	defer w.mu.Unlock()
	same := w.told && (p == w.want || p != nil && w.want != nil && p.key() == w.want.key())
	if w.want, w.told = p, true; same {
		return
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// State returns how the program is now.
func (w *Ward) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

func (w *Ward) wanted() (want *Program, told bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.want, w.told
}

// set changes the state, and tells.
func (w *Ward) set(change func(*State)) {
	w.mu.Lock()
	before := w.state
	change(&w.state)
	now := w.state
	w.mu.Unlock()
	if before != now && w.Changed != nil {
		w.Changed(now)
	}
}

// record is what the lock file says about the program that holds the lock.
type record struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Key   string `json:"key"`
}

// running is a program that runs.
type running struct {
	id    process.ID // zero if only the lock is known
	key   string     // empty if it is not known how it runs
	began time.Time  // zero if an earlier daemon has started it
	ended chan string
}

// Run keeps the program running until ctx ends. It leaves the program alone then.
func (w *Ward) Run(ctx context.Context) {
	now := w.adopt(ctx)
	for ctx.Err() == nil {
		want, told := w.wanted()
		switch {
		case !told:
			if _, ended := w.await(ctx, now, 0); ended {
				_ = os.Remove(w.lockPath())
				now = nil
			}
			continue
		case now != nil && (want == nil || want.key() != now.key):
			if w.dismiss(ctx, now) {
				now = nil
				w.set(func(s *State) { *s = State{} })
			}
			continue
		case want == nil:
			w.await(ctx, nil, 0)
			continue
		case now == nil:
			var err error
			if now, err = w.start(want); err != nil {
				w.failed(ctx, err.Error())
				continue
			}
		}
		w.set(func(s *State) { s.Running = true })
		why, ended := w.await(ctx, now, 0)
		if !ended {
			continue
		}
		_ = os.Remove(w.lockPath()) // whatever it has left behind may still hold the lock
		if lived := time.Since(now.began); !now.began.IsZero() && lived < steady {
			now = nil
			w.failed(ctx, why)
			continue
		}
		now = nil
		w.set(func(s *State) { *s = State{Why: why, Failed: 1} })
	}
}

// failed notes that the program could not be started, or ended soon, and waits before the
// next start.
func (w *Ward) failed(ctx context.Context, why string) {
	w.set(func(s *State) { s.Running, s.Why, s.Failed = false, why, s.Failed+1 })
	pause := firstPause << min(w.State().Failed-1, 16)
	w.await(ctx, nil, min(pause, longestPause))
}

// await waits until the program has ended, something else is wanted, or the time is over; a
// time of zero has no end.
func (w *Ward) await(ctx context.Context, now *running, limit time.Duration) (why string, ended bool) {
	var over chan string
	if now != nil {
		over = now.ended
	}
	var enough <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case why := <-over:
		return why, true
	case <-w.changed:
	case <-enough:
	case <-ctx.Done():
	}
	return "", false
}

func (w *Ward) lockPath() string { return filepath.Join(w.Folder, w.Name+".lock") }
func (w *Ward) logPath() string  { return filepath.Join(w.Folder, w.Name+".log") }

// lock opens the lock file and locks it. It returns false if a program holds the lock. The
// program inherits the file and must not write to it: it could name any process there, and
// the next daemon would tell that one to end. NFS locks only files that can be written.
func (w *Ward) lock() (*os.File, bool, error) {
	file, free, err := w.lockAs(os.O_RDONLY)
	if errors.Is(err, syscall.EBADF) {
		return w.lockAs(os.O_RDWR)
	}
	return file, free, err
}

func (w *Ward) lockAs(how int) (*os.File, bool, error) {
	file, err := os.OpenFile(w.lockPath(), how|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return file, false, nil
	}
	if err != nil {
		return nil, false, errors.Join(err, file.Close())
	}
	return file, true, nil
}

// adopt finds a program that an earlier daemon has started, or returns nil.
func (w *Ward) adopt(ctx context.Context) *running {
	file, free, err := w.lock()
	if err != nil {
		return nil // the start says what is wrong
	}
	defer file.Close()
	if free {
		return nil
	}
	found := &running{ended: make(chan string, 1)}
	var r record
	text, err := io.ReadAll(io.LimitReader(file, 64<<10))
	if err == nil {
		_ = json.Unmarshal(text, &r) // what is no record names no process
	}
	watch := func(id process.ID, key string) bool {
		_, err := process.Proc().Watch(id, func() { found.ended <- "it has ended" })
		if err == nil {
			found.id, found.key = id, key
		}
		return err == nil
	}
	if watch(process.ID{PID: r.PID, Start: r.Start}, r.Key) {
		return found
	}
	if id := w.holder(); id != (process.ID{}) && watch(id, "") { // the daemon was killed before it wrote the record
		return found
	}
	go w.watchLock(ctx, found.ended)
	return found
}

// holder returns the process that has the lock file open, beside this one: the oldest, if
// it has started others. It returns the zero ID if there is none.
func (w *Ward) holder() (oldest process.ID) {
	path, err := filepath.EvalSymlinks(w.lockPath())
	if err != nil {
		return oldest
	}
	table := process.Proc()
	for _, pid := range table.Openers([]string{path})[path] {
		if id, err := table.Identify(pid); err == nil && pid != os.Getpid() && (oldest == (process.ID{}) || id.Start < oldest.Start) {
			oldest = id
		}
	}
	return oldest
}

// watchLock waits until nobody holds the lock.
func (w *Ward) watchLock(ctx context.Context, ended chan<- string) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		file, free, err := w.lock()
		if err != nil {
			continue
		}
		_ = file.Close()
		if free {
			ended <- "it has ended"
			return
		}
	}
}

// dismiss tells a program to end, and does not wait for that. The next one has a lock file
// of its own. If nobody knows which process it is, dismiss waits for its end, and returns
// false if something else is to be decided before.
func (w *Ward) dismiss(ctx context.Context, now *running) bool {
	if now.id == (process.ID{}) {
		w.set(func(s *State) { s.Running = true })
		if _, ended := w.await(ctx, now, 0); !ended {
			return false
		}
	} else {
		_ = process.Proc().Signal(kinship.Authority(), now.id, process.Terminate) // it may have ended
	}
	_ = os.Remove(w.lockPath())
	return true
}

// start starts the program. It inherits the lock, which ends with it.
func (w *Ward) start(p *Program) (*running, error) {
	lock, free, err := w.lock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", w.lockPath(), err)
	}
	defer lock.Close()
	if !free {
		return nil, errors.New("another one runs that was not told to")
	}
	log, err := w.openLog()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	before, _ := log.Seek(0, io.SeekEnd)
	cmd := exec.Command(p.Command[0], p.Command[1:]...)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, "/"
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if p.User != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(p.User.UID), Gid: uint32(p.User.GID)}
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Command[0], err)
	}
	id, _ := process.Proc().Identify(cmd.Process.Pid) // it has not been waited for, so its pid is its own
	now := &running{id: id, key: p.key(), began: time.Now(), ended: make(chan string, 1)}
	if text, err := json.Marshal(record{id.PID, id.Start, now.key}); err == nil {
		_ = os.WriteFile(w.lockPath(), text, 0o600) // without it, the next daemon knows the lock alone
	}
	go func() {
		err := cmd.Wait()
		why := "it has ended"
		if err != nil {
			why = err.Error()
		}
		if last := w.lastLine(before); last != "" && cmd.ProcessState.Exited() { // one that was killed says nothing of it
			why += ": " + last
		}
		now.ended <- why
	}()
	return now, nil
}

// openLog opens the log of the program, and cuts one that has become long.
func (w *Ward) openLog() (*os.File, error) {
	how := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if info, err := os.Stat(w.logPath()); err == nil && info.Size() > mostLog {
		how |= os.O_TRUNC
	}
	return os.OpenFile(w.logPath(), how, 0o600)
}

// lastLine returns the last line of the log after an offset.
func (w *Ward) lastLine(after int64) string {
	file, err := os.Open(w.logPath())
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil {
		_, _ = file.Seek(max(after, info.Size()-4096), io.SeekStart)
	}
	text, _ := io.ReadAll(io.LimitReader(file, 4096))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.ToValidUTF8(lines[len(lines)-1], "")
}
