package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
)

// witness writes down what the clients know for certain, and compares.
type witness struct {
	client *client.Client
	room   map[string]gpu.MiB // what can be leased on each device when it is empty

	mu     sync.Mutex
	held   map[string]api.Lease // certainly held, by id
	used   map[string]gpu.MiB   // by device
	fences map[uint64]string
	newest uint64
	dead   map[string]time.Time // leases of holders that were killed, by id
	faults []string

	granted, refused, unknown, released, holders, inspections int
	longest                                                   time.Duration // a dead holder's lease was seen to stay
}

func newWitness(d *daemon) (*witness, error) {
	all, err := d.client.Available(context.Background())
	if err != nil {
		return nil, err
	}
	w := &witness{
		client: d.client, room: map[string]gpu.MiB{}, held: map[string]api.Lease{}, used: map[string]gpu.MiB{},
		fences: map[uint64]string{}, dead: map[string]time.Time{},
	}
	for _, g := range all.GPUs {
		w.room[g.GPU] = g.Available
	}
	return w, nil
}

// before is called before a request is sent: whatever it is granted has a
// larger fence than this.
func (w *witness) before() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest
}

// took notes a grant that was read.
func (w *witness) took(l api.Lease, after uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.granted++
	if other, twice := w.fences[l.Fence]; twice && other != l.ID {
		w.fault("fence %d was given to %s and to %s", l.Fence, other, l.ID)
	}
	if l.Fence <= after {
		w.fault("%s has fence %d, and %d was given out before it was asked for", l.ID, l.Fence, after)
	}
	w.fences[l.Fence] = l.ID
	w.newest = max(w.newest, l.Fence)
	w.held[l.ID] = l
	for _, p := range l.Parts {
		if w.used[p.GPU] += p.Memory; w.used[p.GPU] > w.room[p.GPU] {
			w.fault("%s: %s are certainly held, and there are %s", p.GPU, w.used[p.GPU], w.room[p.GPU])
		}
	}
}

// leaves is called just before a release is sent, or a holder is killed.
func (w *witness) leaves(l api.Lease, killed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, l.ID)
	for _, p := range l.Parts {
		w.used[p.GPU] -= p.Memory
	}
	if killed {
		w.holders++
		w.dead[l.ID] = time.Now()
	}
}

func (w *witness) count(what *int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*what++
}

// fault writes down something that must not be. The caller holds mu.
func (w *witness) fault(format string, args ...any) {
	if len(w.faults) < 20 {
		w.faults = append(w.faults, fmt.Sprintf(format, args...))
	}
}

// inspect looks, after a restart, whether every lease that is certainly held
// is there, and notes how long those of dead holders stay.
func (w *witness) inspect() error {
	w.mu.Lock()
	w.inspections++
	expected := make(map[string]uint64, len(w.held))
	for id, l := range w.held {
		expected[id] = l.Fence
	}
	w.mu.Unlock()
	there, err := w.list()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, fence := range expected {
		now, still := w.held[id]
		if !still || now.Fence != fence {
			continue // it was given back meanwhile
		}
		if found, ok := there[id]; !ok || found.Fence != fence {
			w.fault("%s with fence %d was acknowledged, and is not there after a restart", id, fence)
		}
	}
	w.buried(there)
	return nil
}

// buried forgets the dead whose leases are gone. The caller holds mu.
func (w *witness) buried(there map[string]api.Lease) {
	for id, died := range w.dead {
		if _, stays := there[id]; stays {
			w.longest = max(w.longest, time.Since(died))
		} else {
			delete(w.dead, id)
		}
	}
}

func (w *witness) list() (map[string]api.Lease, error) {
	all, err := w.client.Leases(context.Background())
	if err != nil {
		return nil, err
	}
	there := make(map[string]api.Lease, len(all.Leases))
	for _, l := range all.Leases {
		there[l.ID] = l
	}
	return there, nil
}

// settled waits until nothing is left, now that everybody has gone home.
func (w *witness) settled() error {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		there, err := w.list()
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.buried(there)
		w.mu.Unlock()
		if len(there) == 0 {
			return nil
		}
	}
	there, err := w.list()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, l := range there {
		w.fault("%s (%s, pid %d) is still there after everybody has left", id, l.Binding, l.Holder.PID)
	}
	return nil
}

func (w *witness) report(d *daemon) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range []struct {
		what string
		n    any
	}{
		{"daemon killed with -9", d.kills}, {"holders killed with -9", w.holders},
		{"leases granted", w.granted}, {"requests refused", w.refused}, {"answers that never came, resolved", w.unknown},
		{"leases released", w.released}, {"books inspected after a restart", w.inspections},
		{"slowest start", d.slowest.Round(time.Millisecond)}, {"longest a dead holder's lease was seen", w.longest.Round(time.Millisecond)},
		{"violations", len(w.faults)},
	} {
		fmt.Printf("  %-40s %v\n", line.what, line.n)
	}
	for _, f := range w.faults {
		fmt.Println("  VIOLATION:", f)
	}
}

func (w *witness) verdict() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(w.faults) > 0:
		return errors.New("a promise was broken")
	case w.granted < 100 || w.unknown == 0:
		return errors.New("too little happened for a verdict")
	}
	return nil
}
