// Package pace holds leases to a share of their devices, without the help of their
// programs: it stops and continues their processes in short cycles.
//
// A Controller decides how long each cycle is, and a Pacer carries it out.
//
// The daemon stops nothing itself. A guardian does, a separate process (see Guard): if
// the daemon is killed, the guardian continues everything at once. If the guardian is
// killed, the daemon does. If both are killed at the same moment, the next daemon reads
// from a file which processes may be stopped, and continues them.
package pace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// Leases returns leases and their processes.
type Leases interface {
	// Lease returns a lease, or nil if it has ended.
	Lease(k lease.Key, fence uint64) *lease.Lease
	// Family returns the living processes of a lease and of its children.
	Family(k lease.Key, fence uint64) []process.ID
	// Renew restarts the time to live of a lease, if it has one. A ttl of 0 means the one
	// that it was granted with.
	Renew(ctx context.Context, name lease.Name, fence uint64, ttl time.Duration, by access.Actor, limits *lease.Limits) (*lease.Lease, error)
}

// Devices calls a device while nobody else asks it. A monitor implements it.
type Devices interface {
	Do(ctx context.Context, uuid string, do func(context.Context, device.Device) error) error
}

// Options are the parts that a Pacer works with.
type Options struct {
	Leases  Leases
	Devices Devices
	Event   func(gpu.Event) // must not block
	Log     *slog.Logger

	Guardian []string // the command that runs Guard; if empty, nothing can be paced
	Path     string   // state file; if empty, nothing is kept
	Boot     string   // boot ID of this machine; empty if not known

	// Denied returns why another daemon is in charge of a device, or "" if this one is.
	// Nil means that this daemon is in charge of all devices.
	Denied func(uuid string) string
}

// Source says who holds a lease to a share. Several sources may hold a lease; then the
// least share counts.
type Source string

// The sources.
const (
	ByOwner    Source = "owner"    // the owner of the lease
	ByOperator Source = "operator" // an operator
	ByThrottle Source = "throttle" // the policy of the device
	ByService  Source = "service"  // the setting compute of its service
)

// sources lists all of them.
func sources() []Source { return []Source{ByOwner, ByOperator, ByThrottle, ByService} }

// fromSettings reports whether the settings are the source. Whoever carries them out asks
// again after a restart, so that such a hold is not kept.
func (s Source) fromSettings() bool { return s == ByThrottle || s == ByService }

// Hold is a share that somebody holds a lease to.
type Hold struct {
	Key    lease.Key `json:"key"`
	Fence  uint64    `json:"fence"`
	Share  float64   `json:"share"` // from 0 to 1
	Source Source    `json:"source"`
	By     gpu.By    `json:"by,omitzero"`
	Why    string    `json:"why,omitempty"` // follows a colon
	GPU    string    `json:"gpu,omitempty"` // UUID of the device that is the reason, if any
}

// mandate returns in whose name the processes of a lease are stopped.
func (h *Hold) mandate(l *lease.Lease) kinship.Mandate {
	switch h.Source {
	case ByOwner:
		return kinship.OfUser(l.Holder.UID)
	case ByOperator, ByThrottle, ByService:
		return kinship.Authority()
	}
	return kinship.Mandate{}
}

// Paced is a lease that is held to a share.
type Paced struct {
	Key      lease.Key
	Fence    uint64
	Holds    []Hold // the least share first
	Since    time.Time
	Measured Measure
	Cycles   int    // cycles with a pause since the share changed
	Refused  string // why its processes are not stopped; empty if they are

	ended Hold // the hold that was ended last, with who ended it
}

// Share returns the share that counts.
func (p *Paced) Share() float64 { return p.Holds[0].Share }

// RefusedError says why a lease is not paced.
type RefusedError struct {
	ID     string
	Why    string
	Denied bool // a daemon with more rights could do it
}

func (e *RefusedError) Error() string { return fmt.Sprintf("pace %s: %s", e.ID, e.Why) }

// Pacer holds leases to their shares.
type Pacer struct {
	Options
	file   *file.State[kept]
	table  process.Table
	guard  connection
	saving sync.Mutex // held while the file is written; before mu

	mu        sync.Mutex // guards what follows
	leases    map[uint64]*paced
	meters    map[string]*meter     // by UUID
	stopped   map[process.ID]uint64 // processes that may be stopped, as in the file, and for which lease; 0 if an earlier daemon stopped them
	stale     bool                  // the last write failed, so the file may name processes that run
	owed      []process.ID          // those of them that could not be continued, and will be tried again
	suspended map[uint64]int        // by fence: how many callers of Suspend need the processes of the lease to run
	begin     func(*paced)          // starts the cycles of a lease; nil unless Run runs
	woken     chan struct{}         // has room for one value, sent when Run has something to do
}

