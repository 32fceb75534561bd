// Package mover parks and resumes leases: it does what the rules in package park say.
//
// Whatever happens to a lease is an event. A Mover asks the table what follows, and does
// it: it moves the memory of processes with a driver, writes the file, changes the book,
// waits for turns, and tells people. What comes of that are further events.
package mover

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/check"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Leases keeps the leases and the queue. The ledger implements it.
type Leases interface {
	Find(k lease.Key) (ledger.Held, bool)
	View() ledger.View
	// Len returns the number of leases and of waiting requests.
	Len() (leases, waiting int)
	Sums() map[string]ledger.DeviceSum
	// Members lists the processes that berth may act on for a lease.
	Members(k lease.Key, fence uint64) []process.ID
	// ParkMandate returns in whose name an actor parks a lease.
	ParkMandate(k lease.Key, by access.Actor) kinship.Mandate
	// Processes lists the processes that were last seen on a device.
	Processes(uuid string) []ledger.Process
	// Unshared reports whether the owner or the service of a lease says that its
	// processes share no memory of a device.
	Unshared(held *lease.Lease) bool
	// Unparkable returns why a lease cannot be parked, or nil if it can.
	Unparkable(k lease.Key, fence uint64) error
	// Park notes that the memory of a lease has left its device.
	Park(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string) (*lease.Lease, error)
	// Return leases the room of a parked lease again, when its turn comes. It waits in
	// the queue as if since the given time, for as long as wait says, or until ctx ends
	// if wait is absent.
	Return(ctx context.Context, k lease.Key, fence uint64, by access.Actor, why string, since time.Time, wait gpu.Opt[time.Duration]) (*lease.Lease, error)
	// FindWaiting returns a request that waits, and false if it does not wait.
	FindWaiting(k lease.Key) (r *lease.Request, position int, waits bool)
	// Queue returns the holdings and the wants.
	Queue() placement.Pressure
}

// Monitor measures devices.
type Monitor interface {
	// Read samples a device now. When it returns, the book knows the sample.
	Read(ctx context.Context, uuid string)
	Find(ref string) (monitor.Reading, bool)
}

// Settings can change while a Mover works.
type Settings struct {
	park.Rules
	Host gpu.Opt[gpu.MiB] // most memory of the machine that parked leases take together; half of it if absent
}

// Options are the parts that a Mover works with.
type Options struct {
	Leases Leases
	// Open begins a session. Awake processes run on while their memory is away; others
	// are kept still where the driver needs it.
	Open      func(ctx context.Context, on gpu.Device, awake bool) (check.Session, error)
	Monitor   Monitor
	Pacer     *pace.Pacer    // nil if nothing is paced
	Closures  *drains.Drains // nil if nothing closes devices
	Machine   Machine
	Processes process.Table
	Publish   func(gpu.Event) // must not block
	Log       *slog.Logger

	Idle   func(fence uint64) (since time.Time, idle bool) // nil if idleness is not measured
	Denied func(uuid string) string                        // why another daemon is in charge of a device; nil or "" if this one is

	Path string // state file; if empty, nothing is kept
	Boot string // boot ID of this machine

	Settings Settings
}

// Mover parks and resumes leases.
type Mover struct {
	Options
	nudged   chan struct{} // has room for one value, sent when some lease may have to be parked
	roomLock chan struct{} // has room for one value; its sender may check whether a device has room
	working  sync.WaitGroup

	mu       sync.Mutex      // guards what follows
	running  context.Context // ends with Run; nil unless Run runs
	settings Settings
	leases   map[uint64]*record
	warned   map[uint64]time.Time
	barred   map[uint64]bar
	hung     map[place]bar       // restores that did not end
	coming   map[string]gpu.MiB  // by UUID: memory that restores take of a device, and may not have taken yet
	open     map[lease.Owner]int // number of sessions for the leases of an owner
	wakes    map[uint64]bool     // by fence: a program of the lease has asked to be woken, so it has to run on while the lease is parked
	counts   park.Counts
	damaged  bool // the file could not be read, and not every lease has been asked about since

	recovered bool // every lease of an earlier daemon is known
}

// bar keeps berth from repeating what could not be done: to park a lease by itself, or to
// close a device for an owner.
type bar struct {
	until time.Time
	times int
}

// New returns a Mover that knows the leases parked by an earlier daemon. Run carries on
// with them.
func New(o Options) (*Mover, *file.Damage) {
	p := &Mover{
		Options: o, settings: o.Settings, nudged: make(chan struct{}, 1), roomLock: make(chan struct{}, 1),
		leases: map[uint64]*record{}, warned: map[uint64]time.Time{}, barred: map[uint64]bar{}, hung: map[place]bar{}, open: map[lease.Owner]int{}, coming: map[string]gpu.MiB{}, wakes: map[uint64]bool{}, counts: park.NewCounts(),
	}
	if p.Denied == nil {
		p.Denied = func(string) string { return "" }
	}
	if p.Idle == nil {
		p.Idle = func(uint64) (time.Time, bool) { return time.Time{}, false }
	}
	return p, p.recall()
}

