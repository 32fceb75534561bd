// Package ledger keeps the book of leases: it is the only one that writes it.
//
// One goroutine at a time works on the book. Usually it is the clerk, which takes calls
// in batches: it applies a batch to the book, writes the effects to the journal in one
// write, and only then answers. While the clerk waits for the disk, the next batch
// gathers, so all calls of a batch share the cost of one write. A call that finds
// the book free runs in the same way in the goroutine that submits it. If the journal
// refuses a batch, the ledger undoes the batch in the book and returns the error to every
// caller in it: it never grants anything that is not in the journal.
//
// Package lease has the rules, and package placement chooses devices. Observe takes in
// what holders really use.
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
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/fair"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/lease/stored"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/when"
)

// Hooks are the functions that the ledger calls when something has happened. Each
// may be nil. The ledger calls them in the order of what happened; they must not
// block.
type Hooks struct {
	Event   func(lease.Notice)
	Decided func(status string, took time.Duration) // a request was answered: granted, refused, timeout, …

	// Changed gets every effect after the journal and Event, and the effect is valid
	// during the call. Who hears that a lease was cancelled or has reached its time limit
	// (lease.Overran, again a minute later if the lease still exists) should end its processes and revoke
	// it; if Changed is nil, the ledger revokes it at once. Who hears that a parked lease
	// has room on its device again (lease.Resumed) should move its memory back.
	Changed func(*lease.Effect)

	// Authority sees every batch before the journal does. If it returns an error, the
	// ledger undoes the batch. If the journal refuses the batch, the ledger calls
	// Authority again with failed set.
	Authority func(effects []lease.Effect, failed error) error

	// Shifted is called after all times have moved, because the clock was set. It must not
	// wait; it may be nil.
	Shifted func(by time.Duration)
}

// Subscribe sets the functions to call. Call it at most once, and before Run. It reports
// trouble with the journal that Open had.
func (l *Ledger) Subscribe(h Hooks) {
	l.hooks = h
	if err := l.Trouble(); err != nil {
		l.hooks.noteTrouble(err)
	}
}

// Names finds the login names of users.
type Names interface {
	// Of returns the login name of a user, or the number in decimal. It may
	// wait, but only for a moment.
	Of(uid int) string
	// Now returns the same without waiting, or the number if the name is not known yet.
	Now(uid int) string
}

// Options are the options of Open.
type Options struct {
	Settings  quota.Settings
	Processes process.Table
	Names     Names // nil if users are known by number
	CPUs      int
	Clock     when.Clock // the zero value if the machine never sleeps

	// Open opens the journal and hands every entry in it to replay.
	Open func(replay func(journal.Entry) error) (journal.Journal, error)
	// Replayed gets what each entry says of a lease, in order; it may be nil. A journal that
	// was compacted begins with a grant of each lease as it was then.
	Replayed func(*lease.Effect)
	// OpenWaiting does the same as Open with the log of waiting requests. If it is nil, whoever
	// waits loses the place when the daemon ends.
	OpenWaiting func(replay func(journal.Entry) error) (journal.Journal, error)
}

// Ledger keeps the book, writes it to the journal, and compares it with the processes and
// devices of the machine.
type Ledger struct {
	hooks   Hooks
	census  census
	journal journal.Writer
	calls   chan *call
	seat    chan struct{} // has room for one: the goroutine that fills it works on the book
	wake    chan struct{} // signals a change that may let a waiting request in
	holders holders
	clock   when.Clock   // only the goroutine in the seat asks whether it was set
	limiter fair.Limiter // keeps one user from filling the way to the clerk

	spent  sync.Pool // calls that are done
	passed sync.Pool // values of type *acquiring that are done

	// mu guards what follows. Nobody holds it while waiting for the disk, so
	// reading is always quick. Only the goroutine in the seat changes leases.
	mu sync.RWMutex
	state

	// Only the goroutine in the seat touches these.
	own      call // the call that here runs
	alarm    *time.Timer
	alarmAt  time.Time // when it rings; zero if not yet known
	entry    stored.Entry
	kept     stored.Lease // of entry
	waits    waits
	buffer   []byte
	ends     []int // of the entries in buffer
	group    [][]byte
	chosen   []string
	regained []*lease.Lease // of the batch at hand: leases that are the answers of later requests
	restless bool           // something must be tried again soon
	more     bool           // serve may grant more; see mostLooked
	refused  time.Time      // when the audit log last took nothing; zero if it has taken something since, or may

	round      round // read without mu, which a stuck clerk may hold for ever
	compacting atomic.Bool
	rewrite    atomic.Bool   // the clock was set, so that the times in the journal are not those of the book
	quiet      chan struct{} // closed when nothing is decided any more; see Quiet
	finished   chan struct{} // closed when Run is over
}