// New returns a Pacer. It reads its file, continues the processes that an earlier daemon
// left stopped, and restores the shares that people set. Run carries out the cycles.
func New(o Options) (*Pacer, *file.Damage) {
	p := &Pacer{Options: o, file: newState(o.Path), table: process.Proc(), leases: map[uint64]*paced{}, meters: map[string]*meter{}, stopped: map[process.ID]uint64{}, suspended: map[uint64]int{}, woken: make(chan struct{}, 1)}
	p.guard.pacer = p
	return p, p.file.Load(p.take)
}

// Hold holds a lease to a share, or changes its share. It returns an error if the
// processes of the lease must not be stopped, for settings only if they never may.
func (p *Pacer) Hold(h Hold) error {
	held := p.Leases.Lease(h.Key, h.Fence)
	if err := p.refuse(held, h); err != nil {
		if why := (*RefusedError)(nil); h.Source == ByService && errors.As(err, &why) {
			p.Event(refusedEvent(held, h, why.Why)) // nobody waits for the answer
		}
		return err
	}
	members, spared := p.table.Reach(h.mandate(held), p.Leases.Family(h.Key, h.Fence))
	if len(members) == 0 && len(spared) > 0 && !h.Source.fromSettings() {
		err := &RefusedError{ID: h.Key.ID, Why: othersText}
		p.Event(lease.Sparing(refusedEvent(held, h, err.Why), p.table.Describe(spared)))
		return err
	}
	refused := p.denied(held) // for settings alone: others are turned away by then
	for _, id := range members {
		if err := stoppable(p.table, id); err != nil && !errors.Is(err, errLeave) {
			refused = cmp.Or(refused, err.Error())
			if !h.Source.fromSettings() {
				p.Event(refusedEvent(held, h, refused))
				return &RefusedError{ID: h.Key.ID, Why: refused, Denied: errors.Is(err, ErrDenied)}
			}
			break
		}
	}
	var before, now float64
	take := func() {
		l := p.leases[h.Fence]
		if l == nil {
			l = newPaced(h)
			p.leases[h.Fence] = l
			if p.begin != nil {
				p.begin(l)
			}
		}
		before = l.share()
		l.hold(h)
		l.spares(spared)
		if now = l.share(); before == 1 || refused == "" {
			l.refuses(refused) // until a cycle finds that it can be stopped
		}
	}
	if h.Source.fromSettings() {
		p.mu.Lock()
		take()
		p.mu.Unlock()
	} else if err := p.write(true, kept{Holds: []Hold{h}}, take); err != nil {
		return err
	}
	switch {
	case now == before || h.Source == ByThrottle && before < 1: // a policy changes its shares too often to publish each
	case refused != "":
		p.Event(refusedEvent(held, h, refused))
	default:
		p.Event(lease.Sparing(pacedEvent(held, h, now), p.table.Describe(spared)))
	}
	return nil
}

// refuse returns why a lease must not be paced at all. Settings ask once, so that what may
// pass refuses nothing to them: the cycles wait for it.
func (p *Pacer) refuse(l *lease.Lease, h Hold) error {
	why := ""
	switch {
	case l == nil:
		return fmt.Errorf("pace %s: %w", h.Key.ID, lease.ErrUnknown)
	case never(l) != "":
		why = never(l)
	case h.Source.fromSettings() && len(p.Guardian) > 0:
	case l.State == lease.Parked:
		why = "it is parked"
	default:
		why = p.denied(l)
	}
	if why == "" {
		return nil
	}
	return &RefusedError{ID: h.Key.ID, Why: why}
}

// never returns why a lease will not be paced as long as it lives.
func never(l *lease.Lease) string {
	switch {
	case len(l.Scope) > 0:
		return "a lease with a scope is never paced: who made the control group paces it"
	case l.EnforcedBy == "mps":
		return "its programs share the GPU through MPS, and a stopped client would stop the others"
	}
	return ""
}

// denied returns why this daemon cannot stop the processes of a lease now: another one is
// in charge of a device, or there is no guardian.
func (p *Pacer) denied(l *lease.Lease) string {
	if len(p.Guardian) == 0 {
		return "this daemon has no guardian for stopped processes; run berth-serve"
	}
	for _, part := range l.Parts {
		if p.Denied == nil {
			break
		}
		if why := p.Denied(part.GPU); why != "" {
			return why
		}
	}
	return ""
}