// Configure changes the settings.
func (p *Mover) Configure(s Settings) {
	p.mu.Lock()
	p.settings = s
	p.mu.Unlock()
	p.Nudge()
}

// rules returns the settings.
func (p *Mover) rules() park.Rules {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings.Rules
}

// Nudge makes Run check whether a lease has to be parked. It does not block. It has to be
// called when a request begins to wait, and when a lease changes while one waits.
func (p *Mover) Nudge() {
	select {
	case p.nudged <- struct{}{}:
	default: // Run is going to look anyway
	}
}

// Of returns where the memory of a lease is, and false if the lease was never parked.
func (p *Mover) Of(fence uint64) (move.Status, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.leases[fence]
	if r == nil || r.Times == 0 && r.Phase == "" && r.failed == "" && r.Moving == 0 {
		return move.Status{}, false
	}
	s := move.Status{Phase: r.Phase, Since: r.Since, By: r.By, Why: r.Why, Source: r.Source, Returns: r.Phase == move.Parked && r.Returns, Times: r.Times, Moving: r.Moving, Ground: r.Ground, Failed: r.failed}
	if r.Phase != "" {
		s.Host = memory(r.Processes)
	}
	return s, true
}

// Counts returns the numbers as they are now.
func (p *Mover) Counts() park.Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts
	c.Moved, c.Took, c.Failures = maps.Clone(c.Moved), maps.Clone(c.Took), maps.Clone(c.Failures)
	for _, r := range p.leases {
		if r.Phase == move.Parked {
			c.Parked++
		}
		if r.Phase != "" {
			c.Host += memory(r.Processes)
		}
	}
	return c
}

// Returned notes that the book has leased the room of a parked lease again. It does
// not block.
func (p *Mover) Returned(l *lease.Lease) { p.later(l.Fence) }

// Ended notes that a lease has ended. It does not block.
func (p *Mover) Ended(fence uint64) {
	p.mu.Lock()
	delete(p.wakes, fence)
	p.mu.Unlock()
	p.later(fence)
}

// later looks at a lease soon, outside the goroutine that works on the book.
func (p *Mover) later(fence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.warned, fence)
	if r := p.leases[fence]; r != nil {
		p.start(func(context.Context) { p.happen(r, park.Changed) })
		return
	}
	delete(p.barred, fence)
}

// find returns the lease with this key and fence, or nil.
func (p *Mover) find(k lease.Key, fence uint64) *lease.Lease {
	held, found := p.Leases.Find(k)
	if !found || held.Fence != fence {
		return nil
	}
	return held.Lease
}

// happen asks the table what follows from something that happens to a lease, and does it.
// Tell is what people are told about it, if anything.
func (p *Mover) happen(r *record, what park.What, tell ...gpu.Event) {
	r.turn.Lock()
	defer r.turn.Unlock()
	p.decide(r, park.Event{What: what}, tell...)
}

// decide does the same for an event that may say more. The caller holds the turn of the
// lease, so that what has to be done about it is done in order.
func (p *Mover) decide(r *record, e park.Event, tell ...gpu.Event) {
	e.Now = time.Now()
	if held := p.find(r.Key, r.Fence); held != nil { // mu must not be held here
		e.Book, e.ParkedAt = held.State, held.ParkedAt
	}
	p.mu.Lock()
	var acts []park.Act
	r.State, acts = park.Next(r.State, e)
	r.ended = r.ended || e.Book == ""
	r.notify()
	p.mu.Unlock()
	for _, act := range acts {
		p.do(r, act, tell)
	}
}

// do does something about a lease. What takes time goes on in a goroutine.
func (p *Mover) do(r *record, act park.Act, tell []gpu.Event) {
	switch act { // without mu
	case park.Tell:
		for _, e := range tell {
			p.Publish(e)
		}
	case park.Release, park.Forget:
		p.unsuspend(r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch act {
	case park.Depart:
		if !p.start(func(ctx context.Context) { p.depart(ctx, r) }) {
			r.order.done <- ledger.ErrStopped
		}
	case park.Check:
		p.start(func(ctx context.Context) { p.check(ctx, r) })
	case park.Confine:
		p.start(func(ctx context.Context) { p.takeOff(ctx, r) })
	case park.Bring:
		p.start(func(ctx context.Context) { p.bring(ctx, r) })
	case park.Watch:
		p.start(func(ctx context.Context) { p.watch(ctx, r) })
	case park.Queue:
		p.queue(r)
	case park.Unqueue:
		if r.stopWait != nil {
			r.stopWait()
		}
	case park.Drop:
		r.Processes = nil
	case park.Write:
		_ = p.write() // write reports its errors itself; the book is right, and the next daemon goes by it
	case park.Forget:
		delete(p.leases, r.Fence)
		delete(p.barred, r.Fence)
		delete(p.warned, r.Fence)
		_ = p.write() // as above
	}
}

// start runs do in a goroutine that Run waits for. It returns false unless Run runs. The
// caller holds mu.
func (p *Mover) start(do func(ctx context.Context)) bool {
	ctx := p.running
	if ctx == nil || ctx.Err() != nil {
		return false
	}
	p.working.Go(func() { do(ctx) })
	return true
}