// Open reads the journal and builds the book that it describes. Run then first releases
// the leases whose holders have ended meanwhile.
func Open(o Options) (*Ledger, error) {
	boot, err := o.Processes.Boot()
	if err != nil {
		return nil, err
	}
	l := &Ledger{
		clock: o.Clock, limiter: fair.Limiter{Most: mostCalls}, census: census{Table: o.Processes, names: o.Names, boot: boot},
		calls: make(chan *call, maxBatch), seat: make(chan struct{}, 1), wake: make(chan struct{}, 1), quiet: make(chan struct{}), finished: make(chan struct{}),
		state: state{
			boot: boot, cpus: max(o.CPUs, 1), processes: o.Processes,
			settings: o.Settings, book: lease.New(), snapshot: placement.NewSnapshot(nil),
			devices: map[string]*observed{}, revoking: map[uint64]revocation{}, inUse: map[lease.Key]uint64{}, answered: map[uint64]bool{},
			waiters: map[*lease.Request]*waiter{},
		},
	}
	l.standing = kin{book: l.book, boot: boot, settings: &l.settings}
	l.round.origin = time.Now()
	l.seat <- struct{}{} // nobody works on the book before Run
	l.journal.Notify = l.hooks.noteTrouble
	l.holders = newHolders(l, o.Processes)
	if err := l.recover(&o); err != nil {
		return nil, err
	}
	l.rewrite.Store(l.book.Clamp(l.clock.Now()))
	if err := l.waits.open(o.OpenWaiting); err != nil {
		return nil, errors.Join(err, l.journal.Close())
	}
	return l, nil
}

// Configure replaces the settings. They take effect at once.
func (l *Ledger) Configure(s quota.Settings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settings = s
	for _, o := range l.devices {
		l.attribute(o) // services may recognize their processes differently now
	}
	l.recount()
	l.nudge()
}

// nudge has the clerk check whether it can grant a waiting request.
func (l *Ledger) nudge() {
	select {
	case l.wake <- struct{}{}:
	default: // the clerk is about to check anyway
	}
}

// Run works on calls until ctx ends, and then closes the journal. Leases last
// and their holders run on.
func (l *Ledger) Run(ctx context.Context) error {
	defer close(l.finished)
	defer l.round.end()
	l.round.begin()
	l.holders.keepDetached()
	l.holders.resume()
	l.putBack(l.clock.Now())
	l.clerk(ctx)
	l.holders.watches.close()
	return l.Close()
}

// Quiet returns a channel that is closed when the ledger decides nothing any more, after
// the context of Run has ended. Whoever waits then gets ErrStopped, and keeps the place
// in the log of waiting requests. A daemon that stops lets callers go only then: a
// request that is withdrawn earlier loses its place, and lets others pass.
func (l *Ledger) Quiet() <-chan struct{} { return l.quiet }

// Close closes the journal of a ledger that was opened and never run.
func (l *Ledger) Close() error { return errors.Join(l.journal.Close(), l.waits.close()) }

// journal sends an event about the journal.
func (h *Hooks) journal(severity gpu.Severity, format string, args ...any) {
	if h.Event != nil {
		h.Event(lease.Notice{Event: gpu.Event{Time: time.Now(), Code: gpu.EventJournal, Severity: severity, Text: fmt.Sprintf(format, args...)}})
	}
}

// authority shows a batch to who records acts of authority.
func (h *Hooks) authority(effects []lease.Effect, failed error) error {
	if h.Authority == nil {
		return nil
	}
	return h.Authority(effects, failed)
}

// decided reports how a request was answered.
func (h *Hooks) decided(status string, took time.Duration) {
	if h.Decided != nil {
		h.Decided(cmp.Or(status, "granted"), took)
	}
}

// state has everything that the lock of the ledger guards: the book, the devices with
// their measurements, and the snapshot that placement decides on. Its methods decide and
// change the book, and neither lock nor wait: their callers hold the lock.
type state struct {
	boot      string
	cpus      int
	processes process.Table

	settings  quota.Settings
	book      *lease.Book
	standing  kin // the leases of the book
	snapshot  *placement.Snapshot
	gate      gate            // see behind
	ahead     placement.Ahead // see front
	devices   map[string]*observed
	dirty     bool // something changed that may let a waiting request in
	stale     bool // a device is; see recharge
	unwritten bool // the audit log took nothing a moment ago: a request whose grant it has to take waits, and lets others pass
	waiters   map[*lease.Request]*waiter
	effects   []lease.Effect // of the batch at hand
	pending   []lease.Effect // the batch that is being written, if it ends leases

	revoking map[uint64]revocation // by the fence of a lease: why it is about to be revoked
	inUse    map[lease.Key]uint64  // by lease: the fence of an implied lease whose processes were measured
	answered map[uint64]bool       // by fence: a request that was made again has the lease as its answer
	past     kinship.Past          // the leases that have ended
}

// reflect updates the snapshot of placement after an effect, or with sign −1
// after its undo.
func (s *state) reflect(e *lease.Effect, sign int) {
	// Every effect changes room, shares or the queue, with few exceptions: a renewal
	// changes only a time, a due time limit changes nothing yet, and a new request can
	// let in only itself.
	s.dirty = s.dirty || e.Kind != lease.Renewed && e.Kind != lease.Asked && !e.Fleeting()
	subject := e.Lease()
	if subject == nil || e.Fleeting() {
		return
	}
	come := 0
	switch {
	case e.Before == nil:
		come = sign
	case e.After == nil:
		come = -sign
	}
	for _, p := range subject.Parts {
		s.snapshot.AddLeases(subject.Holder.Service, p.GPU, come)
		if o := s.devices[p.GPU]; o != nil && e.MovesUse() {
			if come < 0 {
				o.stale = o.stale || o.owned[subject.Key()] > 0 // the book has made that foreign
				delete(o.owned, subject.Key())
			}
			o.stale = o.stale || s.concerns(o, subject) || e.ChangesKin() && s.concerns(o, e.Before)
			s.stale = s.stale || o.stale
		}
		s.refresh(p.GPU)
	}
}
