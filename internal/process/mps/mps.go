// Package mps runs MPS control daemons, one per device and user, for leases
// whose memory the driver enforces.
//
// The pool starts a daemon for the first lease that needs it, as the user that
// the lease belongs to, and stops it a while after the last.
//
// MPS lets several processes share a device as if they were one. That has a price: the
// clients of a daemon share a server, and a fault of one of them ends all of them. So
// each user gets a daemon of their own, no user can harm another, and berth uses MPS only
// if the configuration asks for it.
//
// Users own the folders in which MPS keeps its pipes and logs, and can put anything
// there. The pool itself opens nothing in them: NVIDIA's programs, the client too, run as
// the user.
package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/berth-gpu/berth/internal/process"
)

// control is the name of NVIDIA's program: with -f it is the daemon, otherwise
// its client.
const control = "nvidia-cuda-mps-control"

// ErrMissing means that this machine has no MPS.
var ErrMissing = errors.New("there is no " + control + " on this machine: it comes with the NVIDIA driver (package nvidia-cuda-mps or nvidia-compute-utils)")

// Options says how a pool works.
type Options struct {
	Dir       string        // folder of pipes and logs; owned by the daemon, passable for users
	Linger    time.Duration // from the end of the last lease to the end of its daemon
	Processes process.Table
	Died      func(uuid string)        // called when an MPS daemon ended by itself; must not block; may be nil
	Label     func(uuid string) string // returns the name of a device for people; nil means its UUID
}

// Pool keeps the running daemons. Each device and user has a lock of its own: a daemon
// that hangs when it starts or stops delays no other.
type Pool struct {
	Options
	wake     chan struct{} // signals that a daemon has become unused; has room for one
	ask      func(ctx context.Context, d *daemon, command string) error
	lookUp   func(uid int) (*syscall.Credential, error)
	patience time.Duration // how long to wait for an answer of a daemon
	lookups  singleflight.Group

	mu      sync.Mutex // guards what follows, and the daemons; held for moments only
	daemons map[key]*daemon
	locks   map[key]chan struct{} // full while a goroutine looks for, starts or stops a daemon
}

// key identifies a daemon.
type key struct {
	uuid string
	uid  int
}

// daemon is a daemon that runs, or ran at the last check of the pool.
type daemon struct {
	key
	dir      string
	id       process.ID
	as       *syscall.Credential // the user it runs as; nil if that is this process's user, or not known yet
	answered bool                // it has answered a client of this pool
	uses     map[uint64]bool     // fences of leases
	idle     time.Time           // since when it is unused
	stopping bool
	watch    func() // stops the watch over it
}

// New returns a pool. The pool takes over daemons that an earlier berth left
// behind when they are needed; Run stops the others.
func New(o Options) *Pool {
	if o.Label == nil {
		o.Label = func(uuid string) string { return uuid }
	}
	return &Pool{
		Options: o, wake: make(chan struct{}, 1), ask: runClient, lookUp: lookUpUser, patience: readyWithin,
		daemons: map[key]*daemon{}, locks: map[key]chan struct{}{},
	}
}

// Available returns nil if this machine has MPS, or an error that says why not.
func (p *Pool) Available() error {
	if _, err := exec.LookPath(control); err != nil {
		return ErrMissing
	}
	return nil
}

