package mover_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// owner stands in for the owner of the programs of services.
type owner struct {
	mu    sync.Mutex
	uses  map[uint64]placement.ProgramUse
	away  []uint64
	whys  []string
	gone  func(fence uint64) // called when one is sent away for the first time
	began []time.Time        // when they were sent away
}

func (o *owner) Use(_ lease.Key, fence uint64) (placement.ProgramUse, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	u, runs := o.uses[fence]
	return u, runs
}

func (o *owner) Away(_ lease.Key, fence uint64, wanter lease.Key, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	u := o.uses[fence]
	if u.Leaves {
		return
	}
	u.Leaves = true
	o.uses[fence] = u
	o.away, o.whys, o.began = append(o.away, fence), append(o.whys, wanter.ID+": "+why), append(o.began, time.Now())
	if o.gone != nil {
		go o.gone(fence)
	}
}

// set says how the program of a lease is used from now on.
func (o *owner) set(fence uint64, u placement.ProgramUse) {
	o.mu.Lock()
	o.uses[fence] = u
	o.mu.Unlock()
}

// sent returns which leases were sent away so far.
func (o *owner) sent() []uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.away)
}

// serves gives the daemon of a world an owner who stops what is sent away.
func (w *world) serves() *owner {
	o := &owner{uses: map[uint64]placement.ProgramUse{}}
	w.now.Serve(o)
	return o
}

// fixedLease makes a request for a lease that may not be parked.
func fixedLease(r *lease.Request) { r.Parkable = false }

// A program that berth runs is sent away for a request that waits, though its lease may
// not be parked and the machine has no memory for it: its owner stops it, and the request
// gets its room. Nobody is warned, and nothing is parked.
func TestAProgramIsSentAway(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		w.set(func() { w.settings.ParkHost = gpu.Some[gpu.MiB](0) })
		o := w.serves()
		a := w.grant("a", 60*gib, fixedLease)
		o.gone = func(fence uint64) {
			time.Sleep(3 * time.Second) // its open requests end
			w.End(w.of(fence)[0].PID)
			if _, err := w.current().book.Release(t.Context(), lease.Name{ID: "a"}, 0, byU); err != nil {
				t.Error(err)
			}
		}
		o.set(a.Fence, placement.ProgramUse{Since: time.Now(), Idle: time.Now()})
		asked := time.Now()
		b := w.queue("b", 60*gib)
		if l := <-b; l == nil {
			t.Fatal("b was not granted")
		}
		synctest.Wait()
		if got := o.sent(); !slices.Equal(got, []uint64{a.Fence}) || o.whys[0] != "b: b waits for its device" {
			t.Errorf("sent away are %v, because %v", got, o.whys)
		}
		if took := o.began[0].Sub(asked); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("it was sent away after %v; want 10 s, which others wait for a program", took)
		}
		if told := w.now.told(gpu.EventParking, "a"); len(told) != 0 {
			t.Errorf("people are told %v", told)
		}
	})
}

// A program that comes and goes quickly is sent away sooner.
func TestAQuickProgramIsSentAwaySooner(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		o := w.serves()
		a := w.grant("a", 60*gib, fixedLease)
		o.gone = func(fence uint64) {
			w.End(w.of(fence)[0].PID)
			if _, err := w.current().book.Release(t.Context(), lease.Name{ID: "a"}, 0, byU); err != nil {
				t.Error(err)
			}
		}
		o.set(a.Fence, placement.ProgramUse{Since: time.Now(), Idle: time.Now(), Switch: 500 * time.Millisecond})
		asked := time.Now()
		if l := <-w.queue("b", 60*gib); l == nil {
			t.Fatal("b was not granted")
		}
		if took := o.began[0].Sub(asked); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("it was sent away after %v; want 2 s, as long as 4 of its switches", took)
		}
	})
}

