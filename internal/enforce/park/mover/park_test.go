package mover_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park"
	"github.com/berth-gpu/berth/internal/lease"
)

var (
	forever = gpu.Opt[time.Duration]{}
	atOnce  = gpu.Some(time.Duration(0))
	byU     = access.Actor{User: "u", UID: 1000, Door: access.Socket, Role: access.User}
)

func TestParkAndResume(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		l := w.grant("a", 60*gib)
		w.begin("a", l.Fence, 2*gib) // a second process
		if err := w.now.Park(t.Context(), l.Key(), l.Fence, byU, "lunch", true); err != nil {
			t.Fatal(err)
		}
		w.parked(l)
		s, _ := w.now.Of(l.Fence)
		if s.Host != 62*gib || s.Returns || s.Times != 1 || s.By.User != "u" || s.Why != "lunch" || s.Moving < 40*time.Second {
			t.Errorf("its status is %+v", s)
		}
		if c := w.now.Counts(); c.Parked != 1 || c.Host != 62*gib || c.Moved[park.Away] != 62*gib {
			t.Errorf("the counts are %+v", c)
		}
		time.Sleep(time.Hour)
		w.parked(l) // it stays until somebody resumes it
		other := w.grant("b", 90*gib)
		if err := w.now.Resume(t.Context(), l.Key(), l.Fence, byU, "", atOnce); err == nil {
			t.Error("it was resumed without room")
		}
		w.parked(l)
		w.End(w.of(other.Fence)[0].PID)
		if _, err := w.now.book.Release(t.Context(), lease.Name{ID: "b"}, 0, byU); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // until the card is measured
		if err := w.now.Resume(t.Context(), l.Key(), l.Fence, byU, "", atOnce); err != nil {
			t.Fatal(err)
		}
		w.active(l)
		if c := w.now.Counts(); c.Parked != 0 || c.Host != 0 || c.Moved[park.Back] != 62*gib {
			t.Errorf("the counts are %+v", c)
		}
		synctest.Wait()
		for _, code := range []gpu.EventCode{gpu.EventParking, gpu.EventParked, gpu.EventResuming, gpu.EventResumed} {
			if n := len(w.now.told(code, "a")); n != 1 {
				t.Errorf("%s was told %d times", code, n)
			}
		}
	})
}

// Whoever parks a lease is answered, also if it ends at any moment from then on.
func TestParkOfALeaseThatEndsMeanwhile(t *testing.T) {
	for _, moment := range []string{"after Unparkable", "before Park", "after Park"} {
		inWorld(t, 100*gib, func(t *testing.T, w *world) {
			l := w.grant("a", 60*gib)
			w.setMu.Lock()
			w.point = func(name string) {
				if name != moment {
					return
				}
				if held := w.now.book.Lease(l.Key(), l.Fence); held != nil {
					w.End(w.of(l.Fence)[0].PID)
					if err := w.now.book.Revoke(t.Context(), l.Key(), l.Fence, "it was cancelled", nil); err != nil {
						t.Error(err)
					}
				}
			}
			w.setMu.Unlock()
			answer := make(chan error, 1)
			go func() { answer <- w.now.Park(t.Context(), l.Key(), l.Fence, byU, "lunch", true) }()
			time.Sleep(time.Hour)
			select {
			case err := <-answer:
				if moment != "after Park" && !errors.Is(err, lease.ErrUnknown) {
					t.Errorf("%s: answered with %v", moment, err)
				}
			default:
				t.Errorf("%s: nobody answered", moment)
			}
			if _, known := w.now.Of(l.Fence); known {
				t.Errorf("%s: the lease is not forgotten", moment)
			}
		})
	}
}

// An idle lease is parked for one that waits as soon as it has been idle for
// park_idle_after, whenever that begins: nothing tells the mover of it.
func TestIdleIsParkedInTime(t *testing.T) {
	for tenths := range 12 {
		inWorld(t, 100*gib, func(t *testing.T, w *world) {
			w.set(func() {
				w.settings.ParkIdleAfter, w.settings.Keep, w.settings.ParkGrace = 3*time.Second, time.Second, 0
			})
			a := w.grant("a", 60*gib)
			b := w.queue("b", 60*gib)
			time.Sleep(10*time.Second + time.Duration(tenths)*700*time.Millisecond)
			w.setMu.Lock()
			w.idle[a.Fence] = time.Now()
			w.setMu.Unlock()
			time.Sleep(2900 * time.Millisecond)
			synctest.Wait()
			if told := w.now.told(gpu.EventParking, "a"); len(told) != 0 {
				t.Errorf("idle for less than 3 s, it is parked: %v", told)
			}
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			if len(w.now.told(gpu.EventParking, "a")) == 0 {
				t.Errorf("idle for 3 s after %d tenths, it is not parked", tenths)
			}
			<-b
		})
	}
}

