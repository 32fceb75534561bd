package owner

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/job/service"
)

// persist has a person do something until it is done, whatever is killed.
func (w *world) persist(do func(*daemon) error) {
	for range 100 {
		d := w.now()
		if err := do(d); err == nil && !d.IsDead() || errors.Is(err, ErrState) {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	w.t.Fatalf("nobody takes the order")
}

// tidy fails unless the world has what the owner knows, and no more.
func (w *world) tidy() {
	w.t.Helper()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	var leases, servers, runs []string
	for name, s := range w.daemon.services {
		if i := s.life.Instance; i != nil && s.life.State.Leases() {
			leases, servers, runs = append(leases, i.LeaseID()), append(servers, name), append(runs, i.Run())
		}
	}
	got := []string{}
	for _, s := range w.servers {
		got = append(got, s.name)
	}
	for what, lists := range map[string][2][]string{
		"leases": {leases, slices.Collect(maps.Keys(w.leases))}, "servers": {servers, got}, "runs": {runs, slices.Collect(maps.Keys(w.Runs))},
	} {
		slices.Sort(lists[0])
		slices.Sort(lists[1])
		if !slices.Equal(lists[0], lists[1]) {
			w.t.Errorf("the owner knows the %s %v, and there are %v", what, lists[0], lists[1])
		}
	}
	if n := len(w.daemon.leftovers); n > 0 {
		w.t.Errorf("%d leftovers are not cleared", n)
	}
}

// scenarios are what people and requests do.
var scenarios = map[string]func(*testing.T, *world){
	"switches": func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "a", 3*time.Second))
		time.Sleep(70 * time.Second)
		answered(t, w.ask(t.Context(), "b", 3*time.Second))
		time.Sleep(70 * time.Second)
		answered(t, w.ask(t.Context(), "a", 3*time.Second))
		time.Sleep(time.Minute)
		w.is("a", "ready")
	},
	"stop and start": func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "a", 3*time.Second))
		w.persist(func(d *daemon) error { return d.Stop("a", operator, "") })
		time.Sleep(time.Minute)
		w.is("a", "stopped")
		refusal(t, <-w.ask(t.Context(), "a", time.Second))
		w.persist(func(d *daemon) error { return d.Start("a", operator, "") })
		time.Sleep(time.Minute)
		w.is("a", "ready")
	},
	"restart": func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "a", 3*time.Second))
		w.persist(func(d *daemon) error { return d.Restart("a", operator, "") })
		time.Sleep(time.Minute)
		w.is("a", "ready")
		if w.begun["a"] < 2 || w.begun["a"] > 3 { // it may be asked twice
			t.Errorf("it was started %d times", w.begun["a"])
		}
	},
	"move": func(t *testing.T, w *world) {
		w.Set(func() { w.room["G1"] = 80 })
		answered(t, w.ask(t.Context(), "a", 3*time.Second))
		w.persist(func(d *daemon) error { return d.Move("a", "G1", operator, "") })
		time.Sleep(time.Minute)
		w.is("a", "ready")
		if s, _ := w.now().Find("a"); !slices.Equal(s.Devices, []string{"G1"}) {
			t.Errorf("it is on %v", s.Devices)
		}
	},
	"failures": func(t *testing.T, w *world) {
		good := w.script
		w.Set(func() {
			w.script = func(name string, nth int) plan {
				if nth == 1 {
					return plan{come: -1, dies: 4 * time.Second}
				}
				return good(name, nth)
			}
		})
		if err := <-w.ask(t.Context(), "a", time.Second); err != nil {
			refusal(t, err)
		}
		time.Sleep(20 * time.Second)
		answered(t, w.ask(t.Context(), "a", time.Second))
		w.kill("a")
		time.Sleep(20 * time.Second)
		answered(t, w.ask(t.Context(), "a", time.Second))
	},
}

// A daemon that is killed before or after any of its effects leaves the next one a state
// from which it goes on: requests are answered, what people ordered is done, and nothing
// is left over.
func TestKilledAtEveryStep(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		play := scenarios[name]
		for _, way := range []service.Way{service.Park, service.Stop, service.Sleep} {
			if way != service.Park && name != "switches" {
				break // it makes no difference
			}
			for at := 1; ; at++ {
				over := false
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					defer func() {
						if t.Failed() {
							t.Logf("%s by %s, killed at half-step %d", name, way, at)
						}
					}()
					w.specs = []service.Spec{spec("a", away(way)), spec("b", away(way))}
					w.room["G0"], w.KillAt = 110, at
					w.start()
					synctest.Wait()
					stop := w.revive()
					w.front()
					defer w.close()
					defer stop()
					play(t, w)
					pass(time.Minute)
					w.tidy()
					over = 2*w.Steps < at
				})
				if over {
					break
				}
			}
		}
	}
}

// The same, and the next daemons are killed as well.
func TestKilledAgain(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		play := scenarios[name]
		for _, often := range []int{31, 44, 59, 77} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				defer func() {
					if t.Failed() {
						t.Logf("%s, killed every %d half-steps", name, often)
					}
				}()
				w.specs = []service.Spec{spec("a", away(service.Auto)), spec("b", away(service.Auto))}
				w.room["G0"], w.KillAt, w.Again = 110, often, often
				w.start()
				synctest.Wait()
				stop := w.revive()
				w.front()
				defer w.close()
				defer stop()
				play(t, w)
				w.Set(func() { w.KillAt = 0 })
				pass(time.Minute)
				w.tidy()
			})
		}
	}
}