// While it comes, a program stays; with open requests it keeps its device for
// keep_seconds; and it is looked at as soon as its owner nudges.
func TestAProgramWithRequestsStays(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		w.set(func() { w.services = map[string]config.Service{"s": {Keep: gpu.Some(30 * time.Second)}} })
		o := w.serves()
		a := w.grant("a", 60*gib, fixedLease, func(r *lease.Request) { r.Holder.Service = "s" })
		o.set(a.Fence, placement.ProgramUse{})
		w.queue("b", 60*gib)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if got := o.sent(); len(got) != 0 {
			t.Fatalf("it is sent away while it comes: %v", got)
		}
		o.set(a.Fence, placement.ProgramUse{Since: time.Now()})
		w.now.Nudge()
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if got := o.sent(); len(got) != 0 {
			t.Fatalf("it is sent away in its least stay: %v", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := o.sent(); len(got) != 1 {
			t.Errorf("after its least stay, sent away are %v", got)
		}
		time.Sleep(20 * time.Minute)
		if got := o.sent(); len(got) != 1 {
			t.Errorf("while it leaves, it is sent away %d times", len(got))
		}
		o.set(a.Fence, placement.ProgramUse{Since: time.Now().Add(-time.Hour), Barred: time.Now().Add(5 * time.Minute)})
		w.now.Nudge()
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if got := o.sent(); len(got) != 1 {
			t.Errorf("after it could not leave, it is sent away at once: %d times", len(got))
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := o.sent(); len(got) != 2 {
			t.Errorf("some time after it could not leave, it was sent away %d times", len(got))
		}
	})
}

// A service with keep: true is never sent away by berth itself, be it a program that berth
// runs or not, and nor is it parked because it is idle.
func TestKeepIsNeverSentAway(t *testing.T) {
	for _, runs := range []bool{true, false} {
		inWorld(t, 100*gib, func(t *testing.T, w *world) {
			w.set(func() { w.services = map[string]config.Service{"s": {Stays: "true"}} })
			o := w.serves()
			a := w.grant("a", 60*gib, func(r *lease.Request) { r.Holder.Service = "s" })
			if runs {
				o.set(a.Fence, placement.ProgramUse{Since: time.Now(), Idle: time.Now()})
			}
			w.setMu.Lock()
			w.idle[a.Fence] = time.Now()
			w.setMu.Unlock()
			w.queue("b", 60*gib)
			time.Sleep(2 * time.Hour)
			w.active(a)
			if got := o.sent(); len(got) != 0 {
				t.Errorf("program %v: %v is sent away", runs, got)
			}
			refused := (*move.RefusedError)(nil)
			if err := w.now.ParkIdle(t.Context(), a.Key(), a.Fence, "it is idle"); !errors.As(err, &refused) || refused.Code != move.Unparkable {
				t.Errorf("program %v: an optimization parks it: %v", runs, err)
			}
			if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); err != nil {
				t.Errorf("program %v: by hand it is not parked: %v", runs, err)
			}
		})
	}
}

// The slice, the least stay and the longest wait of a service count for its leases alone.
func TestTurnsOfAService(t *testing.T) {
	for service, want := range map[string]time.Duration{"": 300 * time.Second, "quick": 20 * time.Second, "patient": 100 * time.Second} {
		inWorld(t, 100*gib, func(t *testing.T, w *world) {
			w.set(func() {
				w.settings.ParkGrace = 0
				w.services = map[string]config.Service{"quick": {Keep: gpu.Some(time.Second), TimeSlice: gpu.Some(20 * time.Second)}, "patient": {LongestWait: gpu.Some(100 * time.Second)}}
			})
			a := w.grant("a", 60*gib, func(r *lease.Request) { r.Holder.Service = service })
			w.queue("b", 60*gib)
			time.Sleep(want - time.Second)
			synctest.Wait()
			if s, _ := w.now.Of(a.Fence); s.Phase != "" {
				t.Errorf("a lease of service %q is parked before %v", service, want)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if s, _ := w.now.Of(a.Fence); s.Phase != move.Parking {
				t.Errorf("a lease of service %q is not parked after %v", service, want)
			}
		})
	}
}
