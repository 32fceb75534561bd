package mps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/child"
)

// pidFile holds the process of a daemon and its start time, so that the next berth
// recognizes it.
const pidFile = "daemon"

// longestPipe is the maximum length of the pipe directory, so that the path of a Unix
// socket has room for the names that MPS adds.
const longestPipe = 90

// readyWithin is how long a daemon may take to answer.
const readyWithin = 5 * time.Second

// find returns the daemon of a device and a user if it runs: a known one, or one that an
// earlier berth left behind. The caller has locked it.
func (p *Pool) find(k key) *daemon {
	p.mu.Lock()
	d := p.daemons[k]
	p.mu.Unlock()
	if d != nil && p.Processes.Alive(d.id) {
		return d
	}
	dir, err := p.folder(k, false)
	if err != nil {
		return nil
	}
	defer dir.Close()
	text, err := dir.ReadFile(pidFile)
	if err != nil {
		return nil
	}
	var id process.ID
	if _, err := fmt.Sscan(string(text), &id.PID, &id.Start); err != nil || !p.isControl(id, k.uid) {
		return nil
	}
	d = newDaemon(k, p.dirOf(k), nil)
	d.id = id
	if p.attend(d) != nil {
		return nil
	}
	return d
}

func newDaemon(k key, dir string, as *syscall.Credential) *daemon {
	return &daemon{key: k, dir: dir, as: as, uses: map[uint64]bool{}, idle: time.Now()}
}

// isControl reports whether a process is an MPS control daemon of a user. berth
// must never signal any other process.
func (p *Pool) isControl(id process.ID, uid int) bool {
	const nameKept = 15 // length to which the kernel cuts the name of a process
	owner, err := p.Processes.UID(id.PID)
	name := p.Processes.Name(id.PID)
	return err == nil && owner == uid && name == control[:nameKept] && p.Processes.Alive(id)
}

// start starts a daemon as its user. The caller has locked it.
func (p *Pool) start(ctx context.Context, k key) (*daemon, error) {
	if err := p.Available(); err != nil {
		return nil, err
	}
	path := p.dirOf(k)
	if len(pipeOf(path)) > longestPipe {
		return nil, fmt.Errorf("the path %s is too long for a socket: choose a shorter --state-dir", pipeOf(path))
	}
	as, err := p.credential(ctx, k.uid)
	if err != nil {
		return nil, err
	}
	dir, err := p.folder(k, true)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := handOver(dir, as); err != nil {
		return nil, err
	}
	d := newDaemon(k, path, as)
	// A daemon may run even without a note. Remove the note of one that has
	// ended before the next one starts.
	switch err := dir.Remove(pidFile); {
	case errors.Is(err, fs.ErrNotExist):
		p.quitUnknown(ctx, d)
	case err != nil:
		return nil, err
	}
	if err := p.launch(ctx, d, dir); err != nil {
		return nil, err
	}
	return d, nil
}

// launch starts the process of a daemon and waits until it answers.
func (p *Pool) launch(ctx context.Context, d *daemon, dir *os.Root) error {
	log, err := dir.OpenFile("output", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(control, "-f")
	cmd.Env = environ(d.dir, d.uuid)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	// The daemon gets a session of its own, so that an interrupt at berth's
	// terminal does not reach it. Its group may outlive it: programs may still
	// use it.
	c, err := child.Start(cmd, child.How{Session: true, User: d.as, Ordinary: true, Daemon: true})
	if err != nil {
		return err
	}
	if err = p.settle(ctx, d, c.PID(), c.Gone()); err == nil {
		return nil
	}
	c.Kill()
	select {
	case <-c.Gone():
	case <-time.After(time.Second):
	}
	_ = dir.Remove(pidFile)
	return fmt.Errorf("%w; see %s and %s", err, log.Name(), logOf(d.dir))
}

// settle first records the process of a daemon: if berth is killed from here on, the next
// one finds it.
func (p *Pool) settle(ctx context.Context, d *daemon, pid int, ended <-chan struct{}) error {
	id, err := p.Processes.Identify(pid)
	if err != nil {
		return errEnded
	}
	d.id = id
	line := fmt.Sprintf("%d %d\n", id.PID, id.Start)
	if err := file.ReplacePlain(filepath.Join(d.dir, pidFile), []byte(line)); err != nil {
		return err
	}
	if err := p.ready(ctx, d, ended); err != nil {
		return err
	}
	return p.attend(d)
}

// quitUnknown asks a daemon without a note to quit, if there is one: berth was
// killed after it started the daemon and before it wrote the note. A second
// daemon would not start in the same folder.
func (p *Pool) quitUnknown(ctx context.Context, d *daemon) {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	if p.ask(ctx, d, "quit") != nil {
		return
	}
	for p.ask(ctx, d, isThere) == nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// attend watches over a daemon that runs.
func (p *Pool) attend(d *daemon) error {
	stop, err := p.Processes.Watch(d.id, func() { p.died(d) })
	if err != nil {
		return err
	}
	d.watch = stop
	p.mu.Lock()
	defer p.mu.Unlock()
	p.daemons[d.key] = d
	p.nudge() // the daemon is unused until a lease is added
	return nil
}

func (p *Pool) died(d *daemon) {
	p.mu.Lock()
	known := p.daemons[d.key] == d
	if known {
		delete(p.daemons, d.key)
	}
	p.mu.Unlock()
	if known && p.Died != nil {
		p.Died(d.uuid)
	}
}

var errEnded = errors.New("it ended at once")

// isThere is a command without effects.
const isThere = "get_default_active_thread_percentage"

// ready waits until a daemon answers.
func (p *Pool) ready(ctx context.Context, d *daemon, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	for {
		err := p.ask(ctx, d, isThere)
		if err == nil {
			d.answered = true
			return nil
		}
		select {
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

const (
	answersWithin = time.Second // after that, the client is killed
	mostOutput    = 4 << 10     // bytes of the output of a client; the rest is dropped
)

// runClient sends a command to a daemon through NVIDIA's client. The client answers at
// once or not at all. It runs as the user too, because it opens files in the user's
// folder.
func runClient(ctx context.Context, d *daemon, command string) error {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	out := &child.Head{Limit: mostOutput}
	cmd := exec.Command(control)
	cmd.Env, cmd.Dir = environ(d.dir, d.uuid), "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(command+"\n"), out, out
	if err := child.Run(ctx, cmd, child.How{User: d.as}, 0); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
