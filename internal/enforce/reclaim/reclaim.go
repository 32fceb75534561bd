// Package reclaim gets memory back.
//
// An optimization goes up a ladder of six rungs: it releases what the dead
// hold, names orphans or ends them, asks programs to trim their caches, shrinks
// leases that never use what they asked for, parks idle leases, and proposes
// which lease to move for a request that waits. It measures before and after
// each rung, and says what it left alone, and why.
package reclaim

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/enforce/watchdog"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Leases knows who holds what, and who waits.
type Leases interface {
	View() ledger.View
	Find(k lease.Key) (ledger.Held, bool)
	Sums() map[string]ledger.DeviceSum
	// Unparkable says why a lease cannot or must not be parked; nil: it can.
	Unparkable(k lease.Key, fence uint64) error
	// Exited releases the leases of a process that has ended. It leaves a process
	// alone that lives, and leases that other processes use.
	Exited(id process.ID)
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
	UID int // of its user; lease.NoUID: not known
}

// Orphans finds orphans, and ends them.
type Orphans interface {
	List() []Orphan
	// End ends an orphan, and waits for its end. It leaves a process alone that
	// runs under a lease again.
	End(ctx context.Context, o Orphan, in kinship.Mandate) error
}

// Peaks remembers how much memory programs use.
type Peaks interface {
	// Most returns the most memory that a lease was measured to use on one device so
	// far, and how often it was measured.
	Most(fence uint64) (most gpu.MiB, samples int)
	Find(key peaks.Key) (peaks.Entry, bool)
}

// Shrinker makes leases smaller that get their size back when they ask for it.
type Shrinker interface {
	Shrink(ctx context.Context, k lease.Key, fence uint64, to gpu.MiB) (*lease.Lease, error)
	// Regrow gives a lease the size back that it had before Shrink. It waits for room,
	// before others are served.
	Regrow(ctx context.Context, k lease.Key, fence uint64, to gpu.MiB) error
}

// Parker moves the memory of leases to the memory of the machine.
type Parker interface {
	// ParkIdle tells the holder of a lease that it is about to be parked, and parks it
	// after a grace if it is idle still. It returns when the memory has moved.
	ParkIdle(ctx context.Context, k lease.Key, fence uint64, why string) error
	// Kept says why a lease is not parked although it is parkable; empty: it is.
	Kept(held *lease.Lease) string
}

// Options are the parts that a Reclaim works with.
type Options struct {
	Leases   Leases
	Monitor  Monitor
	Alive    func(process.ID) bool
	Orphans  Orphans
	Peaks    Peaks
	Shrinker Shrinker // nil: nothing is shrunk
	Parker   Parker   // nil: nothing is parked

	// Idle returns since when the processes of a lease do not use their device; false
	// if they do, or nobody knows. A nil function knows nothing.
	Idle func(fence uint64) (since time.Time, idle bool)

	Publish func(gpu.Event)
	Log     *slog.Logger // nil: nothing is logged

	Settings Settings
}

// Settings can be changed while optimizations run.
type Settings struct {
	Interval    time.Duration // from one optimization by itself to the next
	Threshold   float64       // the share of its memory above which a device is optimized by itself
	EndOrphans  bool          // orphans are ended; false: they are named
	TrimTimeout time.Duration // how long to wait for programs that are asked for memory
	IdleAfter   time.Duration // how long a lease must be idle before it is parked
	Keep        time.Duration // how long a lease keeps its size and its device at least

	// Service returns what is configured for a service; false: nothing is.
	Service func(name string) (Service, bool)
}

// Service says what may be done to the leases of a service.
type Service struct {
	Shrinkable bool
	Parkable   gpu.Opt[bool] // absent: as the request of a lease says
	MinMemory  gpu.MiB       // no lease is made smaller
}

// The rungs, in their order.
const (
	Dead     = "dead"
	Orphaned = "orphans"
	Trim     = "trim"
	Shrink   = "shrink"
	Park     = "park"
	Moving   = "move"
)

// Rungs lists the names of the rungs in their order.
func Rungs() []string { return []string{Dead, Orphaned, Trim, Shrink, Park, Moving} }

// Reclaim gets memory back: when somebody asks for it, and by itself.
type Reclaim struct {
	Options
	running chan struct{} // has room for one: the optimization that runs
	changed chan struct{} // the settings have changed; has room for one
	woken   chan struct{} // a lease is to get its size back; has room for one

	mu       sync.Mutex // guards what follows
	settings Settings
	asking   map[lease.Owner]bool // whose optimization runs, or waits
	counts   Counts
	growing  map[uint64]bool // by fence: leases that are to get their size back
	grown    []*lease.Lease  // those of them that Run has not taken yet
}

// Counts says what optimizations did since the daemon started.
type Counts struct {
	Runs  uint64             // optimizations that were more than a dry run
	Freed map[string]gpu.MiB // by rung; what a rung called shrink or move freed can be leased
}

// New returns a Reclaim with these parts.
func New(o Options) *Reclaim {
	if o.Idle == nil {
		o.Idle = func(uint64) (time.Time, bool) { return time.Time{}, false }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Reclaim{Options: o, settings: o.Settings, running: make(chan struct{}, 1), changed: make(chan struct{}, 1), woken: make(chan struct{}, 1), growing: map[uint64]bool{}, asking: map[lease.Owner]bool{}}
	r.counts.Freed = map[string]gpu.MiB{}
	for _, rung := range Rungs() {
		r.counts.Freed[rung] = 0
	}
	return r
}

// Configure changes the settings. An optimization that runs keeps those that it
// began with.
func (r *Reclaim) Configure(s Settings) {
	r.mu.Lock()
	r.settings = s
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default: // Run is about to look anyway
	}
}

func (r *Reclaim) now() Settings {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settings
}

// Counts returns what optimizations did since the daemon started.
func (r *Reclaim) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := Counts{Runs: r.counts.Runs, Freed: map[string]gpu.MiB{}}
	for rung, freed := range r.counts.Freed {
		c.Freed[rung] = freed
	}
	return c
}

// Run optimizes the devices that are fuller than the threshold, once per interval,
// and gives shrunk leases their size back when they need it, until ctx ends. While
// there is nothing to do, it costs nothing.
func (r *Reclaim) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { r.regrow(ctx) })
	last := time.Now()
	for {
		s := r.now()
		timer := time.NewTimer(time.Until(last.Add(s.Interval)))
		select {
		case <-timer.C:
		case <-r.changed:
			timer.Stop()
			continue
		case <-ctx.Done():
			timer.Stop()
			return
		}
		last = time.Now()
		full := r.fuller(s.Threshold)
		if len(full) == 0 || !r.Monitor.Running() {
			continue
		}
		if _, err := r.optimize(ctx, access.Daemon(), Request{GPUs: full}); err != nil && ctx.Err() == nil {
			r.Log.Warn("an optimization failed", "error", err)
		}
	}
}

// fuller returns the devices of whose memory a larger share is in use than the
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
