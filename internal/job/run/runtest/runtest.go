// Package runtest is the world of tests for the books of runs.
//
// It has what outlives a daemon, with the minders that the daemon starts. A daemon can be
// killed at each of its effects on it.
package runtest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// ErrKilled is the error of every effect of a daemon that was killed.
var ErrKilled = errors.New("the daemon was killed")

// World is what outlives a daemon. Every effect of a daemon on it is a step, and a daemon
// can be killed at each of them: before the effect, or after it and before the daemon hears
// of it.
type World struct {
	Mu sync.Mutex // guards what follows

	Boot     string
	Runs     map[string]*Run
	PID      int              // of the last minder
	Living   map[int][]func() // by pid of a minder that lives: who wants to know its end
	Watches  int              // how often a minder is watched
	Deny     error            // why no minder can be started
	Unread   error            // why no record can be read
	Clearing chan struct{}    // closed when what is left of runs has ended; nil: nothing is left of them

	Steps  int
	KillAt int // half-step at which the daemon is killed; 0 means never
	Again  int // half-steps after which the next daemon is killed; 0 means never
}

// Run is a run that has a minder.
type Run struct {
	Record runs.Record
	Alive  bool
}

// New returns a world in which nothing runs.
func New() *World {
	return &World{Boot: "boot-1", Runs: map[string]*Run{}, Living: map[int][]func(){}}
}

// Set changes the world, or looks at it, while nobody else does.
func (w *World) Set(do func()) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	do()
}

// Gone tells those who watch a minder that it has ended.
func (w *World) Gone(pid int) {
	w.Mu.Lock()
	watchers := w.Living[pid]
	delete(w.Living, pid)
	w.Mu.Unlock()
	for _, ended := range watchers {
		ended()
	}
}

// Life is one life of a daemon.
type Life struct {
	Dead chan struct{}   // closed when it is killed
	Over chan struct{}   // closed by the test when it has returned
	Ctx  context.Context // ends when it is killed

	world *World
	stop  context.CancelFunc
	once  sync.Once
}

// Begin begins a life.
func (w *World) Begin() *Life {
	l := &Life{Dead: make(chan struct{}), Over: make(chan struct{}), world: w}
	l.Ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Step notes an effect of a daemon and does it. It fails if the daemon is dead, or dies of
// it.
func (l *Life) Step(do func() error) error {
	w := l.world
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if l.IsDead() {
		return ErrKilled
	}
	w.Steps++
	if w.KillAt == 2*w.Steps-1 {
		l.die()
		return ErrKilled
	}
	err := do()
	if w.KillAt == 2*w.Steps {
		l.die()
		return ErrKilled
	}
	return err
}

// die kills a daemon at its step, and says when the next one dies.
func (l *Life) die() {
	l.Kill()
	if l.world.Again > 0 {
		l.world.KillAt += l.world.Again
	}
}

// Kill ends a daemon as kill -9 does: nothing that it does from now on has an effect.
func (l *Life) Kill() { l.once.Do(func() { close(l.Dead); l.stop() }) }

// IsDead reports whether the daemon was killed.
func (l *Life) IsDead() bool {
	select {
	case <-l.Dead:
		return true
	default:
		return false
	}
}

// Minders plays the minders that a daemon starts.
type Minders struct {
	*Life
	Mind func(run string, minder process.ID) // the life of a minder, in a goroutine of its own
	End  func(minder process.ID) error       // kills a minder; the world is locked
}

// Start implements run.Minders.
func (m Minders) Start(_ context.Context, run string, _ runs.Limits) (id process.ID, err error) {
	w := m.world
	err = m.Step(func() error {
		if w.Deny != nil {
			return w.Deny
		}
		w.PID++
		id = process.ID{PID: w.PID, Start: uint64(w.PID)}
		w.Living[id.PID] = nil
		go m.Mind(run, id)
		return nil
	})
	return id, err
}

// Read implements run.Minders.
func (m Minders) Read(run string) (runs.Record, bool, error) {
	w := m.world
	w.Mu.Lock()
	defer w.Mu.Unlock()
	switch r := w.Runs[run]; {
	case m.IsDead():
		return runs.Record{}, false, ErrKilled
	case w.Unread != nil:
		return runs.Record{}, false, w.Unread
	case r != nil:
		return r.Record, r.Alive, nil
	}
	return runs.Record{}, false, nil
}

// Remove implements run.Minders.
func (m Minders) Remove(run string) error {
	w := m.world
	var clearing chan struct{}
	w.Set(func() { clearing = w.Clearing })
	if clearing != nil {
		<-clearing
	}
	return m.Step(func() error {
		if r := w.Runs[run]; r != nil && r.Alive {
			return errors.New("its minder lives")
		}
		delete(w.Runs, run)
		return nil
	})
}

// Kill implements run.Minders.
func (m Minders) Kill(id process.ID) error {
	return m.Step(func() error { return m.End(id) })
}

// List implements run.Minders.
func (m Minders) List() ([]string, error) {
	m.world.Mu.Lock()
	defer m.world.Mu.Unlock()
	return slices.Collect(maps.Keys(m.world.Runs)), nil
}

// Watch implements run.Minders.
func (m Minders) Watch(id process.ID, ended func()) (func(), error) {
	w := m.world
	w.Mu.Lock()
	defer w.Mu.Unlock()
	watchers, lives := w.Living[id.PID]
	if !lives {
		return nil, process.ErrGone
	}
	w.Watches++
	w.Living[id.PID] = append(watchers, ended)
	return func() {}, nil
}
