package programs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
)

// fakeDaemon grants leases on devices of one slot each, and children of those
// leases without end.
type fakeDaemon struct {
	past    api.PastLeases
	pastErr error

	mu      sync.Mutex
	free    map[string]bool
	held    map[string]bool // leases by id
	freed   chan struct{}   // closed and replaced when a device comes free
	slots   int             // that were granted
	granted int             // children
	bound   int
	refuse  error // of every request
	unbound error // of Bind
	text    string
	events  chan gpu.Event
	reports []api.Batch

	isolated []string // of each Bind, in which way
}

func newFakeDaemon(gpus int) *fakeDaemon {
	d := &fakeDaemon{free: map[string]bool{}, held: map[string]bool{}, freed: make(chan struct{}), events: make(chan gpu.Event)}
	for i := range gpus {
		d.free[fmt.Sprintf("GPU-%d", i)] = true
	}
	return d
}

func (d *fakeDaemon) StatusAll(context.Context) (api.StatusAll, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all api.StatusAll
	for uuid := range d.free {
		all.GPUs = append(all.GPUs, api.Status{Device: gpu.Device{UUID: uuid}, Slots: api.Slots{Capacity: 1}, Multiplier: 0.5})
	}
	slices.SortFunc(all.GPUs, func(a, b api.Status) int { return strings.Compare(a.Device.UUID, b.Device.UUID) })
	for i := range all.GPUs {
		all.GPUs[i].Device.Index = i
	}
	return all, nil
}

func (d *fakeDaemon) PastLeases(context.Context, client.PastQuery) (api.PastLeases, error) {
	return d.past, d.pastErr
}

func (d *fakeDaemon) Explain(context.Context, api.LeaseRequest) (api.Explanation, error) {
	return api.Explanation{Text: d.text}, nil
}

func (d *fakeDaemon) Events(ctx context.Context, _ uint64, _ bool) iter.Seq2[gpu.Event, error] {
	return func(yield func(gpu.Event, error) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-d.events:
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

func (d *fakeDaemon) Hold(ctx context.Context, r api.LeaseRequest) (Held, error) {
	wait := time.After(time.Duration(r.Timeout.Or(0) * float64(time.Second)))
	for {
		d.mu.Lock()
		freed := d.freed
		if d.refuse != nil {
			d.mu.Unlock()
			return Held{}, d.refuse
		}
		if r.Parent != "" && !d.held[r.Parent] {
			d.mu.Unlock()
			return Held{}, &api.Problem{Status: http.StatusConflict, Code: "no_parent"}
		}
		if r.Parent != "" || d.free[string(r.GPU)] {
			defer d.mu.Unlock()
			return d.grant(r), nil
		}
		d.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return Held{}, ctx.Err()
		case <-wait:
			return Held{}, &api.Problem{Status: http.StatusConflict, Detail: "it is full"}
		}
	}
}

// grant grants a lease. The caller holds mu.
func (d *fakeDaemon) grant(r api.LeaseRequest) Held {
	l := api.Lease{Parent: r.Parent, Granted: time.Now(), Parts: []api.LeasePart{{GPU: string(r.GPU), Slots: r.Slots.Or(1)}}}
	if r.Parent != "" {
		d.granted++
		l.ID = fmt.Sprintf("lease-%d", d.granted)
	} else {
		d.slots++
		d.free[string(r.GPU)] = false
		l.ID = fmt.Sprintf("slot-%d", d.slots)
	}
	d.held[l.ID] = true
	if r.Isolation != "" {
		l.Launch = &api.Launch{Isolation: r.Isolation}
	}
	return Held{Lease: l, Close: func() error {
		d.mu.Lock()
		stood := d.held[l.ID]
		delete(d.held, l.ID)
		d.mu.Unlock()
		if stood && r.Parent == "" {
			d.release(string(r.GPU))
		}
		return nil
	}}
}

// end ends a lease, as somebody does who releases it.
func (d *fakeDaemon) end(id, uuid string) {
	d.mu.Lock()
	delete(d.held, id)
	d.mu.Unlock()
	d.release(uuid)
}

// release makes a device free.
func (d *fakeDaemon) release(uuid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free[uuid] = true
	close(d.freed)
	d.freed = make(chan struct{})
}

func (d *fakeDaemon) ReportBatch(ctx context.Context, b api.Batch) (api.Batch, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reports = append(d.reports, b)
	return b, ctx.Err()
}

func (d *fakeDaemon) Bind(_ context.Context, _ string, b api.Bind) (api.Lease, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bound++
	d.isolated = append(d.isolated, b.Isolation)
	return api.Lease{}, d.unbound
}

// binds sets what Bind returns from now on, and returns how often it was called.
func (d *fakeDaemon) binds(err error) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unbound = err
	return d.bound
}

