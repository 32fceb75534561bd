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
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device/check"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/enforce/park/hugepages"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
	"github.com/berth-gpu/berth/internal/when"
)

// Leases keeps the leases and the queue. The ledger implements it.
type Leases interface {
	// Lease returns a lease, or nil if it has ended.
	Lease(k lease.Key, fence uint64) *lease.Lease
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

// Options are the parts that a Mover works with.
type Options struct {
	Leases Leases
	// Open begins a session. Awake processes run on while their memory is away; others
	// are kept still where the driver needs it.
	Open      func(ctx context.Context, on gpu.Device, awake bool) (check.Session, error)
	Monitor   Monitor
	Pacer     *pace.Pacer // nil if nothing is paced
	Closures  *drains.Drains
	Machine   Machine
	Pages     *hugepages.Keeper // of the kernel; nil if they are left as they are
	Processes process.Table
	Publish   func(gpu.Event) // must not block
	Log       *slog.Logger

	Idle   func(fence uint64) (idle.Figures, bool) // since when a lease has not used its device; false if it uses it
	Denied func(uuid string) string                // why another daemon is in charge of a device; "" if this one is

	Path string // state file; if empty, nothing is kept
	Boot string // boot ID of this machine

	Settings *config.Config // Configure changes them
}

// Mover parks and resumes leases.
type Mover struct {
	Options
	file     *file.State[document]
	writes   shared[error]
	looks    shared[*park.Yielding]
	nudged   chan struct{} // has room for one value, sent when some lease may have to be parked
	posted   chan struct{} // has room for one value, sent when there are news
	roomLock chan struct{} // has room for one value; its sender may check whether a device has room
	working  sync.WaitGroup

	mu       sync.Mutex      // guards what follows
	running  context.Context // ends with Run; nil unless Run runs
	over     chan struct{}   // closed unless somebody attends to the inbox
	inbox    []news
	settings *config.Config
	programs Services // nil if berth runs no programs of services
	leases   map[uint64]*record
	hung     map[place]bar                 // restores that did not end
	coming   map[string]gpu.MiB            // by UUID: memory that restores take of a device, and may not have taken yet
	open     map[lease.Owner]chan struct{} // has a value for each session for the leases of an owner
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
		Options: o, file: newState(o.Path), settings: o.Settings, over: make(chan struct{}), nudged: make(chan struct{}, 1), posted: make(chan struct{}, 1), roomLock: make(chan struct{}, 1),
		leases: map[uint64]*record{}, hung: map[place]bar{}, open: map[lease.Owner]chan struct{}{}, coming: map[string]gpu.MiB{}, counts: park.NewCounts(),
	}
	close(p.over)
	return p, p.recall()
}

// Configure changes the settings.
func (p *Mover) Configure(c *config.Config) {
	p.mu.Lock()
	p.settings = c
	p.mu.Unlock()
	p.Nudge()
}

// rules returns how long the leases of a service keep their devices, and whether berth
// never makes them leave by itself. A lease of no service has the rules of the machine.
func (p *Mover) rules(service string) (r placement.Rules, stays bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.settings.Services[service]
	s := p.settings.Optimization.For(own)
	return placement.Rules{IdleAfter: s.ParkIdleAfter, Grace: s.ParkGrace, Keep: s.Keep, Slice: s.TimeSlice, Wait: s.LongestWait.Or(0)}, own.Stays == "true"
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
	s := move.Status{
		Phase: r.Phase, Since: r.Since, By: r.By, Why: r.Why, Returns: r.Phase == move.Parked && r.Returns,
		Times: r.Times, Moving: r.Moving, Ground: r.Ground, Failed: r.failed,
	}
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

// Changed takes notice of a change in the book: a lease has ended, or the book has leased
// the room of a parked lease again. It does not block.
func (p *Mover) Changed(e *lease.Effect) {
	if !e.Ends() && e.Kind != lease.Resumed {
		return
	}
	fence := e.Lease().Fence
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leases[fence] != nil { // of most leases there is nothing to know
		p.put(news{fence: fence, what: park.Changed})
	}
}

// news says that something happens to a lease.
type news struct {
	fence uint64
	what  park.What
	order *order        // if somebody wants it parked
	tell  []gpu.Event   // what people are told about it
	done  chan struct{} // closed when everything is done that follows at once; nil if nobody waits for that
}

// post hands in news. What follows is done in the order of the news. It does not block.
func (p *Mover) post(n news) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(n)
}