// Use makes sure that the daemon for a device and a user runs, on behalf of
// the lease with a fence, and returns its pipe directory.
func (p *Pool) Use(ctx context.Context, uuid string, uid int, fence uint64) (string, error) {
	k := key{uuid, uid}
	unlock, err := p.lock(ctx, k)
	if err != nil {
		return "", fmt.Errorf("start MPS for %s: the daemon of this user is being started or stopped: %w", p.Label(uuid), err)
	}
	defer unlock()
	d, err := p.running(ctx, k)
	if err != nil {
		return "", fmt.Errorf("start MPS for %s: %w", p.Label(uuid), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d.uses[fence] = true
	return pipeOf(d.dir), nil
}

// running returns the daemon of a device and a user, and starts it if there is
// none. The caller has locked it.
func (p *Pool) running(ctx context.Context, k key) (*daemon, error) {
	d := p.find(k)
	if d == nil {
		return p.start(ctx, k)
	}
	if d.answered {
		return d, nil
	}
	// An earlier berth started this daemon, and may have been killed before the
	// daemon answered.
	as, err := p.credential(ctx, k.uid)
	if err != nil {
		return nil, err
	}
	d.as = as
	err = p.ready(ctx, d, nil)
	p.mu.Lock()
	used := len(d.uses) > 0
	p.mu.Unlock()
	if err == nil || ctx.Err() != nil || used {
		return d, err
	}
	p.end(d)
	return p.start(ctx, k)
}

// Keep records that a lease uses a daemon since before a restart.
func (p *Pool) Keep(uuid string, uid int, fence uint64) {
	k := key{uuid, uid}
	unlock, err := p.lock(context.Background(), k)
	if err != nil {
		return
	}
	defer unlock()
	if d := p.find(k); d != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		d.uses[fence] = true
	}
}

// Release records that a lease has ended. The lease need not have used a
// daemon.
func (p *Pool) Release(fence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.daemons {
		if !d.uses[fence] {
			continue
		}
		delete(d.uses, fence)
		if len(d.uses) == 0 {
			d.idle = time.Now()
			p.nudge()
		}
	}
}

func (p *Pool) nudge() {
	select {
	case p.wake <- struct{}{}:
	default: // Run is already going to look
	}
}

// Serves reports whether a process, given with its ancestors, is one of the daemons or a
// server of one.
func (p *Pool) Serves(line []process.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.daemons {
		if slices.Contains(line, d.id) {
			return true
		}
	}
	return false
}

// Run stops unused daemons, also those of an earlier berth, until ctx ends, and then
// stops all unused ones at once. Daemons in use keep running, because their leases
// continue.
func (p *Pool) Run(ctx context.Context) {
	p.takeOver()
	var stops sync.WaitGroup
	for {
		next := p.stopIdle(p.Linger, &stops)
		var alarm <-chan time.Time
		if next > 0 {
			alarm = time.After(next)
		}
		select {
		case <-ctx.Done():
			p.stopIdle(0, &stops)
			stops.Wait()
			p.unwatchAll()
			return
		case <-alarm:
		case <-p.wake:
		}
	}
}

func (p *Pool) unwatchAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.daemons {
		d.watch()
	}
}

// takeOver finds the daemons that an earlier berth left behind.
func (p *Pool) takeOver() {
	files, _ := filepath.Glob(filepath.Join(p.Dir, "*", "*", pidFile))
	for _, file := range files {
		dir := filepath.Dir(file)
		uid, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err != nil {
			continue
		}
		k := key{filepath.Base(dir), uid}
		if unlock, ours := p.tryLock(k); ours { // otherwise another goroutine already looks for it
			p.find(k)
			unlock()
		}
	}
}

func pipeOf(dir string) string { return filepath.Join(dir, "pipe") }
func logOf(dir string) string  { return filepath.Join(dir, "log") }

func (p *Pool) dirOf(k key) string { return filepath.Join(p.Dir, strconv.Itoa(k.uid), k.uuid) }

// environ returns the environment of the daemon and its client. A client finds the daemon
// of a device by the pipe directory alone.
func environ(dir, uuid string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "CUDA_VISIBLE_DEVICES=" + uuid,
		"CUDA_MPS_PIPE_DIRECTORY=" + pipeOf(dir), "CUDA_MPS_LOG_DIRECTORY=" + logOf(dir),
	}
}

// lock waits until no other goroutine works on the daemon of a device and a user. The
// caller calls unlock when it is done.
func (p *Pool) lock(ctx context.Context, k key) (unlock func(), err error) {
	lock := p.lockOf(k)
	select {
	case lock <- struct{}{}:
		return func() { <-lock; p.nudge() }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// tryLock does the same as lock, but does not wait.
func (p *Pool) tryLock(k key) (unlock func(), ours bool) {
	lock := p.lockOf(k)
	select {
	case lock <- struct{}{}:
		return func() { <-lock; p.nudge() }, true
	default:
		return nil, false
	}
}

func (p *Pool) lockOf(k key) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	lock := p.locks[k]
	if lock == nil {
		lock = make(chan struct{}, 1)
		p.locks[k] = lock
	}
	return lock
}