// said collects what is told.
type said struct{ lines []string }

func (s *said) say(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func placesOf(t *testing.T, d *fakeDaemon, o BatchOptions) (*places, *said) {
	t.Helper()
	told := &said{}
	o.Hold, o.Say, o.PerGPU, o.Command = d.Hold, told.say, max(o.PerGPU, 1), []string{"python", "worker.py"}
	p, err := newPlaces(t.Context(), d, o, "")
	if err != nil {
		t.Fatal(err)
	}
	return p, told
}

// Workers get one GPU after the other, and who comes when all are taken waits
// until one comes free.
func TestAcquireWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDaemon(2)
		p, told := placesOf(t, d, BatchOptions{})
		d.free["GPU-1"] = false // somebody else is there
		first, err := p.Acquire(t.Context(), batch.WorkerRequest{})
		if err != nil || first.GPU.UUID != "GPU-0" || first.Speed() != 0.5 {
			t.Fatalf("%+v, %v", first, err)
		}
		if !slices.Contains(first.Env, "CUDA_VISIBLE_DEVICES=GPU-0") || !slices.Contains(first.Env, "BERTH_LEASE=lease-1") {
			t.Errorf("its environment changes by %q", first.Env)
		}
		go func() {
			time.Sleep(time.Hour)
			d.release("GPU-1")
		}()
		second, err := p.Acquire(t.Context(), batch.WorkerRequest{})
		if err != nil || second.GPU.UUID != "GPU-1" || second.GPU.Index != 1 {
			t.Fatalf("%+v, %v", second, err)
		}
		if len(told.lines) > 0 { // a worker is at work
			t.Errorf("said %q", told.lines)
		}
		// All are ours: who waits gets the first that is given back.
		go func() {
			time.Sleep(time.Hour)
			first.Release()
		}()
		third, err := p.Acquire(t.Context(), batch.WorkerRequest{})
		if err != nil || third.GPU.UUID != "GPU-0" {
			t.Fatalf("%+v, %v", third, err)
		}
		second.Release()
		third.Release()
		if d.granted != 3 || d.slots != 3 || len(d.held) > 0 || !d.free["GPU-0"] || !d.free["GPU-1"] {
			t.Errorf("%d grants, %d slots, free %v, held %v", d.granted, d.slots, d.free, d.held)
		}
	})
}

func TestAcquireTellsThatItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDaemon(1)
		p, told := placesOf(t, d, BatchOptions{PerGPU: 2})
		d.free["GPU-0"] = false
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := p.Acquire(ctx, batch.WorkerRequest{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if len(told.lines) != 1 || !strings.HasPrefix(told.lines[0], "no GPU has room") {
			t.Errorf("said %q", told.lines)
		}
	})
}

