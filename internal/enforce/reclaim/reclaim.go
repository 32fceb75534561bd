// Package reclaim gets memory back.
//
// An optimization goes up a ladder of six rungs: it releases the leases of dead
// processes, names orphans or ends them, asks programs to trim their caches, shrinks
// leases that never use what they asked for, parks idle leases, and proposes which lease
// to move for a request that waits. It measures before and after each rung, and reports
// what it left alone, and why.
package reclaim

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/enforce/idle"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Leases returns leases and waiting requests.
type Leases interface {
	View() ledger.View
	Find(k lease.Key) (ledger.Held, bool)
	Sums() map[string]ledger.DeviceSum
	// Unparkable returns why a lease cannot or must not be parked, or nil if it can.
	Unparkable(k lease.Key, fence uint64) error
	// Exited releases the leases of a process that has ended. It does nothing if the
	// process lives, and keeps leases that other processes use.
	Exited(id process.ID)
	Shrink(ctx context.Context, k lease.Key, fence uint64, to gpu.MiB) (*lease.Lease, error)
	// Regrow gives a lease the size back that it had before Shrink. It waits for room,
	// ahead of other requests.
	Regrow(ctx context.Context, k lease.Key, fence uint64, to gpu.MiB) error
}

// Monitor measures devices.
type Monitor interface {
	Running() bool
	// Read samples a device now. When it returns, the book knows the sample.
	Read(ctx context.Context, uuid string)
	Readings() []monitor.Reading
}

// Orphan is a process that goes on using a device after its lease has ended.
type Orphan struct {
	watchdog.Stranger
	On  gpu.Device
	UID int // of its user; lease.NoUID if not known
}

// Orphans finds orphans, and ends them.
type Orphans interface {
	List() []Orphan
	// End ends an orphan, and waits until it has ended. It leaves alone a process that
	// runs under a lease again.
	End(ctx context.Context, o Orphan, in kinship.Mandate) error
}

// Parker moves the memory of leases to the memory of the machine.
type Parker interface {
	// ParkIdle warns the holder of a lease that it is about to be parked, and parks it
	// after a grace if it is still idle. It returns when the memory has moved.
	ParkIdle(ctx context.Context, k lease.Key, fence uint64, why string) error
	// Kept returns why a parkable lease is not parked, or "" if it is.
	Kept(held *lease.Lease) string
}

// Options are the parts that a Reclaim works with.
type Options struct {
	Leases    Leases
	Monitor   Monitor
	Processes process.Table
	Orphans   Orphans
	Peaks     *peaks.Peaks
	Parker    Parker

	// Idle returns since when the processes of a lease have not used their device. It
	// returns false if they use it, or if that is not known.
	Idle func(fence uint64) (idle.Figures, bool)

	// Program returns the service whose program berth runs under a lease, or "" if berth
	// runs none, and how long the service takes to stop and to start, or 0 if that was
	// never measured.
	Program func(k lease.Key) (service string, takes time.Duration)

	Publish func(gpu.Event)
	Log     *slog.Logger  // nil if nothing is logged
	Faults  *fault.Faults // confines a panic to what is done to one lease; nil confines none

	Settings *config.Config // Configure changes them
}

// The rungs.
const (
	Dead     = "dead"
	Orphaned = "orphans"
	Trim     = "trim"
	Shrink   = "shrink"
	Park     = "park"
	Moving   = "move"
)

// rungs are the rungs in their order.
var rungs = []struct {
	name string
	text string // in an event
	do   func(*climb, context.Context) (done, left []api.RungStep)
}{
	{Dead, "releasing what the dead hold", (*climb).dead},
	{Orphaned, "looking for orphans", (*climb).orphans},
	{Trim, "asking programs for memory that they keep for later", (*climb).trim},
	{Shrink, "shrinking leases", (*climb).shrink},
	{Park, "parking idle leases", (*climb).park},
	{Moving, "looking for leases to move", (*climb).move},
}

// Reclaim gets memory back, on request and by itself.
type Reclaim struct {
	Options
	running chan struct{} // has room for one: the running optimization
	turn    chan struct{} // has room for one: the optimization of a user that is next
	changed chan struct{} // has room for one value, sent when the settings have changed
	woken   chan struct{} // has room for one value, sent when a lease is to get its size back
	ranOut  chan struct{} // has room for one value, sent when the memory of a device has run out

	mu       sync.Mutex // guards what follows
	settings *config.Config
	asking   map[lease.Owner]bool // users whose optimization runs or waits
	dry      map[lease.Owner]bool // users whose dry run runs
	counts   Counts
	growing  map[uint64]bool // by fence: leases that are to get their size back
	grown    []*lease.Lease  // leases in growing that Run has not taken yet
	full     map[string]fullness
}

