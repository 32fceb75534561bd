// Package park parks and resumes leases: it moves the memory of their processes to the
// memory of the machine, and back.
//
// Rules without a clock decide which step follows from the states that the driver reports
// (Next), whose turn it is where several leases do not fit together (Turn), and who lets
// others go first (Yields). A Parker asks them, and a Session takes the steps.
//
// The book is right, and the processes have to follow it. A lease is active in the book
// until the memory of all its processes has left the device. Only then the book notes
// that it is parked, and others can have the room. It is active in the book again, with
// its room leased, before any memory moves back. A file says which processes may be away.
// So a daemon that is killed between any two lines leaves the next one the book, the file
// and the states that the driver reports, and the next one goes on from there.
package park

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/file"
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

// Session takes steps on processes of one device.
type Session interface {
	// States returns the states of processes, in their order.
	States(ctx context.Context, ids []move.Process) ([]move.Outcome, error)
	// Do takes a step on all processes at once. An error means that the result is not
	// known, and that the session is over.
	Do(ctx context.Context, step move.Step, ids []move.Process) ([]move.Outcome, error)
	// Close ends the session. It does not wait for a step in progress.
	Close() error
}

// Monitor measures devices.
type Monitor interface {
	// Read samples a device now. When it returns, the book knows the sample.
	Read(ctx context.Context, uuid string)
	Find(ref string) (monitor.Reading, bool)
}

// Pacer stops and continues processes in cycles.
type Pacer interface {
	// Suspend lets the processes of a lease run on until release is called.
	Suspend(fence uint64) (release func())
}

// Closures closes devices to new leases.
type Closures interface {
	Hold(uuid, why string) (release func(), err error)
}

// Host is the memory of the machine.
type Host interface {
	// Memory returns how much memory the machine has, and how much of it programs can get
	// without swapping.
	Memory() (total, available gpu.MiB, err error)
	// Group returns how much more memory the control groups of processes let them have,
	// or absent if there is no limit.
	Group(ids []move.Process) gpu.Opt[gpu.MiB]
}

// Settings can change while a Parker works.
type Settings struct {
	Rules
	Host gpu.Opt[gpu.MiB] // most memory of the machine that parked leases take together; half of it if absent
}

// Options are the parts that a Parker works with.
type Options struct {
	Leases Leases
	// Open begins a session. Awake processes run on while their memory is away; others
	// are kept still where the driver needs it.
	Open      func(ctx context.Context, on gpu.Device, awake bool) (Session, error)
	Monitor   Monitor
	Pacer     Pacer    // nil if nothing is paced
	Closures  Closures // nil if nothing closes devices
	Host      Host
	Processes process.Table
	Settings  func() Settings
	Publish   func(gpu.Event) // must not block
	Log       *slog.Logger

	Idle   func(fence uint64) (since time.Time, idle bool) // nil if idleness is not measured
	Denied func(uuid string) string                        // why another daemon is in charge of a device; nil or "" if this one is

	Path string // state file; if empty, nothing is kept
	Boot string // boot ID of this machine
}

// Parker parks and resumes leases.
type Parker struct {
	Options
	nudged   chan struct{} // has room for one value, sent when some lease may have to be parked
	roomLock chan struct{} // has room for one value; its sender may check whether a device has room
	working  sync.WaitGroup

	mu      sync.Mutex      // guards what follows
	running context.Context // ends with Run; nil unless Run runs
	leases  map[uint64]*parked
	warned  map[uint64]time.Time
	barred  map[uint64]bar
	hung    map[place]bar       // restores that did not end
	coming  map[string]gpu.MiB  // by UUID: memory that restores take of a device, and may not have taken yet
	open    map[lease.Owner]int // number of sessions for the leases of an owner
	wakes   map[uint64]bool     // by fence: a program of the lease has asked to be woken, so it has to run on while the lease is parked
	counts  Counts
	damaged bool // the file could not be read, and not every lease has been asked about since
}

// bar keeps berth from repeating what could not be done: to park a lease by itself, or to
// close a device for an owner.
type bar struct {
	until time.Time
	times int
}

// New returns a Parker that knows the leases parked by an earlier daemon. Run carries on
// with them.
func New(o Options) (*Parker, *file.Damage) {
	p := &Parker{
		Options: o, nudged: make(chan struct{}, 1), roomLock: make(chan struct{}, 1),
		leases: map[uint64]*parked{}, warned: map[uint64]time.Time{}, barred: map[uint64]bar{}, hung: map[place]bar{}, open: map[lease.Owner]int{}, coming: map[string]gpu.MiB{}, wakes: map[uint64]bool{}, counts: newCounts(),
	}
	if p.Denied == nil {
		p.Denied = func(string) string { return "" }
	}
	if p.Idle == nil {
		p.Idle = func(uint64) (time.Time, bool) { return time.Time{}, false }
	}
	return p, p.recall()
}

// Nudge makes Run check whether a lease has to be parked. It does not block. It has to be
// called when a request begins to wait, and when a lease or a setting changes while one
// waits.
func (p *Parker) Nudge() {
	select {
	case p.nudged <- struct{}{}:
	default: // Run is going to look anyway
	}
}

// Of returns where the memory of a lease is, and false if the lease was never parked.
func (p *Parker) Of(fence uint64) (move.Status, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.leases[fence]
	if r == nil || r.Times == 0 && r.Phase == "" && r.failed == "" && r.Moving == 0 {
		return move.Status{}, false
	}
	s := move.Status{Phase: r.Phase, Since: r.Since, By: r.By, Why: r.Why, Source: r.Source, Returns: r.Phase == move.Parked && r.Returns, Times: r.Times, Moving: r.Moving, Ground: r.Ground, Failed: r.failed}
	if r.Phase != "" {
		s.Host = r.host()
	}
	return s, true
}

// find returns the lease with this key and fence, or nil.
func (p *Parker) find(k lease.Key, fence uint64) *lease.Lease {
	held, found := p.Leases.Find(k)
	if !found || held.Fence != fence {
		return nil
	}
	return held.Lease
}

// start runs do in a goroutine that Run waits for. It returns false unless Run runs. The
// caller holds mu.
func (p *Parker) start(do func(ctx context.Context)) bool {
	ctx := p.running
	if ctx == nil || ctx.Err() != nil {
		return false
	}
	p.working.Go(func() { do(ctx) })
	return true
}
