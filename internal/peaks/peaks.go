// Package peaks remembers what work used: the most memory and the time of
// the last runs, by user and name, and by step for pipelines. From that comes
// what to lease for a run that does not say.
//
// It is kept in one small file that is replaced as a whole, a few seconds after
// something was learned. Losing those seconds to kill -9 costs a guess, not a
// lease.
package peaks

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

const (
	keptRuns    = 10              // of each piece of work
	keptEntries = 2000            // pieces of work, of all users
	keptPerUser = 512             // pieces of work of one user
	keptRunning = 4096            // leases that are measured; far more than a machine has
	writeAfter  = 3 * time.Second // from something learned to the disk
)

// Key is a piece of work.
type Key struct {
	User string `json:"user"`
	Name string `json:"name"`
	Step string `json:"step,omitempty"` // of a pipeline; empty: the whole
}

// Run is what one run used.
type Run struct {
	Peak    gpu.MiB `json:"peak_mb,omitempty"`  // the most on one device; 0: it was never seen there
	Asked   gpu.MiB `json:"asked_mb,omitempty"` // leased on one device; 0: nothing
	Seconds float64 `json:"seconds"`
	Learned bool    `json:"learned,omitempty"` // it leased what was learned, and not what somebody asked for
	Short   bool    `json:"short,omitempty"`   // it was seen too rarely for Peak to be more than the least it needs
}

// Entry is what is known about a piece of work.
type Entry struct {
	Key
	Count   int       `json:"runs"` // in all
	Last    time.Time `json:"last"`
	Runs    []Run     `json:"last_runs"`            // oldest first
	Offered gpu.MiB   `json:"offered_mb,omitempty"` // what the last run got that did not say what it needs
	Ceiling gpu.MiB   `json:"ceiling_mb,omitempty"` // see raise
}

// Peak is the most that the last runs were measured to use.
func (e *Entry) Peak() gpu.MiB {
	var most gpu.MiB
	for _, r := range e.Runs {
		most = max(most, r.Peak)
	}
	return most
}

// Seconds is how long a run took, on average over the last ones.
func (e *Entry) Seconds() float64 {
	var sum float64
	for _, r := range e.Runs {
		sum += r.Seconds
	}
	return sum / float64(max(len(e.Runs), 1))
}

// Asked is what the last run leased.
func (e *Entry) Asked() gpu.MiB {
	if len(e.Runs) == 0 {
		return 0
	}
	return e.Runs[len(e.Runs)-1].Asked
}

// History is what is known.
type History struct {
	path  string        // empty: it is not kept
	dirty chan struct{} // has room for one

	mu      sync.Mutex // guards what follows
	entries map[Key]*Entry
	running map[grant]use
}

// grant is a lease. An id may be used again; a fence is not.
type grant struct {
	id    string
	fence uint64
}

// use is what was measured of a lease so far.
type use struct {
	peak    gpu.MiB
	samples int
	last    map[string]time.Time // by device
	latest  time.Time            // on any device
}

// Add remembers a run.
func (h *History) Add(key Key, run Run, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.entries[key]
	if e == nil {
		h.makeRoom(key.User)
		e = &Entry{Key: key}
		h.entries[key] = e
	}
	e.Count++
	e.Last = now
	e.raise(run)
	e.Runs = append(e.Runs, run)
	if over := len(e.Runs) - keptRuns; over > 0 {
		e.Runs = slices.Delete(e.Runs, 0, over)
	}
	h.change()
}

// change lets Run write down what is known.
func (h *History) change() {
	select {
	case h.dirty <- struct{}{}:
	default: // it is going to be written anyway
	}
}

