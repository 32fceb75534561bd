package mover_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
)

// steps counts the steps that are taken.
func steps(w *world) *int {
	n := 0
	w.plan(func(move.Step) string { n++; return "" })
	return &n
}

// Several processes of a lease may share memory of the device: it is not touched,
// unless its owner says that they do not.
func TestMayShareMemory(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		w.begin("a", a.Fence, 2*gib)
		taken := steps(w)
		refused := (*move.RefusedError)(nil)
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); !errors.As(err, &refused) || refused.Code != move.MemoryShared || !strings.Contains(refused.Next, "berth park a --unshared") {
			t.Fatalf("%v", err)
		}
		if _, ever := w.now.Of(a.Fence); *taken != 0 || ever {
			t.Errorf("%d steps were taken", *taken)
		}
		w.active(a)
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", true); err != nil {
			t.Fatal(err)
		}
		w.parked(a)
		if s, _ := w.now.Of(a.Fence); s.Ground != move.Word {
			t.Errorf("%+v", s)
		}
		if told := w.now.told(gpu.EventParked, "a"); len(told) == 0 || told[len(told)-1].Data["unshared_by"] != "owner" {
			t.Errorf("%+v", told)
		}
		if err := w.now.Resume(t.Context(), a.Key(), a.Fence, byU, "", forever); err != nil {
			t.Fatal(err)
		}
		w.active(a)
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); !errors.As(err, &refused) {
			t.Errorf("the word was good for more than once: %v", err)
		}
	})
}

// New processes of a parked lease that may share memory are not parked. People are told
// once, whatever becomes of the reason, and the watchdog hears that the lease uses what
// others may have leased, until they are gone.
func TestAstray(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); err != nil {
			t.Fatal(err)
		}
		check := func(moment string, want bool, told int) {
			t.Helper()
			time.Sleep(20 * time.Second)
			if most, astray := w.now.Astray(a.Fence); astray != want || most != 0 != want || most > 7*16 {
				t.Errorf("%s: %s may remain, astray: %v", moment, most, astray)
			}
			if s, _ := w.now.Of(a.Fence); (s.Failed != "") != want {
				t.Errorf("%s: its status says %q", moment, s.Failed)
			}
			all := w.now.told(gpu.EventParked, "a")
			all = slices.DeleteFunc(all, func(e gpu.Event) bool { return e.Severity != gpu.Serious })
			if len(all) != told {
				t.Errorf("%s: people are told %d times, want %d: %v", moment, len(all), told, all)
			}
		}
		check("parked", false, 0)
		var news []*proc
		for n := range 3 {
			news = append(news, w.begin("a", a.Fence, 2*gib), w.begin("a", a.Fence, 2*gib))
			check(fmt.Sprintf("%d pairs have begun", n+1), true, 1)
			if n == 0 {
				continue
			}
			w.End(news[0].PID)
			news = news[1:]
		}
		for _, p := range news {
			w.End(p.PID)
		}
		check("they are gone", false, 1)
		w.begin("a", a.Fence, 2*gib)
		check("one process begins, and is parked", false, 1)
		w.parked(a)
	})
}

// A process that has opened memory of another one is not touched, whatever its owner
// says. One that opens it in the last moment goes on.
func TestImportsMemory(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		taken, first := steps(w), w.of(a.Fence)[0]
		w.with(func() { first.imported = 512 })
		refused := (*move.RefusedError)(nil)
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", true); !errors.As(err, &refused) || refused.Code != move.Shared || *taken != 0 {
			t.Fatalf("%v after %d steps", err, *taken)
		}
		w.active(a)
		w.with(func() { first.imported = 0 })
		checkpoints := 0
		w.plan(func(step move.Step) string {
			switch step {
			case move.Lock:
				w.with(func() { first.imported = 512 })
			case move.Checkpoint:
				checkpoints++
			}
			return ""
		})
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", true); !errors.As(err, &refused) || refused.Code != move.Shared || checkpoints != 0 {
			t.Fatalf("%v after %d checkpoints", err, checkpoints)
		}
		time.Sleep(time.Minute)
		w.active(a)
	})
}

// A process that begins while a lease is being parked is seen before its memory moves,
// and everything goes on.
func TestMayShareMemoryInBetween(t *testing.T) {
	for _, at := range []move.Step{move.Lock, move.Checkpoint} {
		inWorld(t, 100*gib, func(t *testing.T, w *world) {
			a := w.grant("a", 60*gib)
			var second *proc
			w.plan(func(step move.Step) string {
				if step == at && second == nil {
					second = w.begin("a", a.Fence, 2*gib)
				}
				return ""
			})
			refused := (*move.RefusedError)(nil)
			if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); !errors.As(err, &refused) || refused.Code != move.MemoryShared {
				t.Fatalf("%s: %v", at, err)
			}
			w.with(func() {
				if second.state == move.Checkpointed {
					t.Errorf("%s: the second process was taken off", at)
				}
			})
			time.Sleep(2 * time.Minute)
			w.active(a)
		})
	}
}

// berth warns and parks nobody by itself whose processes may share memory, and one
// whose owner says that they do not as any other.
func TestNobodyWhoMayShareIsDisplaced(t *testing.T) {
	for name, said := range map[string]bool{"not said": false, "said": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 100*gib, func(t *testing.T, w *world) {
				a := w.grant("a", 60*gib, func(r *lease.Request) { r.Unshared = said })
				w.begin("a", a.Fence, 2*gib)
				w.now.Read(t.Context(), w.uuid)
				if kept := w.now.Kept(a); (kept == "") != said {
					t.Errorf("kept: %q", kept)
				}
				w.queue("b", 60*gib)
				time.Sleep(20 * time.Minute)
				if said {
					if s, _ := w.now.Of(a.Fence); s.Times == 0 {
						t.Errorf("it was never parked: %+v", s)
					}
					return
				}
				w.active(a)
				if told := len(w.now.told(gpu.EventParked, "a")) + len(w.now.told(gpu.EventParking, "a")); told > 0 {
					t.Errorf("%d events", told)
				}
				if err := w.now.ParkIdle(t.Context(), a.Key(), a.Fence, ""); err == nil || len(w.now.told(gpu.EventParking, "a")) > 0 {
					t.Errorf("idle: %v", err)
				}
			})
		})
	}
}
