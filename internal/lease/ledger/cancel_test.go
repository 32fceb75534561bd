package ledger

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// A lease that was cancelled is told to whoever ends its processes, and again after a
// crash of the daemon, until it is revoked.
func TestCancelSurvivesACrash(t *testing.T) {
	w := newWorld()
	told := make(chan string, 9)
	w.changed = func(e *lease.Effect) {
		if e.Kind == lease.Overran {
			told <- e.After.ID + ": " + e.After.OverrunText()
		}
	}
	k := w.start(t)
	app, script := child(t), child(t)
	k.device(0, 100)
	k.grant(want("app", 10, k.bound(app.Process.Pid)))
	k.grant(want("script", 10, k.implied(script.Process.Pid)))
	for _, id := range []string{"app", "script"} {
		cancelled, err := k.Cancel(t.Context(), byID(id), 0, by(1), "enough")
		if err != nil || cancelled.Cancelled == nil {
			t.Fatalf("%s: %+v %v", id, cancelled, err)
		}
		if got := <-told; got != id+": it was cancelled: enough" {
			t.Errorf("told: %s", got)
		}
	}
	k.die(w.disk.Kill)
	kill(t, script)

	k = w.start(t)
	k.device(0, 100)
	if e := k.told(gpu.EventRevoked, "script"); !strings.Contains(e.Text, "was ended: it was cancelled: enough") { // and not kept, as an implied lease would be
		t.Errorf("script: %s", e.Text)
	}
	if got := <-told; got != "app: it was cancelled: enough" {
		t.Errorf("told: %s", got)
	}
	kill(t, app)
	if e := k.told(gpu.EventRevoked, "app"); e.By.User != by(1).User {
		t.Errorf("app: %+v", e)
	}
	if got := k.leases(); len(got) != 0 {
		t.Errorf("leases are %v", got)
	}
}

// Whoever cancels a part of a launcher's lease means the launcher, and a request that
// waits is withdrawn.
func TestWhatACancelMeans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.changed = func(*lease.Effect) {} // somebody else ends the processes
		k := w.start(t)
		k.device(0, 100)
		slot := k.grant(want("slot", 0, slots(1)))
		part := func(r *lease.Request) { r.Parent = "slot" }
		worker := k.grant(want("worker", 40, slots(0), part))
		if _, err := k.Cancel(t.Context(), byID("worker"), worker.Fence-1, by(1), ""); !errors.Is(err, lease.ErrStaleFence) {
			t.Errorf("with an old fence: %v", err)
		}
		if _, err := k.Cancel(t.Context(), byID("worker"), 0, by(2), ""); !errors.Is(err, lease.ErrUnknown) {
			t.Errorf("somebody else: %v", err)
		}
		cancelled, err := k.Cancel(t.Context(), byID("worker"), worker.Fence, by(1), "")
		if err != nil || cancelled.ID != slot.ID || cancelled.Fence != slot.Fence {
			t.Errorf("a worker: %+v %v", cancelled, err)
		}
		if held, _ := k.Find(worker.Key()); held.Cancelled != nil {
			t.Error("its launcher ends the worker, and nobody else does")
		}
		waits := k.queue(t.Context(), want("waits", 90, wait(time.Hour)))
		if cancelled, err := k.Cancel(t.Context(), byID("waits"), 0, by(1), ""); err != nil || cancelled != nil {
			t.Errorf("a request: %+v %v", cancelled, err)
		}
		if d := <-waits; !errors.Is(d.err, ErrWithdrawn) {
			t.Errorf("who waited got %v", d.err)
		}
		if _, err := k.Cancel(t.Context(), byID("nothing"), 0, by(1), ""); !errors.Is(err, lease.ErrUnknown) {
			t.Errorf("nothing: %v", err)
		}
		if got := k.leases(); !slices.Equal(got, []string{"slot", "worker"}) {
			t.Errorf("leases are %v", got)
		}
	})
}

// A lease that is about to be revoked is handed to no minder: whoever ends its processes
// may not find the minder any more.
func TestHandWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.changed = func(*lease.Effect) {} // somebody else ends the processes
		k := w.start(t)
		k.device(0, 100)
		cancelled, late := k.grant(want("cancelled", 10)), k.grant(want("late", 10, timed(time.Minute)))
		if _, err := k.Cancel(t.Context(), byID("cancelled"), 0, by(1), "enough"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // simulated
		for _, l := range []*lease.Lease{cancelled, late} {
			if bound, err := k.Hand(t.Context(), l.Key(), l.Fence, process.ID{PID: 7, Start: 7}); !errors.Is(err, lease.ErrUnknown) {
				t.Errorf("%s: %+v, %v", l.ID, bound, err)
			}
		}
	})
}