// fullness is the memory of a device that has run out before.
type fullness struct {
	due      bool      // whether Run has to do something about it
	relieved time.Time // when Run last did
}

// calm is how long after one relief of a device the next one is, at least: what programs
// kept for later, they have given back.
const calm = time.Minute

// Counts says what optimizations have done since the daemon started.
type Counts struct {
	Runs  uint64             // optimizations without dry runs
	Freed map[string]gpu.MiB // by rung; for shrink and move, memory that can now be leased
}

// New returns a Reclaim with these parts.
func New(o Options) *Reclaim {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Program == nil {
		o.Program = func(lease.Key) (string, time.Duration) { return "", 0 }
	}
	r := &Reclaim{Options: o, settings: o.Settings, running: make(chan struct{}, 1), turn: make(chan struct{}, 1), changed: make(chan struct{}, 1), woken: make(chan struct{}, 1), ranOut: make(chan struct{}, 1), full: map[string]fullness{}, growing: map[uint64]bool{}, asking: map[lease.Owner]bool{}, dry: map[lease.Owner]bool{}}
	r.counts.Freed = map[string]gpu.MiB{}
	for _, rung := range rungs {
		r.counts.Freed[rung.name] = 0
	}
	return r
}

// Configure changes the settings. A running optimization keeps the settings that it began
// with.
func (r *Reclaim) Configure(c *config.Config) {
	r.mu.Lock()
	r.settings = c
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default: // Run is about to look anyway
	}
}

func (r *Reclaim) now() *config.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settings
}

// Counts returns what optimizations have done since the daemon started.
func (r *Reclaim) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Counts{Runs: r.counts.Runs, Freed: maps.Clone(r.counts.Freed)}
}

// Run optimizes the devices that are fuller than the threshold, once per interval, and
// relieves those whose memory runs out at once. It gives shrunk leases their size back
// when they need it. It ends with ctx. While there is nothing to do, it costs nothing.
func (r *Reclaim) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { r.regrow(ctx) })
	last := time.Now()
	for {
		set := r.now().Optimization
		select {
		case <-time.After(time.Until(last.Add(set.Interval))):
		case <-r.changed:
			continue
		case <-r.ranOut:
			r.relieve(ctx)
			continue
		case <-ctx.Done():
			return
		}
		last = time.Now()
		full := r.fuller(set.MemoryThreshold)
		if len(full) == 0 || !r.Monitor.Running() {
			continue
		}
		if _, err := r.optimize(ctx, access.Daemon(), api.Optimize{}, full, nil); err != nil && ctx.Err() == nil {
			r.Log.Warn("an optimization failed", "error", err)
		}
	}
}

// fuller returns the devices that have a larger share of their memory in use than the
// threshold.
func (r *Reclaim) fuller(threshold float64) (list []string) {
	for _, reading := range r.Monitor.Readings() {
		used, measured := reading.Sample.MemoryUsed.Get()
		total := reading.Device.MemoryTotal
		if measured && total > 0 && reading.State != gpu.Unavailable && float64(used) > threshold*float64(total) {
			list = append(list, reading.Device.UUID)
		}
	}
	return list
}

// Full takes notice of whether the memory of a device is out, with each sample of it. While
// it is, Run releases what the dead hold there, and asks programs to trim their caches,
// without waiting for the interval, until that succeeds, and once per calm. Full does not
// block.
func (r *Reclaim) Full(uuid string, out bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.full[uuid]
	if !out || !f.relieved.IsZero() && now.Sub(f.relieved) < calm {
		return
	}
	f.due = true
	r.full[uuid] = f
	select {
	case r.ranOut <- struct{}{}:
	default: // Run is about to look anyway
	}
}

// relieve goes up the first rungs for the devices whose memory has run out: those that
// take nothing from anybody.
func (r *Reclaim) relieve(ctx context.Context) {
	var gpus []string
	r.mu.Lock()
	for uuid, f := range r.full {
		if f.due {
			gpus = append(gpus, uuid)
		}
	}
	r.mu.Unlock()
	if len(gpus) == 0 || !r.Monitor.Running() {
		return
	}
	if _, err := r.optimize(ctx, access.Daemon(), api.Optimize{}, gpus, nil, Dead, Trim); err != nil {
		if ctx.Err() == nil {
			r.Log.Warn("memory ran out, and getting some back failed", "error", err)
		}
		return // it stays due, and the next sample wakes Run
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, uuid := range gpus {
		r.full[uuid] = fullness{relieved: time.Now()}
	}
}
