package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
)

// warnings checks that warnings about root's leases and about devices reach
// root's event stream, and that the daemon keeps them.
type warnings struct {
	*daemon
	stop  context.CancelFunc
	ended chan struct{} // the stream

	mu     sync.Mutex // guards what follows
	caused []string   // leases of root's that expire
	seen   map[string]bool
	faults []uint64 // ids of events about faults of devices
	gaps   int
}

// watchWarnings reads the events as root until finish.
func (f *fair) watchWarnings(ctx context.Context) (*warnings, error) {
	c, err := client.New(client.Options{Socket: f.socket.Address})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	w := &warnings{daemon: f.daemon, stop: stop, ended: make(chan struct{}), seen: map[string]bool{}}
	go func() {
		defer close(w.ended)
		defer c.Close()
		for e, err := range c.Events(ctx, 0, true) {
			if err != nil {
				return
			}
			w.note(e)
		}
	}()
	return w, nil
}

func (w *warnings) note(e gpu.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Code {
	case gpu.EventExpired:
		w.seen[e.Lease] = true
	case gpu.EventDeviceFault:
		w.faults = append(w.faults, e.ID)
	case gpu.EventGap:
		w.gaps++
	}
}

// cause acquires a lease as root every second and lets it expire, until ctx
// ends.
func (w *warnings) cause(ctx context.Context, d *daemon) {
	for ; ctx.Err() == nil; pause(ctx, time.Second) {
		w.mu.Lock()
		id := fmt.Sprintf("expires-%d", len(w.caused))
		w.mu.Unlock()
		if err := d.root(ctx, "POST", "/api/leases", fmt.Sprintf(`{"id":%q,"memory_mb":1,"slots":0,"ttl_seconds":1,"timeout_seconds":0}`, id), nil); err != nil {
			continue // finish counts this lease as never caused
		}
		w.mu.Lock()
		w.caused = append(w.caused, id)
		w.mu.Unlock()
	}
}

// finish returns an error if warnings were lost.
func (w *warnings) finish(ctx context.Context) (lost []error) {
	pause(ctx, 4*time.Second) // until the last lease has expired, and its warning was read
	kept, _, err := w.events(ctx)
	if err != nil {
		lost = append(lost, err)
	}
	w.stop()
	<-w.ended
	w.mu.Lock()
	defer w.mu.Unlock()
	expired, faults := map[string]bool{}, map[uint64]bool{}
	for _, e := range kept {
		switch e.Code {
		case gpu.EventExpired:
			expired[e.Lease] = true
		case gpu.EventDeviceFault:
			faults[e.ID] = true
		}
	}
	unseen, gone := 0, 0
	for _, id := range w.caused {
		if !w.seen[id] {
			unseen++
		}
		if !expired[id] {
			gone++
		}
	}
	unkept := 0
	for _, id := range w.faults {
		if !faults[id] {
			unkept++
		}
	}
	fmt.Printf("%d leases of root expired: root's event stream missed %d of them, and the daemon no longer keeps %d\n", len(w.caused), unseen, gone)
	fmt.Printf("the stream had %d faults of devices, of which the daemon no longer keeps %d; the stream had %d gaps\n", len(w.faults), unkept, w.gaps)
	if len(w.caused) == 0 || len(w.faults) == 0 {
		lost = append(lost, fmt.Errorf("%d leases expired and %d faults were seen: too few for a result", len(w.caused), len(w.faults)))
	}
	if unseen+gone+unkept > 0 {
		lost = append(lost, fmt.Errorf("warnings were lost: %d unseen, %d leases and %d faults not kept", unseen, gone, unkept))
	}
	return lost
}
