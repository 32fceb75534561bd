package checkup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/enforce/checkup"
	"github.com/berth-gpu/berth/internal/health/drains"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

var (
	card  = gpu.Device{UUID: "GPU-a", Index: 2, MemoryTotal: 10000}
	quick = proof.Ask{Verb: proof.Check, Kind: proof.Quick}
)

// world is all that a Checkup works with: it answers as it is told, and notes
// what it hears.
type world struct {
	t     *testing.T
	sum   lease.Sum
	prove func(ctx context.Context, a proof.Ask, tell func(proof.Step)) (proof.Result, error)

	closures *drains.Drains
	reads    atomic.Int32
	mu       sync.Mutex
	heard    []string
	events   []gpu.Event
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, fmt.Sprintf(format, args...))
}

func (w *world) Prove(ctx context.Context, on gpu.Device, a proof.Ask, tell func(proof.Step)) (proof.Result, error) {
	if w.closures.Why(on) == "" {
		w.t.Error("the device is open while it is asked")
	}
	w.note("asked for %s %s with %d MiB", a.Verb, a.Kind, a.Memory)
	return w.prove(ctx, a, tell)
}

func (w *world) Read(_ context.Context, uuid string) {
	if !w.closures.Held(uuid) {
		w.t.Error("the device is open before it was read again")
	}
	w.reads.Add(1)
}

func (w *world) Checked(uuid string, began time.Time, o proof.Verdict, why string) {
	w.note("%s after %v: %s", o, time.Since(began), why)
}

func (w *world) Sum(string) ledger.DeviceSum { return ledger.DeviceSum{Sum: w.sum} }

func (w *world) publish(e gpu.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func newWorld(t *testing.T) (*world, *checkup.Checkup) {
	t.Helper()
	k, _ := drains.Open("")
	w := &world{t: t, closures: k, sum: lease.Sum{Capacity: lease.Capacity{Total: 10000, Reserve: 512}}}
	w.prove = func(_ context.Context, a proof.Ask, tell func(proof.Step)) (proof.Result, error) {
		time.Sleep(5 * time.Second)
		steps := []proof.Step{proof.Memory(a.Memory, 3, proof.Wrong{}), proof.Compute(1000, proof.Wrong{})}
		tell(proof.Step{Name: proof.StepMemory, Done: 10})
		tell(proof.Step{Name: proof.StepMemory, Done: 60})
		tell(proof.Step{Name: proof.StepMemory, Done: 70})
		for _, s := range steps {
			tell(s)
		}
		return proof.Judge(a, steps, 5*time.Second), nil
	}
	return w, checkup.New(checkup.Options{Prover: w, Monitor: w, Leases: w, Closures: k, Publish: w.publish})
}

// A check takes what could be leased and no more, and the device is closed as
// long as it lasts.
func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		w.sum.Leased, w.sum.Foreign = 4000, 488
		r, err := c.Check(t.Context(), card, quick, gpu.By{User: "alice"})
		if err != nil || r.Verdict != proof.Passed || r.Memory != 5000 {
			t.Errorf("%+v, %v", r, err)
		}
		if want := []string{"asked for check quick with 5000 MiB", "passed after 5s: 4.9 GiB of memory and the computation are right"}; !slices.Equal(w.heard, want) {
			t.Errorf("heard %q", w.heard)
		}
		if why := w.closures.Why(card); why != "" || w.reads.Load() != 1 {
			t.Errorf("closed afterwards: %q; read %d times", why, w.reads.Load())
		}
		var texts []string
		for _, e := range w.events {
			if e.Code != gpu.EventCheck || e.GPU != "GPU-a" || e.By.User != "alice" || e.Severity != gpu.Note || e.Data["kind"] != "quick" {
				t.Errorf("event %+v", e)
			}
			texts = append(texts, e.Text)
		}
		want := []string{
			"GPU 2: it is being checked, with 4.9 GiB of 9.8 GiB",
			"GPU 2: memory is at 60 %",
			"GPU 2: memory passed: 4.9 GiB, 3 patterns",
			"GPU 2: compute passed: 1000 results",
			"GPU 2: its quick check passed: 4.9 GiB of memory and the computation are right",
		}
		if !slices.Equal(texts, want) {
			t.Errorf("told\n%s\nwant\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestCheckThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		w.prove = func(_ context.Context, a proof.Ask, _ func(proof.Step)) (proof.Result, error) {
			return proof.Judge(a, []proof.Step{proof.Memory(a.Memory, 3, proof.Wrong{Count: 1, At: 64, Expected: 1, Found: 3})}, time.Second), nil
		}
		r, err := c.Check(t.Context(), card, quick, gpu.By{})
		if err != nil || r.Verdict != proof.Failed || !strings.HasPrefix(w.heard[1], "failed after 0s: memory: 1 word") {
			t.Errorf("%+v, %v; heard %q", r, err, w.heard)
		}
		if last := w.events[len(w.events)-1]; last.Severity != gpu.Serious || last.Data["verdict"] != "failed" {
			t.Errorf("told %+v", last)
		}
	})
}

