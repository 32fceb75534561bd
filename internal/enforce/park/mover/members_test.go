package mover_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/enforce/park/mover"
	"github.com/berth-gpu/berth/internal/lease"
)

// A process that a lease starts while it is being parked is parked too, and one that
// takes more memory until it is locked gets all of it back.
func TestGrowsWhileItIsParked(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		first := w.of(a.Fence)[0]
		w.plan(func(step move.Step) string {
			if step == move.Lock && len(w.of(a.Fence)) == 1 {
				w.with(func() { first.memory += 3 * gib })
				w.begin("a", a.Fence, 2*gib)
			}
			return ""
		})
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", true); err != nil {
			t.Fatal(err)
		}
		w.parked(a)
		if s, _ := w.now.Of(a.Fence); s.Host != 65*gib || len(w.of(a.Fence)) != 2 {
			t.Errorf("%+v", s)
		}
		other := w.grant("b", 36*gib) // leaves room for what a has leased, and not for what it had
		resumed := make(chan error, 1)
		go func() { resumed <- w.now.Resume(t.Context(), a.Key(), a.Fence, byU, "", forever) }()
		time.Sleep(time.Minute)
		if s, _ := w.now.Of(a.Fence); s.Phase != move.Resuming || !strings.Contains(s.Failed, "beyond what it has leased") {
			t.Errorf("%+v", s)
		}
		w.End(w.of(other.Fence)[0].PID)
		if _, err := w.now.book.Release(t.Context(), lease.Name{ID: "b"}, 0, byU); err != nil {
			t.Fatal(err)
		}
		if err := <-resumed; err != nil {
			t.Fatal(err)
		}
		w.active(a)
	})
}

// A process that begins to use the device under a parked lease is parked with it.
func TestBeginsWhileItIsParked(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); err != nil {
			t.Fatal(err)
		}
		w.begin("a", a.Fence, 5*gib)
		time.Sleep(time.Minute)
		w.parked(a)
		if s, _ := w.now.Of(a.Fence); s.Host != 65*gib {
			t.Errorf("%+v", s)
		}
		if err := w.now.Resume(t.Context(), a.Key(), a.Fence, byU, "", forever); err != nil {
			t.Fatal(err)
		}
		w.active(a)
	})
}

// A lease whose programs run and have nothing on the device yet is not parked for
// others: they would begin without room.
func TestNotYetBegun(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		w.with(func() {
			for _, p := range w.procs {
				p.memory = 0
			}
		})
		w.queue("b", 60*gib)
		time.Sleep(20 * time.Minute)
		w.active(a)
		if told := w.now.told(gpu.EventParked, "a"); len(told) == 0 || len(told) > 6 || told[0].Data["failed"] != true {
			t.Errorf("it was told %d times that it could not be parked", len(told))
		}
	})
}

// Without its file a daemon asks the driver about every lease.
func TestDamagedFile(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		parked, moving, still := w.grant("parked", 20*gib), w.grant("moving", 30*gib), w.grant("still", 10*gib)
		if err := w.now.Park(t.Context(), parked.Key(), parked.Fence, byU, "", false); err != nil {
			t.Fatal(err)
		}
		w.plan(func(step move.Step) string {
			if step == move.Checkpoint {
				w.plan(func(move.Step) string { return "" })
				return "die after"
			}
			return ""
		})
		if err := w.now.Park(t.Context(), moving.Key(), moving.Fence, byU, "", false); err == nil {
			t.Fatal("the daemon was not killed")
		}
		if err := os.WriteFile(w.file, []byte(`{"boot":"this boot","leases":[{"fence":`), 0o600); err != nil {
			t.Fatal(err)
		}
		// A daemon that is killed before it has asked leaves that to the next one.
		_, damage := mover.New(mover.Options{Path: w.file, Boot: w.boot, Log: slog.New(slog.DiscardHandler)})
		if damage == nil || damage.Aside == "" {
			t.Errorf("the damage is %v", damage)
		}
		w.restart()
		time.Sleep(5 * time.Minute)
		w.active(moving)
		w.active(still)
		w.active(parked) // it may be parked, so it waited for its turn
		if w.damage != nil {
			t.Errorf("the next file is damaged too: %v", w.damage)
		}
	})
}

// A machine that starts again has no processes. A lease that stands is parked still,
// and comes back without them.
func TestAnotherBoot(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); err != nil {
			t.Fatal(err)
		}
		w.stop()
		for _, p := range w.of(a.Fence) {
			w.End(p.PID)
		}
		w.boot = "another boot"
		w.begin("somebody else", 0, 90*gib) // with the memory and perhaps the pids
		w.start()
		w.parked(a)
		if c := w.now.Counts(); c.Host != 0 {
			t.Errorf("%s are taken", c.Host)
		}
		w.with(func() { clear(w.procs) })
		time.Sleep(2 * time.Second)
		if err := w.now.Resume(t.Context(), a.Key(), a.Fence, byU, "", forever); err != nil {
			t.Fatal(err)
		}
		w.active(a)
	})
}

// A daemon that stops in the middle leaves it to the next one.
func TestStopsInTheMiddle(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		done := make(chan error, 1)
		go func() { done <- w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false) }()
		time.Sleep(20 * time.Second)
		w.restart()
		if err := <-done; err == nil {
			t.Error("it was parked")
		}
		time.Sleep(2 * time.Minute)
		w.active(a)
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.parked(a)
		go func() { done <- w.now.Resume(t.Context(), a.Key(), a.Fence, byU, "", forever) }()
		time.Sleep(5 * time.Second)
		w.restart()
		if err := <-done; err == nil {
			t.Error("it was resumed")
		}
		time.Sleep(2 * time.Minute)
		w.active(a)
	})
}
