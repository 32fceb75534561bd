// Package watchdog compares leases with the memory that their processes use, and looks
// for processes that use a device under no lease.
//
// It reports them, and ends them if the policy says so: SIGTERM, then SIGKILL, and only
// the processes of that one lease. The lease ends with them, or stays for the next ones.
//
// Measurements come in through Look, device by device. Leases returns the processes of a
// lease.
package watchdog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// The values of over_limit: what to do about a lease that uses more than it holds.
const (
	Warn   = "warn"
	Stop   = "stop"   // end its processes, and keep the lease
	Revoke = "revoke" // end its processes, and the lease
)

// The values of gpu.foreign: what to do about a process under no lease. An orphan is a
// process whose lease has ended.
const (
	Show        = "show"
	KillOrphans = "kill_orphans"
	Kill        = "kill"
)

// Stranger is a process on a device under no lease.
type Stranger struct {
	process.ID
	Name   string
	User   string
	Memory gpu.MiB
	Ended  string // the lease under which it worked until that ended, if any
	Pod    string // the UID of the Kubernetes pod that it runs in, if any
}

// Leases returns leases and their processes.
type Leases interface {
	// BeginRevoke records why a lease is going to be revoked, and which processes are
	// left alone, so that it is revoked and not released if its processes end before
	// Revoke. It returns false if the lease has ended.
	BeginRevoke(k lease.Key, fence uint64, why string, spared []string) bool
	// Scoped returns the living processes of a lease, and those that its scope names but
	// must not reach.
	Scoped(k lease.Key, fence uint64) (members, barred []process.ID)
	// Users returns the members that use the devices of the lease, and the processes that
	// these have started.
	Users(k lease.Key, fence uint64) (users, barred []process.ID)
	// Moved reports whether a former member is now under another lease.
	Moved(k lease.Key, fence uint64, member process.ID) bool
	// Leased reports whether a process is under a lease on a device.
	Leased(uuid string, id process.ID) bool
	// Revoke ends a lease. Spared describes the processes that were
	// left alone, for the event.
	Revoke(ctx context.Context, k lease.Key, fence uint64, why string, spared []string) error
}

// Processes sends signals. See process.Table.
type Processes interface {
	Signal(in kinship.Mandate, id process.ID, signal process.Signal) error
	Reach(in kinship.Mandate, ids []process.ID) (reached, spared []process.ID)
	Describe(ids []process.ID) []string
	Ended(id process.ID) bool // false also of one that cannot be looked at now
}

// Options are the parts that a Watchdog works with.
type Options struct {
	Settings  *config.Config // Configure changes them
	Leases    Leases
	Processes Processes
	Event     func(gpu.Event) // must not block
	// Record writes to the audit log that berth ends processes, before it does; it may be
	// nil. A failure to write does not stop the watchdog.
	Record func(api.AuditEntry)
	// Minds reports whether a process is a minder; it may be nil.
	Minds func(process.ID) bool
	// Astray reports whether processes of a parked lease use its device, and could not be
	// parked too, and how much of the device the lease may use then. It may be nil.
	Astray func(fence uint64) (most gpu.MiB, astray bool)
	// Faults confines a panic to the end of one lease's processes. Nil confines none.
	Faults *fault.Faults
}

// Watchdog reports processes that use more than their leases hold, and ends them if a
// policy says so.
type Watchdog struct {
	leases    Leases
	processes Processes
	event     func(gpu.Event)
	record    func(api.AuditEntry)
	minds     func(process.ID) bool
	astray    func(fence uint64) (most gpu.MiB, astray bool)
	faults    *fault.Faults
	work      chan struct{} // has room for one value, sent when todo grows

	mu       sync.Mutex // guards what follows
	settings *config.Config
	devices  map[string]*device
	halts    map[string]halted // devices that must not be used
	ending   map[any]bool      // leases, by fence, and processes that are being ended
	then     map[uint64]func() // by fence, while the users of a lease are being ended: what has to follow, with mu held; nil if nothing
	stopped  map[uint64]stopped
	ended    []Ending // whose processes were ended by a policy, the newest at the end
	todo     []func(context.Context)
}