func TestResumeWaitsForRoom(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		l := w.grant("a", 60*gib)
		if err := w.now.Park(t.Context(), l.Key(), l.Fence, byU, "", false); err != nil {
			t.Fatal(err)
		}
		other := w.grant("b", 60*gib, func(r *lease.Request) { r.Parkable = false })
		resumed := make(chan error, 1)
		go func() { resumed <- w.now.Resume(t.Context(), l.Key(), l.Fence, byU, "", forever) }()
		time.Sleep(time.Minute)
		w.parked(l)
		// The book has room as soon as the lease is released. The device has it only
		// when the process is gone.
		if _, err := w.now.book.Release(t.Context(), lease.Name{ID: "b"}, 0, byU); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.End(w.of(other.Fence)[0].PID)
		if err := <-resumed; err != nil {
			t.Fatal(err)
		}
		w.active(l)
	})
}

func TestParkIsRefused(t *testing.T) {
	code := func(err error) move.Refusal {
		refused := (*move.RefusedError)(nil)
		if errors.As(err, &refused) {
			return refused.Code
		}
		return ""
	}
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		l := w.grant("a", 60*gib)
		try := func() error { return w.now.Park(t.Context(), l.Key(), l.Fence, byU, "", false) }
		for name, x := range map[string]struct {
			change, undo func()
			code         move.Refusal
			text         string
		}{
			"no memory at all":        {func() { w.set(func() { w.settings.ParkHost = gpu.Some[gpu.MiB](0) }) }, func() { w.set(func() { w.settings.ParkHost = gpu.Opt[gpu.MiB]{} }) }, move.NoHost, "park_host_mb"},
			"less than it has":        {func() { w.set(func() { w.settings.ParkHost = gpu.Some[gpu.MiB](60*gib - 1) }) }, func() { w.set(func() { w.settings.ParkHost = gpu.Opt[gpu.MiB]{} }) }, move.NoHost, "park_host_mb"},
			"the machine is full":     {func() { w.set(func() { w.host.available = 70 * gib }) }, func() { w.set(func() { w.host.available = 1000 * gib }) }, move.NoHost, "to spare"},
			"its control group":       {func() { w.set(func() { w.host.group = 10 * gib }) }, func() { w.set(func() { w.host.group = 0 }) }, move.NoHost, "memory.max"},
			"the driver refuses":      {func() { p := w.of(l.Fence)[0]; w.with(func() { p.refuses = 801 }) }, func() { p := w.of(l.Fence)[0]; w.with(func() { p.refuses = 0 }) }, move.Unmoved, "CUDA_ERROR_NOT_SUPPORTED"},
			"its process is stopped":  {func() { p := w.of(l.Fence)[0]; w.with(func() { p.stopped = true }) }, func() { p := w.of(l.Fence)[0]; w.with(func() { p.stopped = false }) }, move.Unparkable, "did not answer"},
			"a process is unattached": {func() { w.begin("a", 0, 1) }, func() {}, "", ""},
		} {
			if x.text == "" {
				continue
			}
			x.change()
			err := try()
			x.undo()
			if code(err) != x.code || !strings.Contains(fmt.Sprint(err), x.text) {
				t.Errorf("%s: %v", name, err)
			}
			synctest.Wait()
			w.active(l)
		}
		if err := w.now.Park(t.Context(), l.Key(), l.Fence+1, byU, "", false); !errors.Is(err, lease.ErrUnknown) {
			t.Errorf("another fence: %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- try() }()
		synctest.Wait()
		if err := try(); code(err) != move.Busy || !strings.Contains(err.Error(), "already being parked") {
			t.Errorf("twice at once: %v", err)
		}
		if err := w.now.Resume(t.Context(), l.Key(), l.Fence, byU, "", forever); code(err) != move.Busy {
			t.Errorf("resumed while it is parked: %v", err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := try(); !errors.Is(err, lease.ErrState) {
			t.Errorf("parked already: %v", err)
		}
		if err := w.now.Resume(t.Context(), l.Key(), l.Fence, byU, "", forever); err != nil {
			t.Error(err)
		}
		if err := w.now.Resume(t.Context(), l.Key(), l.Fence, byU, "", forever); !errors.Is(err, lease.ErrState) {
			t.Errorf("resume what is active: %v", err)
		}
		if err := w.now.Wake(t.Context(), l.Key(), l.Fence); err != nil {
			t.Errorf("wake what is active: %v", err)
		}
	})
}

// Two parks at once never take more memory of the machine than they may.
func TestHostMemoryIsSharedOut(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		w.set(func() { w.settings.ParkHost = gpu.Some[gpu.MiB](50 * gib) })
		a, b := w.grant("a", 40*gib), w.grant("b", 40*gib)
		results := make(chan error, 2)
		for _, l := range []*lease.Lease{a, b} {
			go func() { results <- w.now.Park(t.Context(), l.Key(), l.Fence, byU, "", false) }()
		}
		first, second := <-results, <-results
		if (first == nil) == (second == nil) {
			t.Errorf("%v, %v", first, second)
		}
		if c := w.now.Counts(); c.Host != 40*gib {
			t.Errorf("%s are taken", c.Host)
		}
	})
}