func TestAcquireIsRefused(t *testing.T) {
	full := &api.Problem{Status: http.StatusConflict, Detail: "it is too small"}
	for _, test := range []struct {
		name  string
		gpus  int
		avoid []string
		text  string
		want  string
	}{
		{"no GPU", 0, nil, "", "this machine has no GPU"},
		{"only GPUs that break workers", 1, []string{"GPU-0"}, "", "on which workers kept failing"},
		{"a daemon that says why", 1, nil, "No device is large enough.", "No device is large enough."},
		{"a daemon that does not", 1, nil, "", "it is too small"},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newFakeDaemon(test.gpus)
			d.refuse, d.text = full, test.text
			p, _ := placesOf(t, d, BatchOptions{})
			_, err := p.Acquire(t.Context(), batch.WorkerRequest{Avoid: test.avoid})
			if !errors.Is(err, batch.ErrRefused) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v", test.name, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDaemon(1)
		p, _ := placesOf(t, d, BatchOptions{})
		d.refuse = errors.New("the daemon is away")
		if _, err := p.Acquire(t.Context(), batch.WorkerRequest{}); !errors.Is(err, d.refuse) || errors.Is(err, batch.ErrRefused) {
			t.Errorf("a daemon that is away refused: %v", err)
		}
	})
}

// A worker that has started holds its lease itself. While the daemon is away,
// that is tried again; a refusal is not.
func TestLeaseIsHandedToItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDaemon(2)
		p, _ := placesOf(t, d, BatchOptions{})
		start := func(daemonSays error) (batch.Grant, error) {
			g, err := p.Acquire(t.Context(), batch.WorkerRequest{})
			if err != nil {
				t.Fatal(err)
			}
			d.binds(daemonSays)
			return g, g.Started(os.Getpid())
		}
		first, err := start(errors.New("the daemon is away"))
		if err != nil {
			t.Error(err)
		}
		time.Sleep(3500 * time.Millisecond)
		if tries := d.binds(nil); tries != 4 {
			t.Errorf("it was tried %d times", tries)
		}
		time.Sleep(time.Hour)
		if tries := d.binds(nil); tries != 5 {
			t.Errorf("it was tried %d times, and the fifth went well", tries)
		}
		refusal := &api.Problem{Status: http.StatusConflict}
		second, err := start(refusal)
		if !errors.Is(err, refusal) {
			t.Errorf("a refusal is no reason: %v", err)
		}
		time.Sleep(time.Hour)
		if tries := d.binds(nil); tries != 6 {
			t.Errorf("it was tried %d times, and the sixth was refused", tries)
		}
		first.Release()
		second.Release()
	})
}

// A GPU is left alone after somebody has released the lease there, and asked
// for again after a minute.
func TestReleasedLeaseIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDaemon(1)
		p, _ := placesOf(t, d, BatchOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { p.look(ctx) })
		watching.Go(func() { p.listen(ctx) })
		g, err := p.Acquire(ctx, batch.WorkerRequest{})
		if err != nil {
			t.Fatal(err)
		}
		d.events <- gpu.Event{Code: gpu.EventReleased, Lease: "lease-1"}
		<-g.Recall
		g.Release()
		begun := time.Now()
		g, err = p.Acquire(ctx, batch.WorkerRequest{})
		if err != nil || time.Since(begun) < leaveAlone {
			t.Errorf("it was asked for after %s: %v", time.Since(begun), err)
		}
		g.Release()
		cancel()
		watching.Wait()
	})
}

// All workers on a GPU share one slot. It is given back with the last of them.
func TestWorkersShareASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDaemon(1)
		p, _ := placesOf(t, d, BatchOptions{PerGPU: 3, Request: api.LeaseRequest{Memory: 100, Where: "name~H200"}})
		var grants []batch.Grant
		for range 3 {
			g, err := p.Acquire(t.Context(), batch.WorkerRequest{})
			if err != nil {
				t.Fatal(err)
			}
			grants = append(grants, g)
		}
		if d.slots != 1 || d.granted != 3 {
			t.Errorf("%d slots and %d workers", d.slots, d.granted)
		}
		for _, g := range grants {
			if d.free["GPU-0"] {
				t.Error("the slot was given back before the last worker")
			}
			g.Release()
		}
		if !d.free["GPU-0"] || len(d.held) > 0 || len(p.slots) > 0 {
			t.Errorf("free %v, held %v", d.free, d.held)
		}
	})
}

