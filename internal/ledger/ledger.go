// Package ledger keeps the book of leases: it is the only one that writes it.
//
// One goroutine at a time works on the book. Usually it is the clerk, who takes
// errands in turn: it applies a whole batch of them to the book, writes what
// happened to the journal in one go, and only then answers. While the disk is
// waited for, the next batch gathers, so the cost of a write is shared by
// everybody who came meanwhile. An errand that finds the book free is done in
// the same way by the goroutine that brings it. If the journal does not take a
// batch, the book is put back to where it was and everybody in it is told:
// nothing is ever granted that is not written down.
//
// The rules are in package lease, the choosing in package placement; what
// holders really use comes in through Observe.
package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/placement"
	"github.com/berth-gpu/berth/internal/process"
)

// Settings can be changed while the ledger runs.
type Settings struct {
	// Device is what is set for one device.
	Device func(uuid string) DeviceSettings
	// Services are what is set for services, by name.
	Services map[string]Service
	// Wait is how long a request waits unless it says otherwise.
	Wait time.Duration
}

// DeviceSettings is what is set for one device.
type DeviceSettings struct {
	Limit        gpu.MiB // zero: all of it
	Reserve      gpu.MiB
	MaxPipelines int // zero: the CPUs are shared out over the devices
}

// Service is what is set for one service.
type Service struct {
	lease.Service
	Preferred string // UUID of the device to try first; empty: none
}

// Hooks is who is told. Each may be nil; they are called in order and must not
// block.
type Hooks struct {
	Event   func(gpu.Event)
	Decided func(status string, took time.Duration) // a request was answered: granted, refused, timeout, …
	Ended   func(*lease.Lease, time.Time)           // a lease has ended, and when
}

// Names knows users by login name.
type Names interface {
	// Of returns the login name of a user, or the number in decimal. It may
	// wait, but only for a moment.
	Of(uid int) string
}

// Options are what a ledger is made from.
type Options struct {
	Settings  Settings
	Hooks     Hooks
	Processes process.Table
	Names     Names // nil: users are known by number
	CPUs      int

	// Open opens the journal and hands every record in it to replay.
	Open func(replay func(journal.Record) error) (journal.Journal, error)
}

// Ledger is the book with everything that keeps it true.
type Ledger struct {
	hooks   Hooks
	census  census
	journal writer
	errands chan *errand
	seat    chan struct{} // has room for one: whoever is in it works on the book
	wake    chan struct{} // something changed that may let a waiting request in
	holders holders
	turns   turns

	// mu guards what follows, and is never held while the disk is waited for,
	// so looking is always quick. Leases are changed by the clerk alone.
	mu sync.RWMutex
	machine
	waiters map[string]*waiter
	effects []lease.Effect // of the batch at hand

	// Only whoever has the seat touches these.
	own      errand // what is done by the one who brought it
	alarm    *time.Timer
	alarmAt  time.Time // when it rings; zero: not yet known
	buffer   []byte
	ends     []int // of the records in buffer
	group    [][]byte
	chosen   []string
	line     line // of those who wait
	restless bool // something has to be tried again soon

	turn       turn // read without a lock, which may be held for ever when the clerk is stuck
	compacting atomic.Bool
	finished   chan struct{} // closed when Run is over
}

// Open reads the journal and makes the book that it describes. Leases whose
// holders ended meanwhile end when Run starts, before anything else happens.
func Open(o Options) (*Ledger, error) {
	boot, err := o.Processes.Boot()
	if err != nil {
		return nil, err
	}
	l := &Ledger{
		hooks: o.Hooks, census: census{Table: o.Processes, names: o.Names, boot: boot},
		errands: make(chan *errand, maxBatch), seat: make(chan struct{}, 1), wake: make(chan struct{}, 1), finished: make(chan struct{}),
		machine: machine{
			boot: boot, cpus: max(o.CPUs, 1), alive: o.Processes.Alive,
			settings: o.Settings, book: lease.New(), snapshot: placement.NewSnapshot(nil, nil, nil),
			devices: map[string]*observed{}, revoking: map[string]revocation{},
		},
		waiters: map[string]*waiter{},
	}
	l.turn.origin = time.Now()
	l.seat <- struct{}{} // nobody works on the book before Run
	l.journal.hooks = &l.hooks
	l.holders = newHolders(l, o.Processes)
	if err := l.recover(o.Open); err != nil {
		return nil, err
	}
	return l, nil
}

// Configure changes the settings; they hold at once.
func (l *Ledger) Configure(s Settings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settings = s
	l.recount()
	l.nudge()
}

// nudge makes the clerk look whether somebody who waits can be served.
func (l *Ledger) nudge() {
	select {
	case l.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// Run does what it is asked until ctx ends, and closes the journal then.
// Leases stand and holders run on.
func (l *Ledger) Run(ctx context.Context) error {
	defer close(l.finished)
	defer l.turn.end()
	l.turn.begin()
	l.holders.resume()
	l.clerk(ctx)
	l.holders.watches.Close()
	return l.journal.Close()
}

// Close closes the journal of a ledger that was opened and never run.
func (l *Ledger) Close() error { return l.journal.Close() }

// ErrStopped is what a ledger answers that does not run any more.
var ErrStopped = errors.New("the daemon is stopping")

// submit does an errand at once, or hands it to the clerk and waits for its
// end. An errand that was taken is finished whatever happens to ctx: the answer
// would otherwise not be known. It may be done twice, so everything that it does
// beside applying changes has to bear that.
func (l *Ledger) submit(ctx context.Context, do func(now time.Time) error) error {
	if done, err := l.here(do); done {
		return err
	}
	e := &errand{do: do, done: make(chan error, 1)}
	select {
	case l.errands <- e:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.finished:
		return ErrStopped
	}
	select {
	case err := <-e.done:
		return err
	case <-l.finished:
		select {
		case err := <-e.done:
			return err
		default:
			return ErrStopped
		}
	}
}

// journal tells how the journal fares.
func (h *Hooks) journal(severity gpu.Severity, format string, args ...any) {
	if h.Event != nil {
		h.Event(gpu.Event{Time: time.Now(), Code: gpu.EventJournal, Severity: severity, Text: fmt.Sprintf(format, args...)})
	}
}

// decided tells how a request was answered.
func (h *Hooks) decided(status string, took time.Duration) {
	if h.Decided != nil {
		h.Decided(cmp.Or(status, "granted"), took)
	}
}