// A lease without processes has nothing to move, and gives up its room all the same.
func TestParkWithoutProcesses(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		l, err := w.now.book.Acquire(t.Context(), request("a", 60*gib))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.now.Park(t.Context(), l.Key(), l.Fence, byU, "", false); err != nil {
			t.Fatal(err)
		}
		w.grant("b", 90*gib)
		w.parked(l.Lease)
	})
}

func TestTurns(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		waits := w.queue("b", 60*gib)
		time.Sleep(299 * time.Second)
		w.active(a)
		b := <-waits
		if b == nil {
			t.Fatal("b was not granted")
		}
		if held := time.Since(a.Granted); held < 300*time.Second || held > 350*time.Second {
			t.Errorf("a had the card for %v", held)
		}
		w.parked(a)
		warnings := w.now.told(gpu.EventParking, "a")
		if len(warnings) != 2 || warnings[0].Data["for"] != "b" || warnings[0].Data["at"] == nil {
			t.Errorf("the warnings are %+v", warnings)
		}
		had := map[uint64]time.Duration{}
		for range 3600 {
			time.Sleep(time.Second)
			for _, l := range []*lease.Lease{a, b} {
				if w.states(l.Fence)[move.Running] == 1 {
					had[l.Fence] += time.Second
				}
			}
		}
		for fence, d := range had {
			if d < 1200*time.Second {
				t.Errorf("lease %d had the card for %v of an hour", fence, d)
			}
		}
		if c := w.now.Counts(); c.Turns < 9 {
			t.Errorf("there were %d turns in an hour", c.Turns)
		}
	})
}

func TestIdleLeaseMakesRoom(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		fixed := w.grant("c", 10*gib, func(r *lease.Request) { r.Holder.Service = "fixed" })
		w.set(func() { w.idle[a.Fence], w.idle[fixed.Fence] = time.Now(), time.Now() })
		time.Sleep(90 * time.Second)
		w.active(a) // nobody waits
		waits := w.queue("b", 60*gib)
		time.Sleep(3 * time.Second)
		w.active(a) // its grace runs
		w.set(func() { delete(w.idle, a.Fence) })
		time.Sleep(time.Minute)
		w.active(a) // it is used again
		w.set(func() { w.idle[a.Fence] = time.Now().Add(-time.Hour) })
		<-waits
		w.parked(a)
		w.active(fixed)
	})
}

// A program that asks for its lease again gets it back, also if somebody parked it
// by hand.
func TestWake(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		for _, source := range []move.Source{move.ByHand, move.ByLadder} {
			time.Sleep(2 * time.Minute)
			park := func() error { return w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false) }
			if source == "ladder" {
				w.set(func() { w.idle[a.Fence] = time.Now() })
				park = func() error { return w.now.ParkIdle(t.Context(), a.Key(), a.Fence, "it is idle") }
			}
			if err := park(); err != nil {
				t.Fatal(err)
			}
			w.parked(a)
			w.set(func() { // a program that asks to be woken has to run for that
				if w.awake != (source == "ladder") {
					t.Errorf("parked by %s, awake is %t", source, w.awake)
				}
			})
			if err := w.now.Wake(t.Context(), a.Key(), a.Fence); err != nil {
				t.Fatal(err)
			}
			w.active(a)
		}
		go func() { _ = w.now.Park(context.WithoutCancel(t.Context()), a.Key(), a.Fence, byU, "", false) }()
		time.Sleep(5 * time.Second)
		if err := w.now.Wake(t.Context(), a.Key(), a.Fence); err != nil { // while it is being parked
			t.Fatal(err)
		}
		w.active(a)
	})
}