// makeRoom forgets something, if there is no room for another entry of a user.
// A user with a full share loses their own oldest entry. If everything is full,
// the user with the most entries loses theirs, so nobody can make berth forget
// what it learned for others. The caller holds mu.
func (h *History) makeRoom(user string) {
	counts := map[string]int{}
	for key := range h.entries {
		counts[key.User]++
	}
	for ; counts[user] >= keptPerUser; counts[user]-- {
		h.forgetOldest(user)
	}
	for len(h.entries) >= keptEntries {
		most := user
		for other, n := range counts {
			if n > counts[most] || n == counts[most] && other < most {
				most = other
			}
		}
		h.forgetOldest(most)
		counts[most]--
	}
}

// forgetOldest forgets what was not heard of for longest of a user's. The caller
// holds mu.
func (h *History) forgetOldest(user string) {
	var oldest *Entry
	for _, e := range h.entries {
		if e.User == user && (oldest == nil || e.Last.Before(oldest.Last)) {
			oldest = e
		}
	}
	if oldest != nil {
		delete(h.entries, oldest.Key)
	}
}

// Find is what is known about a piece of work.
func (h *History) Find(key Key) (Entry, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.entries[key]
	if e == nil {
		return Entry{}, false
	}
	return e.clone(), true
}

// All is everything that is known, by user, name and step.
func (h *History) All() []Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Entry, 0, len(h.entries))
	for _, e := range h.entries {
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

// byMPS is how enforced_by names a lease that MPS enforces.
const byMPS = "mps"

// Use tells what a lease was measured to use on one of its devices, and when. A
// measurement that was told already tells nothing new. Under MPS a process is
// shown with next to nothing, so that tells nothing either.
func (h *History) Use(l *lease.Lease, uuid string, measured gpu.MiB, at time.Time) {
	if l.EnforcedBy == byMPS {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g := grant{l.ID, l.Fence}
	u, known := h.running[g]
	if !known {
		h.dropStale()
		u.last = map[string]time.Time{}
	}
	if !at.After(u.last[uuid]) {
		return
	}
	u.last[uuid] = at
	u.peak, u.samples = max(u.peak, measured), u.samples+1
	u.latest = at
	h.running[g] = u
}

// dropStale makes room for another lease: the one that was not measured for
// longest is dropped. A lease may be measured once more after it has ended, and
// would otherwise stay for ever. The caller holds mu.
func (h *History) dropStale() {
	if len(h.running) < keptRunning {
		return
	}
	var stale grant
	var since time.Time
	for g, u := range h.running {
		if since.IsZero() || u.latest.Before(since) {
			stale, since = g, u.latest
		}
	}
	delete(h.running, stale)
}

// fewSamples is how often each device of a run must have been measured before
// nothing is expected beyond its peak: one that was over by then may have been
// seen while it still grew.
const fewSamples = 3

// Ended tells that a lease has ended: a run of its name is over. A lease
// without a process is no run.
func (h *History) Ended(l *lease.Lease, now time.Time) {
	h.mu.Lock()
	g := grant{l.ID, l.Fence}
	u := h.running[g]
	delete(h.running, g)
	h.mu.Unlock()
	name := cmp.Or(l.Holder.Name, l.Holder.Service)
	if name == "" || l.Holder.PID == 0 || l.Binding == lease.ByName || len(l.Parts) == 0 {
		return // of a lease that outlives its process nobody knows what used it
	}
	key := Key{User: l.Holder.User, Name: name}
	run := Run{
		Peak: u.peak, Asked: l.Parts[0].Memory, Seconds: now.Sub(l.Granted).Seconds(),
		Short: u.peak > 0 && u.samples < fewSamples*len(l.Parts),
	}
	e, _ := h.Find(key)
	run.Learned = run.Asked > 0 && run.Asked == e.Offered
	h.Add(key, run, now)
}

// Run writes down what was learned until ctx ends, and then once more.
func (h *History) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return h.write()
		case <-h.dirty:
		}
		select {
		case <-ctx.Done():
			return h.write()
		case <-time.After(writeAfter):
			_ = h.write() // what is learned next tries again, and so does the end
		}
	}
}
