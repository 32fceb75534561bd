package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// record is what clients were promised, in their own words.
type record struct {
	machine map[string]gpu.MiB // what each device has to give

	mu     sync.Mutex
	held   map[string]api.Lease // what is certainly held now, by id
	done   map[string]time.Time // ids that nobody cares for any more, and since when
	fences map[uint64]string    // every fence that was ever given, and to whom
	newest uint64               // the largest of them
	counts map[string]int
	gone   []time.Duration // from the end of a holder to that of its lease
	broken []string        // promises
}

func newRecord(machine map[string]gpu.MiB) *record {
	return &record{
		machine: machine, held: map[string]api.Lease{}, done: map[string]time.Time{},
		fences: map[uint64]string{}, counts: map[string]int{},
	}
}

// accuse notes a broken promise. The caller holds mu.
func (r *record) accuse(format string, args ...any) {
	if len(r.broken) < 20 {
		r.broken = append(r.broken, fmt.Sprintf("%s: %s", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...)))
	}
}

func (r *record) complain(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accuse(format, args...)
}

func (r *record) count(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what]++
}

// asking is called before a request is sent. It returns the newest fence that
// was acknowledged before: what is granted now must have a larger one.
func (r *record) asking() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

// forget notes that a client is sure that nothing stands under an id.
func (r *record) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[id] = time.Now()
}

// acknowledge notes a lease that the daemon has promised, and checks it against
// everything that was promised before.
func (r *record) acknowledge(l api.Lease, newest uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts["granted"]++
	if other, twice := r.fences[l.Fence]; twice {
		r.accuse("fence %d was given to %s and then to %s", l.Fence, other, l.ID)
	}
	if l.Fence <= newest {
		r.accuse("%s was asked for after fence %d was given, and got fence %d", l.ID, newest, l.Fence)
	}
	r.fences[l.Fence] = l.ID
	r.newest = max(r.newest, l.Fence)
	r.held[l.ID] = l
	for _, p := range l.Parts {
		r.checkSum(p.GPU, l.ID)
	}
}

// checkSum holds what is certainly held on a device against what it has. The
// caller holds mu.
func (r *record) checkSum(uuid, because string) {
	var memory gpu.MiB
	taken := 0
	now := time.Now()
	for _, l := range r.held {
		if l.Expires != nil && !l.Expires.After(now) {
			continue // nobody relies on it any more
		}
		for _, p := range l.Parts {
			if p.GPU == uuid {
				memory += p.Memory
				taken += p.Slots
			}
		}
	}
	if memory > r.machine[uuid] || taken > slots {
		r.accuse("with %s, %s of %s and %d of %d slots of %s are held at the same time", because, memory, r.machine[uuid], taken, slots, uuid)
	}
}

// renewed notes that a lease lasts longer.
func (r *record) renewed(l api.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if held, is := r.held[l.ID]; is && held.Fence == l.Fence {
		r.held[l.ID] = l
	}
}

// ending notes that from now on a lease is not relied on. It is called before
// anything is done that ends it.
func (r *record) ending(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.held, id)
}

func (r *record) ended(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = append(r.gone, took)
}

// relied is what is certainly held now.
func (r *record) relied() map[string]api.Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.held)
}

// compare holds a list that the daemon gave against what was certainly held
// when it was asked and still is, and against what was done with by then.
func (r *record) compare(asked time.Time, before map[string]api.Lease, list api.Leases) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts["lists compared"]++
	listed := map[string]api.Lease{}
	for _, l := range list.Leases {
		listed[l.ID] = l
		if since, done := r.done[l.ID]; done && since.Before(asked) {
			r.accuse("%s with fence %d stands, and was done with at %s", l.ID, l.Fence, since.Format("15:04:05.000"))
		}
	}
	now := time.Now()
	for id, l := range before {
		still, is := r.held[id]
		switch {
		case !is || still.Fence != l.Fence || l.Expires != nil && !l.Expires.After(now):
		case listed[id].Fence != l.Fence:
			r.accuse("%s with fence %d was acknowledged, and is lost: it is listed with fence %d", id, l.Fence, listed[id].Fence)
		}
	}
}

// verdict is an error if a promise was broken, or too little happened to tell.
func (r *record) verdict() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, text := range r.broken {
		errs = append(errs, errors.New("BROKEN "+text))
	}
	for _, what := range []string{"granted", "refused: insufficient_memory", "holders killed", "outcome unknown", "lists compared"} {
		if r.counts[what] == 0 {
			errs = append(errs, fmt.Errorf("nothing was %s: this run proves little", what))
		}
	}
	return errors.Join(errs...)
}

func (r *record) print(d *daemon) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "daemon killed or replaced\t%d\n", d.kills)
	fmt.Fprintf(w, "restart until it answers\t%s\n", times(d.starts))
	for _, what := range slices.Sorted(maps.Keys(r.counts)) {
		fmt.Fprintf(w, "%s\t%d\n", what, r.counts[what])
	}
	fmt.Fprintf(w, "holder killed until its lease is gone\t%s\n", times(r.gone))
	fmt.Fprintf(w, "broken promises\t%d\n", len(r.broken))
	_ = w.Flush()
}

func times(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	all = slices.Sorted(slices.Values(all))
	at := func(share float64) time.Duration {
		return all[min(int(share*float64(len(all))), len(all)-1)].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("median %v, p99 %v, longest %v", at(0.5), at(0.99), at(1))
}
