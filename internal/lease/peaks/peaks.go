// Package peaks remembers how much memory and time the last runs of each piece
// of work took, by user and name, and by step for pipelines.
//
// It decides from that how much to lease for a run that does not say.
//
// It keeps all this in one small file, which it replaces as a whole a few
// seconds after it has learned something. A daemon that is killed with -9 loses
// these seconds: that costs a guess, and no lease.
package peaks

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease"
)

const (
	keptRuns    = 10              // of each piece of work
	keptEntries = 2000            // pieces of work, of all users
	keptPerUser = 512             // pieces of work of one user
	keptRunning = 4096            // leases that are measured; far more than a machine has
	keptGone    = 256             // leases that have just ended
	writeAfter  = 3 * time.Second // from something learned to the disk
)

// Key names a piece of work.
type Key struct {
	User string `json:"user"`
	Name string `json:"name"`
	Step string `json:"step,omitempty"` // of a pipeline; empty for the whole
}

// Run holds what one run used.
type Run struct {
	Peak    gpu.MiB `json:"peak_mb,omitempty"`  // the most on one device; 0 if it was never seen there
	Asked   gpu.MiB `json:"asked_mb,omitempty"` // leased on one device; 0 if nothing was
	Seconds float64 `json:"seconds"`
	Learned bool    `json:"learned,omitempty"` // it leased what berth had learned, not what somebody asked for
	Short   bool    `json:"short,omitempty"`   // it was measured too rarely: Peak is only the least it needs

	Kind Kind `json:"kind,omitempty"` // empty if an earlier berth wrote it, or if it was no lease

	// Drew is the average power that it drew on one device while it worked, above
	// what the device draws by itself.
	Drew gpu.Opt[gpu.Watts] `json:"drew_watts,omitzero"`
}

// Kind is a kind of runs that are alike: what one user runs of a kind tells how long the
// next run of a new name may take.
type Kind string

// program is the kind of what a user starts under a lease.
const program Kind = "program"

// KindOf returns the kind of a lease.
func KindOf(l *lease.Lease) Kind { return cmp.Or(Kind(l.Run.Kind), program) }

// KeyOf returns the key of what a lease is a run of.
func KeyOf(h lease.Holder) Key { return Key{User: h.User, Name: cmp.Or(h.Name, h.Service)} }

// Entry holds what is known about a piece of work.
type Entry struct {
	Key
	Count   int       `json:"runs"` // in all
	Last    time.Time `json:"last"`
	Runs    []Run     `json:"last_runs"`            // oldest first
	Offered gpu.MiB   `json:"offered_mb,omitempty"` // what the last run without a stated need got
	Ceiling gpu.MiB   `json:"ceiling_mb,omitempty"` // see raise
}

// Peak returns the most memory that the last runs were measured to use.
func (e *Entry) Peak() gpu.MiB {
	var most gpu.MiB
	for _, r := range e.Runs {
		most = max(most, r.Peak)
	}
	return most
}

// Seconds returns how long the last runs took on average.
func (e *Entry) Seconds() float64 {
	var sum float64
	for _, r := range e.Runs {
		sum += r.Seconds
	}
	return sum / float64(max(len(e.Runs), 1))
}

// Lengths holds how many seconds each of some runs took, in order.
type Lengths []float64

// Lengths returns how long the last runs took.
func (e *Entry) Lengths() Lengths {
	l := make(Lengths, len(e.Runs))
	for i, r := range e.Runs {
		l[i] = r.Seconds
	}
	slices.Sort(l)
	return l
}

// Remaining returns how much longer a run takes that has taken this long already. Of the
// earlier runs that took longer, the given share took at most that. It returns false if
// there is none.
func (l Lengths) Remaining(taken time.Duration, share float64) (time.Duration, bool) {
	longer := l[sort.Search(len(l), func(i int) bool { return l[i] > taken.Seconds() }):]
	if len(longer) == 0 {
		return 0, false
	}
	at := min(int(math.Ceil(share*float64(len(longer)))), len(longer)) - 1
	return time.Duration(longer[max(at, 0)]*float64(time.Second)) - taken, true
}

// Drew returns the power that the last runs drew on one device, on average; absent
// if none was measured.
func (e *Entry) Drew() gpu.Opt[gpu.Watts] {
	var sum gpu.Watts
	n := 0
	for _, r := range e.Runs {
		if watts, known := r.Drew.Get(); known {
			sum += watts
			n++
		}
	}
	if n == 0 {
		return gpu.Opt[gpu.Watts]{}
	}
	return gpu.Some(sum / gpu.Watts(n))
}

// Asked returns how much the last run leased.
func (e *Entry) Asked() gpu.MiB {
	if len(e.Runs) == 0 {
		return 0
	}
	return e.Runs[len(e.Runs)-1].Asked
}