// Let ends the holds of some sources on a lease, and reports whether there were any. The
// processes run on at once if nobody else holds the lease.
func (p *Pacer) Let(fence uint64, by gpu.By, sources ...Source) bool {
	p.mu.Lock()
	l := p.leases[fence]
	p.mu.Unlock()
	if l == nil {
		return false
	}
	ended, byHand := l.let(sources, by)
	if byHand {
		_ = p.rewrite(true) // or the next daemon would hold the lease
	}
	return ended
}

// Held returns the leases that are held to a share, ordered by fence.
func (p *Pacer) Held() []Paced {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Paced
	for _, l := range p.leases {
		if told, held := l.told(); held {
			list = append(list, told)
		}
	}
	slices.SortFunc(list, func(a, b Paced) int { return int(a.Fence) - int(b.Fence) })
	return list
}

// Of returns what a lease is held to, and false if nobody holds it.
func (p *Pacer) Of(fence uint64) (Paced, bool) {
	p.mu.Lock()
	l := p.leases[fence]
	p.mu.Unlock()
	if l == nil {
		return Paced{}, false
	}
	return l.told()
}

// rests reports whether no lease is paced. If so, it lets the guardian end, which
// continues everything.
func (p *Pacer) rests() bool {
	p.mu.Lock()
	busy := len(p.leases) > 0 || len(p.meters) > 0 || len(p.owed) > 0
	p.mu.Unlock()
	if !busy {
		p.guard.close()
	}
	return !busy
}

// Run carries out the cycles until ctx ends, and then continues everything.
func (p *Pacer) Run(ctx context.Context) {
	var cycles sync.WaitGroup
	p.mu.Lock()
	p.begin = func(l *paced) {
		if ctx.Err() == nil {
			cycles.Go(func() { p.cycles(ctx, l) })
		}
		p.wake()
	}
	for _, l := range p.leases {
		p.begin(l)
	}
	p.mu.Unlock()
	cycles.Go(func() {
		_ = p.file.Run(ctx, func() error { return p.write(true, kept{}, nil) }, nil) // write reports its errors itself
	})
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-p.woken:
			ticker.Reset(beat)
		case <-ticker.C:
			p.guard.tell(order{}) // the daemon lives
			p.attend(ctx, &cycles)
			p.resume(nil)
			if p.rests() {
				ticker.Stop() // a daemon that paces nothing does not wake up for it
			}
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	p.begin = nil
	p.mu.Unlock()
	cycles.Wait()
	p.guard.close()
	p.resume(nil)
	p.mu.Lock()
	left := len(p.stopped) > 0
	clear(p.stopped)
	for _, id := range p.owed { // the next daemon tries
		p.stopped[id] = 0
	}
	p.mu.Unlock()
	if left {
		_ = p.write(false, kept{}, nil) // write reports its errors itself
	}
}

// paused records how long the processes of a lease were stopped.
func (p *Pacer) paused(fence uint64, from, until time.Time) {
	p.mu.Lock()
	leases := slices.Collect(maps.Values(p.leases))
	p.mu.Unlock()
	for _, l := range leases {
		l.paused(fence, from, until)
	}
}

// rescue continues everything that is stopped, because the guardian is gone. It returns
// the processes.
func (p *Pacer) rescue() (stopped []process.ID) {
	p.mu.Lock()
	leases := slices.Collect(maps.Values(p.leases))
	p.mu.Unlock()
	for _, l := range leases {
		stopped = append(stopped, l.freed()...)
	}
	if continued := p.resume(stopped); continued > 0 {
		p.Log.Warn("the guardian of paced processes was gone: the daemon has continued what was stopped", "processes", continued)
	}
	return stopped
}

// resume continues processes, and those that could not be continued before. It returns how
// many were stopped.
func (p *Pacer) resume(ids []process.ID) (continued int) {
	p.mu.Lock()
	ids, p.owed = append(p.owed, ids...), nil
	p.mu.Unlock()
	continued, again := continueStopped(p.table, ids)
	if len(again) > 0 {
		p.mu.Lock()
		p.owed = append(p.owed, again...)
		p.mu.Unlock()
		p.wake()
	}
	return continued
}

// wake makes Run look again.
func (p *Pacer) wake() {
	select {
	case p.woken <- struct{}{}:
	default: // Run is going to look anyway
	}
}