func TestLadderParksAndGivesBack(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		w.set(func() { w.idle[a.Fence] = time.Now() })
		if err := w.now.ParkIdle(t.Context(), a.Key(), a.Fence, "it is idle"); err == nil {
			t.Error("a lease was parked that has its device for a moment")
		}
		time.Sleep(2 * time.Minute)
		w.set(func() { delete(w.idle, a.Fence) })
		if err := w.now.ParkIdle(t.Context(), a.Key(), a.Fence, "it is idle"); err == nil {
			t.Error("a lease was parked that is not idle")
		}
		w.set(func() { w.idle[a.Fence] = time.Now() })
		if err := w.now.ParkIdle(t.Context(), a.Key(), a.Fence, "it is idle"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(290 * time.Second)
		w.parked(a)
		time.Sleep(60 * time.Second)
		w.active(a)
	})
}

func TestLeaseEndsOnItsWay(t *testing.T) {
	for _, x := range []struct {
		name string
		dies bool
		free bool // the device has room for what comes back
	}{{"released", false, true}, {"killed", true, true}, {"released, and others take the room", false, false}} {
		t.Run(x.name, func(t *testing.T) {
			inWorld(t, 100*gib, func(t *testing.T, w *world) {
				a := w.grant("a", 60*gib)
				w.begin("a", a.Fence, 1*gib)
				done := make(chan error, 1)
				go func() { done <- w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", true) }()
				time.Sleep(10 * time.Second)
				if x.dies {
					for _, p := range w.of(a.Fence) {
						w.End(p.PID)
					}
				}
				if _, err := w.now.book.Release(t.Context(), lease.Name{ID: "a"}, 0, byU); err != nil {
					t.Fatal(err)
				}
				if !x.free {
					w.queue("b", 90*gib)
				}
				if err := <-done; x.free && !errors.Is(err, lease.ErrUnknown) {
					t.Errorf("it was parked: %v", err)
				}
				time.Sleep(2 * time.Minute)
				if left := len(w.of(a.Fence)); x.free && w.states(a.Fence)[move.Running] != left {
					t.Errorf("its processes are %v", w.states(a.Fence))
				}
				if !x.free {
					for _, p := range w.of(a.Fence) {
						w.End(p.PID)
					}
					time.Sleep(time.Minute)
				}
				if s, known := w.now.Of(a.Fence); known {
					t.Errorf("it is remembered: %+v", s)
				}
				if c := w.now.Counts(); c.Host != 0 {
					t.Errorf("%s are taken", c.Host)
				}
			})
		})
	}
}

func TestLeaseEndsWhileParked(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); err != nil {
			t.Fatal(err)
		}
		if err := w.now.book.Revoke(t.Context(), a.Key(), a.Fence, "a test", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if w.states(a.Fence)[move.Checkpointed] != 1 || w.now.Counts().Host != 60*gib {
			t.Errorf("%v, %+v", w.states(a.Fence), w.now.Counts())
		}
		w.End(w.of(a.Fence)[0].PID)
		time.Sleep(time.Minute)
		if _, known := w.now.Of(a.Fence); known || w.now.Counts().Host != 0 {
			t.Errorf("it is remembered: %+v", w.now.Counts())
		}
	})
}

func TestProcessDiesWhileParked(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); err != nil {
			t.Fatal(err)
		}
		w.End(w.of(a.Fence)[0].PID)
		if err := w.now.Resume(t.Context(), a.Key(), a.Fence, byU, "", forever); err != nil {
			t.Fatal(err)
		}
		w.active(a)
	})
}

// A process that somebody stops in the middle does not hold up anything for ever, and
// goes on when it is continued.
func TestStoppedInTheMiddle(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		p := w.of(a.Fence)[0]
		w.plan(func(step move.Step) string {
			if step == move.Checkpoint {
				w.with(func() { p.stopped = true })
			}
			return ""
		})
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); err == nil {
			t.Fatal("it was parked")
		}
		if s, _ := w.now.Of(a.Fence); s.Phase != move.Resuming || s.Failed == "" || w.state(a) != lease.Active {
			t.Errorf("%+v", s)
		}
		w.with(func() { p.stopped = false })
		time.Sleep(time.Hour)
		w.active(a)
	})
}