// A device without room, or without anybody who can ask it, could not be asked.
// A look for residue says nothing about trust.
func TestCheckThatCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		w.sum.Leased = 10000
		r, err := c.Check(t.Context(), card, quick, gpu.By{})
		if err != nil || r.Verdict != proof.Unasked || !slices.Equal(w.heard, []string{"could_not_be_asked after 0s: all of its memory is leased or in use"}) {
			t.Errorf("%+v, %v; heard %q", r, err, w.heard)
		}
		w, c = newWorld(t)
		c.Prover = nil
		if r, err := c.Check(t.Context(), card, quick, gpu.By{}); err != nil || r.Verdict != proof.Unasked {
			t.Errorf("%+v, %v", r, err)
		}
		w, c = newWorld(t)
		w.prove = func(_ context.Context, a proof.Ask, _ func(proof.Step)) (proof.Result, error) {
			return proof.Judge(a, []proof.Step{proof.Look(a.Memory, 7)}, time.Second), nil
		}
		if r, err := c.Check(t.Context(), card, proof.Ask{Verb: proof.Residue}, gpu.By{}); err != nil || r.Left != 7 || len(w.heard) != 1 {
			t.Errorf("%+v, %v; heard %q", r, err, w.heard)
		}
	})
}

// One check at a time on a device, and as many devices as there are. A caller who
// leaves changes nothing.
func TestChecksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		w.prove = func(ctx context.Context, a proof.Ask, _ func(proof.Step)) (proof.Result, error) {
			<-ctx.Done()
			return proof.Unable(a, nil, "it was stopped", time.Second), nil
		}
		ctx, leave := context.WithCancel(t.Context())
		given := make(chan error, 2)
		for _, on := range []gpu.Device{card, {UUID: "GPU-b"}} {
			go func() {
				_, err := c.Check(ctx, on, quick, gpu.By{})
				given <- err
			}()
		}
		synctest.Wait()
		busy := (*drains.BusyError)(nil)
		if _, err := c.Check(t.Context(), card, quick, gpu.By{}); !errors.As(err, &busy) || busy.Why != "it is being checked" {
			t.Errorf("a second check: %v", err)
		}
		leave()
		for range 2 {
			if err := <-given; !errors.Is(err, context.Canceled) {
				t.Errorf("left: %v", err)
			}
		}
		if len(w.heard) != 2 || w.closures.Why(card) != "" {
			t.Errorf("heard %q, closed %q", w.heard, w.closures.Why(card))
		}
	})
}

// A device that is due is checked once, however often that is said meanwhile, and
// a check under way ends with Run.
func TestDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); c.Run(ctx) }()
		for range 5 {
			c.Due(card)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if len(w.heard) != 2 || !strings.HasPrefix(w.heard[1], "passed") {
			t.Fatalf("heard %q", w.heard)
		}
		w.prove = func(ctx context.Context, a proof.Ask, _ func(proof.Step)) (proof.Result, error) {
			<-ctx.Done()
			return proof.Result{}, ctx.Err()
		}
		c.Due(card)
		synctest.Wait()
		cancel()
		<-ended
		if len(w.heard) != 3 {
			t.Errorf("heard %q", w.heard)
		}
	})
}

// A scrub takes what a new lease holds beside what could be leased, and waits for
// a check that runs.
func TestScrubWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		w.sum.Leased = 4488
		checked := make(chan error, 1)
		go func() {
			_, err := c.Check(t.Context(), card, quick, gpu.By{})
			checked <- err
		}()
		synctest.Wait()
		begun := time.Now()
		w.prove = func(_ context.Context, a proof.Ask, _ func(proof.Step)) (proof.Result, error) {
			return proof.Judge(a, []proof.Step{proof.Scrubbed(a.Memory, 0)}, time.Second), nil
		}
		r, err := c.Scrub(t.Context(), card, 1000)
		if err != nil || r.Verdict != proof.Passed || r.Memory != 6000 || time.Since(begun) != 5*time.Second {
			t.Errorf("%+v, %v after %v", r, err, time.Since(begun))
		}
		if err := <-checked; err != nil {
			t.Error(err)
		}
		if last := w.events[len(w.events)-1]; last.Code != gpu.EventScrub {
			t.Errorf("told %+v", last)
		}
	})
}