// put does the same for a caller who holds mu.
func (p *Mover) put(n news) {
	p.inbox = append(p.inbox, n)
	select {
	case p.posted <- struct{}{}:
	default: // attend is going to look anyway
	}
}

// await hands in news, and waits until everything is done that follows at once.
func (p *Mover) await(n news) {
	n.done = make(chan struct{})
	p.post(n)
	p.mu.Lock()
	over := p.over
	p.mu.Unlock()
	select {
	case <-n.done:
	case <-over:
	}
}

// happen does the same for what happens to a lease in the mover's own work.
func (p *Mover) happen(r *record, what park.What, tell ...gpu.Event) {
	p.await(news{fence: r.Fence, what: what, tell: tell})
}

// attend does what follows from the news, until stop is closed.
func (p *Mover) attend(stop <-chan struct{}) {
	for {
		p.mu.Lock()
		list := p.inbox
		p.inbox = nil
		p.mu.Unlock()
		for _, n := range list {
			p.follow(n)
			if n.done != nil {
				close(n.done)
			}
		}
		if len(list) > 0 {
			continue
		}
		select {
		case <-p.posted:
		case <-stop:
			return
		}
	}
}

// follow asks the table what follows from news, and does it.
func (p *Mover) follow(n news) {
	e := park.Event{What: n.what, Now: when.Now()}
	if o := n.order; o != nil {
		if err := p.accept(o); err != nil {
			p.turnDown(o, err)
			return
		}
		e.What, e.Source = park.Ordered, o.source
	}
	p.mu.Lock()
	r := p.leases[n.fence]
	p.mu.Unlock()
	if r == nil {
		return
	}
	if held := p.Leases.Lease(r.Key, r.Fence); held != nil { // mu must not be held here
		e.Book, e.ParkedAt = held.State, held.ParkedAt
	}
	p.mu.Lock()
	var acts []park.Act
	r.State, acts = park.Next(r.State, e)
	r.ended = r.ended || e.Book == ""
	r.notify()
	p.mu.Unlock()
	for _, act := range acts {
		p.do(r, act, n.tell)
	}
}

// do does something about a lease. What takes time goes on in a goroutine.
func (p *Mover) do(r *record, act park.Act, tell []gpu.Event) {
	switch act { // without mu
	case park.Tell:
		for _, e := range tell {
			p.Publish(e)
		}
		return
	case park.Write:
		_ = p.write() // write reports its errors itself; the book is right, and the next daemon goes by it
		return
	case park.Release, park.Forget:
		if r.paceless {
			r.paceless = false
			p.Pacer.Continue(r.Fence)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch act {
	case park.Depart:
		if !p.start(r, p.depart) {
			r.order.done <- ledger.ErrStopped
		}
	case park.Check:
		p.start(r, p.check)
	case park.Confine:
		p.start(r, p.takeOff)
	case park.Bring:
		p.start(r, p.bring)
	case park.Watch:
		p.start(r, p.watch)
	case park.Queue:
		p.queue(r)
	case park.Unqueue:
		if r.stopWait != nil {
			r.stopWait()
		}
	case park.Drop:
		r.Processes = nil
	case park.Forget:
		delete(p.leases, r.Fence)
	}
}

// start begins work on a lease in a goroutine that Run waits for. It returns false unless
// Run runs. The caller holds mu.
func (p *Mover) start(r *record, work func(context.Context, *record)) bool {
	ctx := p.running
	if ctx == nil || ctx.Err() != nil {
		return false
	}
	p.working.Go(func() { work(ctx, r) })
	return true
}