// device holds what was noticed on one device and is not over yet.
type device struct {
	sampled   time.Time
	over      map[uint64]int // by fence: samples in a row
	strangers map[process.ID]stretch
	told      map[process.ID]bool // strangers with an event, until they end, because some come and go
}

// stretch is how long something has been seen without a break.
type stretch struct {
	samples int
	since   time.Time // of the first
}

// New returns a Watchdog. Run carries out its decisions.
func New(o Options) *Watchdog {
	if o.Record == nil {
		o.Record = func(api.AuditEntry) {}
	}
	if o.Minds == nil {
		o.Minds = func(process.ID) bool { return false }
	}
	if o.Astray == nil {
		o.Astray = func(uint64) (gpu.MiB, bool) { return 0, false }
	}
	return &Watchdog{
		astray: o.Astray, leases: o.Leases, processes: o.Processes, event: o.Event, record: o.Record, minds: o.Minds, faults: o.Faults, settings: o.Settings,
		work: make(chan struct{}, 1), devices: map[string]*device{}, halts: map[string]halted{}, ending: map[any]bool{}, then: map[uint64]func(){}, stopped: map[uint64]stopped{},
	}
}

// Configure changes the settings. They apply from the next sample on.
func (w *Watchdog) Configure(c *config.Config) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settings = c
}

// patience is how many samples in a row must show something before the watchdog
// acts on it. It reports at once: one reading may catch a moment between an
// allocation and the return of another.
const patience = 2

// joining is how long a process of a pod may be a stranger before a policy ends it. A pod
// that joins a claim that others share begins before the driver of Kubernetes knows: it
// looks every 15 s, and adds the pod to the scope of the lease.
const joining = 45 * time.Second

// Look records a measurement of a device. It ignores one that it has already seen. It
// does not block.
func (w *Watchdog) Look(on gpu.Device, now time.Time, holdings []lease.Holding, strangers []Stranger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.devices[on.UUID]
	if before == nil {
		before = &device{}
	}
	if !now.After(before.sampled) {
		return
	}
	after := &device{sampled: now, over: map[uint64]int{}, strangers: map[process.ID]stretch{}, told: map[process.ID]bool{}}
	for id := range before.told {
		if w.lives(id) {
			after.told[id] = true
		} else {
			delete(w.ending, id) // of one that could not be ended
		}
	}
	for _, h := range holdings {
		fence, leased := h.Lease.Fence, max(h.Part.Memory, h.Lease.Asked) // using what berth took away is not a violation
		if h.Lease.State == lease.Parked {
			if most, astray := w.astray(fence); astray {
				leased = most // others may have leased what it held
			}
		}
		if leased == 0 || h.Measured <= leased || w.settling(fence, now) {
			continue // leased is 0 if it holds only slots, without a limit
		}
		after.over[fence] = before.over[fence] + 1
		w.overLimit(on, now, h, leased, after.over[fence])
	}
	for _, s := range strangers {
		if !w.lives(s.ID) {
			continue // it has ended since it was measured
		}
		seen, again := before.strangers[s.ID]
		if !again {
			seen.since = now
		}
		seen.samples++
		after.strangers[s.ID] = seen
		w.foreign(on, now, s, after)
	}
	w.devices[on.UUID] = after
}

