// Package mps runs MPS control daemons, one per device and user, for leases
// whose memory the driver shall enforce. A daemon is started for the first
// lease that needs it, as the user that the lease belongs to, and stopped a
// while after the last.
//
// MPS lets several processes share a device as if they were one, and that is
// its price: the clients of a daemon share a server, and a fault of one of them
// ends all of them. Hence one per user, so that nobody is hurt by a stranger,
// and only where the configuration asks for it.
package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process"
)

// control is NVIDIA's program: the daemon itself with -f, and else its client.
const control = "nvidia-cuda-mps-control"

// ErrMissing means that this machine has no MPS.
var ErrMissing = errors.New("there is no " + control + " on this machine: it comes with the NVIDIA driver (package nvidia-cuda-mps or nvidia-compute-utils)")

// Options are what a pool is made from.
type Options struct {
	Dir       string        // where pipes and logs lie; owned by the daemon, passable for users
	Linger    time.Duration // from the end of the last lease to the end of its daemon
	Processes process.Table
	Died      func(uuid string, uid int) // an MPS daemon ended by itself; must not block
}

// Pool is the daemons that are there.
type Pool struct {
	Options
	wake chan struct{} // a daemon has become unused; has room for one

	starting sync.Mutex // held while a daemon is started or stopped

	mu      sync.Mutex // guards what follows
	daemons map[key]*daemon
}

// key is what has a daemon of its own.
type key struct {
	uuid string
	uid  int
}

// daemon is one that runs, or did when it was last looked at.
type daemon struct {
	dir   string
	id    process.ID
	uses  map[string]bool // ids of leases
	idle  time.Time       // since when nobody uses it
	watch func()          // stops the watch over it
}

// New makes a pool. Daemons that an earlier berth left behind are taken over
// when they are needed, or stopped by Run.
func New(o Options) *Pool {
	return &Pool{Options: o, wake: make(chan struct{}, 1), daemons: map[key]*daemon{}}
}

// Available says why there is no MPS here; nil: there is.
func Available() error {
	if _, err := exec.LookPath(control); err != nil {
		return ErrMissing
	}
	return nil
}

// Use makes sure that the daemon for a device and a user runs, on behalf of a
// lease, and returns its pipe directory.
func (p *Pool) Use(ctx context.Context, uuid string, uid int, lease string) (string, error) {
	p.starting.Lock()
	defer p.starting.Unlock()
	k := key{uuid, uid}
	d := p.find(k)
	if d == nil {
		started, err := p.start(ctx, k)
		if err != nil {
			return "", fmt.Errorf("start MPS for %s: %w", uuid, err)
		}
		d = started
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d.uses[lease] = true
	return pipeOf(d.dir), nil
}

// Keep notes that a lease from before a restart uses a daemon.
func (p *Pool) Keep(uuid string, uid int, lease string) {
	p.starting.Lock()
	defer p.starting.Unlock()
	if d := p.find(key{uuid, uid}); d != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		d.uses[lease] = true
	}
}

// Release notes that a lease has ended; it need not have used any.
func (p *Pool) Release(lease string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.daemons {
		if !d.uses[lease] {
			continue
		}
		delete(d.uses, lease)
		if len(d.uses) == 0 {
			d.idle = time.Now()
			p.nudge()
		}
	}
}

func (p *Pool) nudge() {
	select {
	case p.wake <- struct{}{}:
	default: // Run is going to look anyway
	}
}

// Serves reports whether a process, given with its ancestors, is one of the
// daemons or a server that they started.
func (p *Pool) Serves(line []process.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.daemons {
		for _, id := range line {
			if id == d.id {
				return true
			}
		}
	}
	return false
}

// Run stops daemons that nobody uses, those of an earlier berth too, until ctx
// ends, and then at once. Those that are in use run on: their leases stand.
func (p *Pool) Run(ctx context.Context) {
	p.takeOver()
	for {
		next := p.stopIdle(p.Linger)
		var alarm <-chan time.Time
		if next > 0 {
			alarm = time.After(next)
		}
		select {
		case <-ctx.Done():
			p.stopIdle(0)
			p.mu.Lock()
			for _, d := range p.daemons {
				d.watch()
			}
			p.mu.Unlock()
			return
		case <-alarm:
		case <-p.wake:
		}
	}
}

// takeOver finds the daemons that an earlier berth left behind.
func (p *Pool) takeOver() {
	p.starting.Lock()
	defer p.starting.Unlock()
	files, _ := filepath.Glob(filepath.Join(p.Dir, "*", "*", pidFile))
	for _, file := range files {
		dir := filepath.Dir(file)
		if uid, err := strconv.Atoi(filepath.Base(filepath.Dir(dir))); err == nil {
			p.find(key{filepath.Base(dir), uid})
		}
	}
}

// stopIdle stops what has been unused for so long, and says when to look again;
// 0: there is nothing to wait for.
func (p *Pool) stopIdle(linger time.Duration) time.Duration {
	p.starting.Lock()
	defer p.starting.Unlock()
	p.mu.Lock()
	var idle []*daemon
	next := time.Duration(0)
	for k, d := range p.daemons {
		switch left := linger - time.Since(d.idle); {
		case len(d.uses) > 0:
		case left <= 0:
			idle = append(idle, d)
			delete(p.daemons, k)
		case next == 0 || left < next:
			next = left
		}
	}
	p.mu.Unlock()
	for _, d := range idle {
		d.watch()
		p.stop(d)
	}
	return next
}

// stop asks a daemon to quit, and ends it if it does not.
func (p *Pool) stop(d *daemon) {
	_ = d.ask(context.Background(), "quit")
	p.awaitEnd(d.id, time.Second)
	for signal := range 2 {
		if p.Processes.Alive(d.id) {
			_ = p.Processes.Signal(d.id, []unix.Signal{unix.SIGTERM, unix.SIGKILL}[signal])
			p.awaitEnd(d.id, time.Second)
		}
	}
	_ = os.Remove(filepath.Join(d.dir, pidFile))
}

func (p *Pool) awaitEnd(id process.ID, within time.Duration) {
	ended := make(chan struct{})
	stop, err := p.Processes.Watch(id, func() { close(ended) })
	if err != nil {
		return
	}
	defer stop()
	select {
	case <-ended:
	case <-time.After(within):
	}
}

func pipeOf(dir string) string { return filepath.Join(dir, "pipe") }
func logOf(dir string) string  { return filepath.Join(dir, "log") }

// environ is what the daemon and its client need. The client of a device talks
// to the daemon through the pipe directory alone.
func environ(dir, uuid string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "CUDA_VISIBLE_DEVICES=" + uuid,
		"CUDA_MPS_PIPE_DIRECTORY=" + pipeOf(dir), "CUDA_MPS_LOG_DIRECTORY=" + logOf(dir),
	}
}

// ask sends a command to a daemon. It answers at once or not at all.
func (d *daemon) ask(ctx context.Context, command string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, control)
	cmd.Env = environ(d.dir, filepath.Base(d.dir))
	cmd.Stdin = strings.NewReader(command + "\n")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