// Peaks remembers runs. Use New or Open to make one.
type Peaks struct {
	// Stands reports whether a lease has not ended. Set it before anything else; if it is nil,
	// every lease stands.
	Stands func(*lease.Lease) bool

	file  *file.State[document]
	began time.Time // what was measured before is known from the file alone; zero if nothing was

	mu      sync.Mutex // guards what follows
	entries map[Key]*Entry
	running map[uint64]use  // by the fence of the lease
	parents map[uint64]bool // by fence, leases that had children
	gone    []ended         // measured leases that ended last, the newest at the end
}

// ended is a lease that has just ended.
type ended struct {
	fence uint64
	used  Used
}

// Used is what was measured of a lease.
type Used struct {
	Peak    gpu.MiB              // the most memory on one device
	Load    gpu.Opt[gpu.Percent] // how much it used a device, on average; absent if not measured
	Samples int                  // how often its memory was measured
}

// use holds what was measured of a lease so far.
type use struct {
	peak    gpu.MiB
	samples int
	last    map[string]time.Time // by device
	latest  time.Time            // on any device
	load    gpu.Percent          // sum of loads
	loads   int                  // how many they are
	partial bool                 // it may have been measured by a daemon that did not write it down
	written gpu.MiB              // of peak, in the file or on the way there
}

// used returns what was measured.
func (u *use) used() Used {
	all := Used{Peak: u.peak, Samples: u.samples}
	if u.loads > 0 {
		all.Load = gpu.Some(u.load / gpu.Percent(u.loads))
	}
	return all
}

// Add remembers a run.
func (p *Peaks) Add(key Key, run Run, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[key]
	if e == nil {
		p.makeRoom(key.User)
		e = &Entry{Key: key}
		p.entries[key] = e
	}
	e.Count++
	e.Last = now
	e.raise(run)
	e.Runs = append(e.Runs, run)
	if over := len(e.Runs) - keptRuns; over > 0 {
		e.Runs = slices.Delete(e.Runs, 0, over)
	}
	p.file.Change(writeAfter)
}

// makeRoom forgets something, if there is no room for another entry of a user.
// A user with a full share loses their own oldest entry. If everything is full,
// the user with the most entries loses theirs, so nobody can make berth forget
// what it learned for others. The caller holds mu.
func (p *Peaks) makeRoom(user string) {
	counts := map[string]int{}
	for key := range p.entries {
		counts[key.User]++
	}
	for ; counts[user] >= keptPerUser; counts[user]-- {
		p.forgetOldest(user)
	}
	for len(p.entries) >= keptEntries {
		most := user
		for other, n := range counts {
			if n > counts[most] || n == counts[most] && other < most {
				most = other
			}
		}
		p.forgetOldest(most)
		counts[most]--
	}
}

// forgetOldest forgets the entry of a user that was unused for longest. The
// caller holds mu.
func (p *Peaks) forgetOldest(user string) {
	var oldest *Entry
	for _, e := range p.entries {
		if e.User == user && (oldest == nil || e.Last.Before(oldest.Last)) {
			oldest = e
		}
	}
	if oldest != nil {
		delete(p.entries, oldest.Key)
	}
}

// Find returns what is known about a piece of work.
func (p *Peaks) Find(key Key) (Entry, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[key]
	if e == nil {
		return Entry{}, false
	}
	return e.clone(), true
}

// OfKind returns how long the last runs of a kind took that a user had, of any name. It
// looks at everything that is known: who asks about many leases asks once.
func (p *Peaks) OfKind(user string, kind Kind) Lengths {
	p.mu.Lock()
	var l Lengths
	for _, e := range p.entries {
		if e.User != user {
			continue
		}
		for _, r := range e.Runs {
			if r.Kind == kind {
				l = append(l, r.Seconds)
			}
		}
	}
	p.mu.Unlock()
	slices.Sort(l)
	return l
}

// All returns everything that is known, ordered by user, name and step.
func (p *Peaks) All() []Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Entry, 0, len(p.entries))
	for _, e := range p.entries {
		all = append(all, e.clone())
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.User, b.User), strings.Compare(a.Name, b.Name), strings.Compare(a.Step, b.Step))
	})
	return all
}

func (e *Entry) clone() Entry {
	c := *e
	c.Runs = slices.Clone(e.Runs)
	return c
}

// byMPS is the enforced_by of a lease that MPS enforces.
const byMPS = "mps"