// If somebody releases the slot, all its workers leave, and the GPU is left
// alone.
func TestSlotThatSomebodyReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDaemon(2)
		p, _ := placesOf(t, d, BatchOptions{PerGPU: 2})
		var grants []batch.Grant
		for range 4 {
			g, err := p.Acquire(t.Context(), batch.WorkerRequest{})
			if err != nil {
				t.Fatal(err)
			}
			grants = append(grants, g)
		}
		d.end("slot-1", "GPU-0")
		p.hear(gpu.Event{Code: gpu.EventReleased, Lease: "slot-1"})
		for _, g := range grants {
			left := false
			select {
			case <-g.Recall:
				left = true
			default:
			}
			if left != (g.GPU.UUID == "GPU-0") {
				t.Errorf("a worker on %s was recalled: %v", g.GPU.UUID, left)
			}
		}
		if list, full := p.candidates(batch.WorkerRequest{}); len(list) > 0 || !full {
			t.Errorf("%v are candidates, full %v", list, full)
		}
		for _, g := range grants {
			g.Release()
		}
		if len(d.held) > 0 || len(p.slots) > 0 {
			t.Errorf("held %v", d.held)
		}
	})
}

// A slot that ended unnoticed is replaced by another one.
func TestSlotThatEndedUnnoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDaemon(1)
		p, _ := placesOf(t, d, BatchOptions{PerGPU: 2})
		first, err := p.Acquire(t.Context(), batch.WorkerRequest{})
		if err != nil {
			t.Fatal(err)
		}
		d.end("slot-1", "GPU-0")
		second, err := p.Acquire(t.Context(), batch.WorkerRequest{})
		if err != nil {
			t.Fatal(err)
		}
		<-first.Recall
		first.Release()
		if d.slots != 2 || d.free["GPU-0"] {
			t.Errorf("%d slots were granted, free %v", d.slots, d.free)
		}
		second.Release()
		if !d.free["GPU-0"] || len(d.held) > 0 {
			t.Errorf("free %v, held %v", d.free, d.held)
		}
	})
}

// The slot stays for the worker that replaces one, though somebody else waits for the GPU;
// not for long, not if somebody released it, and not after the run.
func TestSlotOfAWorkerThatIsReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		between func(p *places, stop func())
		kept    bool
	}{
		"at once":         {func(*places, func()) {}, true},
		"never":           {func(*places, func()) { time.Sleep(2 * slotPatience) }, false},
		"after the run":   {func(_ *places, stop func()) { stop() }, false},
		"somebody else's": {func(p *places, _ func()) { p.hear(gpu.Event{Code: gpu.EventReleased, Lease: "slot-1"}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newFakeDaemon(1)
				p, _ := placesOf(t, d, BatchOptions{PerGPU: 1})
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				first, err := p.Acquire(ctx, batch.WorkerRequest{})
				if err != nil {
					t.Fatal(err)
				}
				if name == "somebody else's" {
					c.between(p, stop)
				}
				first.Again()
				first.Release()
				if name != "somebody else's" {
					c.between(p, stop)
				}
				synctest.Wait()
				d.mu.Lock()
				free := d.free["GPU-0"]
				d.mu.Unlock()
				if free == c.kept {
					t.Errorf("the GPU is free: %v", free)
				}
				if !c.kept {
					return
				}
				second, err := p.Acquire(ctx, batch.WorkerRequest{})
				if err != nil || d.slots != 1 {
					t.Fatalf("%v, %d slots were taken", err, d.slots)
				}
				time.Sleep(2 * slotPatience)
				if d.free["GPU-0"] {
					t.Error("the slot was taken from its new worker")
				}
				second.Release()
				if !d.free["GPU-0"] || len(d.held) > 0 || len(p.slots) > 0 {
					t.Errorf("free %v, held %v", d.free, d.held)
				}
			})
		})
	}
}