// overLimit handles a lease that has been over its limit for this many samples.
// The caller holds mu.
func (w *Watchdog) overLimit(on gpu.Device, now time.Time, h lease.Holding, leased gpu.MiB, samples int) {
	l := h.Lease
	policy := cmp.Or(w.settings.Services[l.Holder.Service].OverLimit, w.settings.GPU.OverLimit)
	if policy == Revoke && scoped(l) {
		policy = Stop
	}
	over := h.Measured - leased
	text := fmt.Sprintf("%s uses %s of %s, %s more than the %s it holds", l.ID, h.Measured.Beside(over, leased), on.Label(), over.Beside(h.Measured, leased), leased.Beside(h.Measured, over))
	if l.State == lease.Parked {
		text += " while it is parked"
	}
	if samples == 1 {
		switch policy {
		case Stop:
			text += "; berth ends its processes if that continues, and keeps the lease"
		case Revoke:
			text += "; berth revokes it if that continues"
		}
		w.event(gpu.Event{
			Time: now, Code: gpu.EventOverLimit, Severity: gpu.Warning, GPU: on.UUID, Lease: l.ID, User: l.Holder.User, Text: text,
			Data: map[string]any{
				"leased_mb": int64(leased), "measured_mb": int64(h.Measured), "over_mb": int64(over), "policy": policy, "fence": l.Fence,
			},
		})
	}
	if samples < patience {
		return
	}
	why := fmt.Sprintf("it used %s, %s more than the %s it held", h.Measured.Beside(over, leased), over.Beside(h.Measured, leased), leased.Beside(h.Measured, over))
	switch policy {
	case Stop:
		w.stopUsers(l, Ending{Fence: l.Fence, Why: why, OverLimit: true})
	case Revoke:
		w.end(l, kinship.Authority(), Ending{Fence: l.Fence, Why: why, OverLimit: true})
	}
}

// Ending says why the watchdog ends the processes of a lease.
type Ending struct {
	Fence     uint64 // of the lease
	At        time.Time
	Why       string // for people
	OverLimit bool   // they use more memory than it holds
}

// mostEndings is how many endings are remembered.
const mostEndings = 256

// noteEnding remembers that the processes of a lease are ended.
func (w *Watchdog) noteEnding(e Ending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.At = time.Now()
	w.ended = append(w.ended, e)
	w.ended = w.ended[max(len(w.ended)-mostEndings, 0):]
}

// Ended returns why the watchdog has lately ended the processes of a lease; the zero
// value means that it has not.
func (w *Watchdog) Ended(fence uint64) Ending {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range slices.Backward(w.ended) {
		if e.Fence == fence {
			return e
		}
	}
	return Ending{}
}

// scoped reports whether somebody other than its processes asked for a lease, and starts
// them again.
func scoped(l *lease.Lease) bool { return len(l.Scope) > 0 }

// foreign handles a process that runs under no lease. The caller holds mu.
func (w *Watchdog) foreign(on gpu.Device, now time.Time, s Stranger, d *device) {
	if !d.told[s.ID] {
		d.told[s.ID] = true
		w.event(foreignUse(on, now, s))
	}
	policy := w.settings.GPU.Foreign
	kill := policy == Kill || policy == KillOrphans && s.Ended != ""
	seen := d.strangers[s.ID]
	if s.Pod != "" && s.Ended == "" && now.Sub(seen.since) < joining {
		return
	}
	if kill && seen.samples >= patience && !w.ending[s.ID] {
		w.ending[s.ID] = true
		w.add(w.endStranger(on, s))
	}
}

func foreignUse(on gpu.Device, now time.Time, s Stranger) gpu.Event {
	text := fmt.Sprintf("%s uses %s of %s under no lease", s, s.Memory, on.Label())
	if s.Ended != "" {
		text += "; that of " + s.Ended + " has ended"
	}
	return s.event(on, now, gpu.Warning, text)
}

// String returns the process in the words of an event.
func (s Stranger) String() string {
	text := fmt.Sprintf("Process %d (%s", s.PID, s.Name)
	if s.User != "" {
		text += ", " + s.User
	}
	return text + ")"
}

// unnamed returns the words for readers who may not see which process it is.
func (s Stranger) unnamed() string {
	if s.User == "" {
		return "A process"
	}
	return "A process of " + s.User
}

// event returns an event about a process under no lease. Text begins with the process.
func (s Stranger) event(on gpu.Device, now time.Time, severity gpu.Severity, text string) gpu.Event {
	return gpu.Event{
		Time: now, Code: gpu.EventForeignUse, Severity: severity, GPU: on.UUID, Lease: s.Ended, User: s.User, Text: text,
		Public: s.unnamed() + strings.TrimPrefix(text, s.String()),
		Data:   map[string]any{"pid": s.PID, "name": s.Name, "user": s.User, "memory_mb": int64(s.Memory), "orphan": s.Ended != ""},
	}
}