// Use records how much memory a lease was measured to use on one of its
// devices, and when; and how much it used that device, if that is known. It ignores a
// measurement that it has seen already, and leases under MPS: the driver shows their
// processes with next to nothing.
func (p *Peaks) Use(l *lease.Lease, uuid string, measured gpu.MiB, load gpu.Opt[gpu.Percent], at time.Time) {
	if l.EnforcedBy == byMPS {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	u, known := p.running[l.Fence]
	if !known && p.Stands != nil && !p.Stands(l) {
		return // the sample is from before its end
	}
	if !known {
		p.dropStale()
		u.last, u.partial = map[string]time.Time{}, l.Granted.Before(p.began)
	}
	if !at.After(u.last[uuid]) {
		return
	}
	u.last[uuid] = at
	u.peak, u.samples = max(u.peak, measured), u.samples+1
	u.latest = at
	if percent, known := load.Get(); known {
		u.load, u.loads = u.load+percent, u.loads+1
	}
	if u.peak > u.written+u.written/32 || !known { // less is within the margin of whoever goes by it
		u.written = u.peak
		p.file.Change(writeAfter)
	}
	p.running[l.Fence] = u
}

// Recall forgets what was measured of leases that do not stand any more: they ended while no
// daemon ran, or were measured once more afterwards.
func (p *Peaks) Recall(standing []*lease.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stand := make(map[uint64]bool, len(standing))
	for _, held := range standing {
		stand[held.Fence] = true
	}
	maps.DeleteFunc(p.running, func(fence uint64, _ use) bool { return !stand[fence] })
}

// Most returns the most memory that the lease with a fence was measured to use on
// one device so far, and how often it was measured.
func (p *Peaks) Most(fence uint64) (most gpu.MiB, samples int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.running[fence]
	return u.peak, u.samples
}

// Partial reports whether a lease may have used more than Most says: it was granted before
// the daemon began, and no daemon has written down what it used until then.
func (p *Peaks) Partial(fence uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running[fence].partial
}

// Used returns what was measured of the lease with a fence so far, or until it ended a
// moment ago.
func (p *Peaks) Used(fence uint64) Used {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.gone, func(e ended) bool { return e.fence == fence }); i >= 0 {
		return p.gone[i].used
	}
	u := p.running[fence]
	return u.used()
}

// dropStale makes room for another lease: it drops the lease whose last measurement is
// the oldest. The caller holds mu.
func (p *Peaks) dropStale() {
	if len(p.running) < keptRunning {
		return
	}
	var stale uint64
	var since time.Time
	for fence, u := range p.running {
		if since.IsZero() || u.latest.Before(since) {
			stale, since = fence, u.latest
		}
	}
	delete(p.running, stale)
}

// fewSamples is how often each device of a run must have been measured for its peak to be
// final: a run that was over sooner may have been seen while it still grew.
const fewSamples = 3

// Ended records that a lease has ended, as a run of its name. A lease without a process
// is not a run, and neither is one that had children: they are the runs. Drew is the
// power that the lease drew on one device. Ended returns the most memory that the lease
// was measured to use on one device; 0 if it was not measured.
func (p *Peaks) Ended(l *lease.Lease, drew gpu.Opt[gpu.Watts], now time.Time) gpu.MiB {
	p.mu.Lock()
	u := p.running[l.Fence]
	delete(p.running, l.Fence)
	if u.samples > 0 { // leases that no sample has seen take no place of others
		p.gone = append(p.gone, ended{l.Fence, u.used()})
		p.gone = p.gone[max(len(p.gone)-keptGone, 0):]
	}
	parent := p.parents[l.Fence]
	delete(p.parents, l.Fence)
	if l.ParentFence != 0 {
		p.noteParent(l.ParentFence)
	}
	key := KeyOf(l.Holder)
	before := p.entries[key]
	learned := before != nil && len(l.Parts) > 0 && l.Parts[0].Memory > 0 && l.Parts[0].Memory == before.Offered
	p.mu.Unlock()
	if parent || key.Name == "" || l.Holder.PID == 0 || l.Binding == lease.ByName || len(l.Parts) == 0 {
		return u.peak // nobody knows what used a lease that outlives its process
	}
	run := Run{
		Peak: u.peak, Asked: l.Parts[0].Memory, Learned: learned, Seconds: now.Sub(l.Granted).Seconds(), Drew: drew, Kind: KindOf(l),
		Short: u.peak > 0 && u.samples < fewSamples*len(l.Parts),
	}
	p.Add(key, run, now)
	return u.peak
}

// noteParent remembers a lease that had children. The caller holds mu.
func (p *Peaks) noteParent(fence uint64) {
	if p.parents == nil || len(p.parents) >= keptRunning { // parents that end before their children stay
		p.parents = map[uint64]bool{}
	}
	p.parents[fence] = true
}

// Run writes what was learned to the file until ctx ends, and then what is new once more.
func (p *Peaks) Run(ctx context.Context) error { return p.file.Run(ctx, p.write, nil) }
