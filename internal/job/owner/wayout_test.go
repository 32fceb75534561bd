package owner

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/job/run/runtest"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/process/runs"
	"github.com/berth-gpu/berth/internal/when/later"
)

// inStates are ways into each state of a service in which it stays as long as nothing
// happens, or for at least a minute.
var inStates = map[string]struct {
	state string
	spec  []func(*service.Spec)
	plan  func(*plan)
	enter func(*testing.T, *world)
}{
	"away": {state: "away"},
	"waiting": {state: "waiting", enter: func(t *testing.T, w *world) {
		w.Set(func() { w.room["G0"] = 60 })
		w.ask(t.Context(), "b", time.Hour)
		pass(20 * time.Second)
		w.ask(t.Context(), "a", time.Hour)
	}},
	"starting, without an order": {state: "starting", enter: func(t *testing.T, w *world) {
		w.Set(func() { w.unready = later.Because(errors.New("the user database does not answer"), 0) })
		w.ask(t.Context(), "a", time.Second)
	}},
	"starting, never ready": {state: "starting", plan: func(p *plan) { p.come = -1 }, enter: func(t *testing.T, w *world) { w.ask(t.Context(), "a", time.Second) }},
	"ready":                 {state: "ready", enter: func(t *testing.T, w *world) { answered(t, w.ask(t.Context(), "a", time.Second)) }},
	"closing": {state: "closing", enter: func(t *testing.T, w *world) {
		w.Set(func() { w.rules.Keep, w.rules.Slice, w.rules.Wait = 0, time.Second, 0 })
		w.ask(t.Context(), "a", 1000*time.Hour)
		pass(20 * time.Second)
		w.ask(t.Context(), "b", time.Second)
	}},
	"leaving by a stop": {state: "leaving", spec: []func(*service.Spec){idleAfter(time.Second)}, plan: func(p *plan) { p.leave = 2 * time.Minute }, enter: used},
	"leaving to park":   {state: "leaving", spec: []func(*service.Spec){away(service.Park), idleAfter(time.Second)}, plan: func(p *plan) { p.parks = 2 * time.Minute }, enter: used},
	"leaving to sleep":  {state: "leaving", spec: []func(*service.Spec){away(service.Sleep), idleAfter(time.Second)}, plan: func(p *plan) { p.sleeps = 100 * time.Second }, enter: used},
	"parked":            {state: "parked", spec: []func(*service.Spec){away(service.Park), idleAfter(time.Second)}, enter: used},
	"asleep":            {state: "asleep", spec: []func(*service.Spec){away(service.Sleep), idleAfter(time.Second)}, enter: used},
	"back from parking": {state: "returning", spec: []func(*service.Spec){away(service.Park), idleAfter(time.Second)}, enter: noRoom},
	"back from sleep":   {state: "returning", spec: []func(*service.Spec){away(service.Sleep), idleAfter(time.Second)}, enter: noRoom},
	"failed":            {state: "failed", plan: func(p *plan) { p.dies = time.Second }, enter: func(t *testing.T, w *world) { <-w.ask(t.Context(), "a", time.Second) }},
}

func used(t *testing.T, w *world) {
	answered(t, w.ask(t.Context(), "a", time.Second))
	pass(30 * time.Second)
}

func noRoom(t *testing.T, w *world) {
	used(t, w)
	w.Set(func() { w.room["G0"] = 5 })
	w.ask(t.Context(), "a", time.Hour)
}

// takeLease ends the lease of a service, and tells nobody else. It returns the lease.
func takeLease(w *world, name string) *held {
	var h *held
	w.Set(func() {
		if h = w.leaseOf(name); h != nil {
			h.ended = true
			delete(w.leases, h.key.ID)
		}
	})
	return h
}

// Whatever state a service is in: if a person stops it, if it loses its lease or its
// program, or if the settings name it no more, it ends, with its program and its lease,
// also if the daemon is restarted meanwhile.
func TestEveryStateHasAWayOut(t *testing.T) {
	for cause, happen := range map[string]func(*testing.T, *world){
		"stopped": func(t *testing.T, w *world) {
			if err := w.daemon.Stop("a", operator, ""); err != nil {
				t.Error(err)
			}
		},
		"stopped, after a restart": func(t *testing.T, w *world) {
			if err := w.restart().Stop("a", operator, ""); err != nil {
				t.Error(err)
			}
		},
		"stopped, then a restart": func(t *testing.T, w *world) {
			if err := w.daemon.Stop("a", operator, ""); err != nil {
				t.Error(err)
			}
			w.restart()
		},
		"its lease has ended": func(t *testing.T, w *world) {
			if h := takeLease(w, "a"); h != nil {
				w.now().Runs().LeaseEnded(h.fence, "it was released")
			}
			pass(time.Minute)
			_ = w.daemon.Stop("a", operator, "")
		},
		"its lease has ended without a daemon": func(t *testing.T, w *world) {
			w.daemon.Kill()
			<-w.daemon.Over
			takeLease(w, "a")
			w.start()
			pass(time.Minute)
			_ = w.daemon.Stop("a", operator, "")
		},
		"stopped, then its lease ended": func(t *testing.T, w *world) {
			_ = w.daemon.Stop("a", operator, "")
			if h := takeLease(w, "a"); h != nil {
				w.now().Runs().LeaseEnded(h.fence, "it was released")
			}
		},
		"its program has ended": func(t *testing.T, w *world) {
			w.kill("a")
			pass(time.Minute)
			_ = w.daemon.Stop("a", operator, "")
		},
		"in no settings": func(t *testing.T, w *world) {
			w.specs = w.specs[1:]
			w.daemon.Configure(w.specs)
		},
	} {
		for name, in := range inStates {
			t.Run(cause+"/"+name, func(t *testing.T) {
				inWorld(t, []service.Spec{spec("a", in.spec...), spec("b")}, func(t *testing.T, w *world) {
					p := w.script("a", 1)
					if in.plan != nil {
						in.plan(&p)
					}
					w.script = func(name string, _ int) plan {
						if name == "a" {
							return p
						}
						return plan{come: time.Second, leave: time.Second}
					}
					if in.enter != nil {
						in.enter(t, w)
					}
					pass(10 * time.Second)
					w.is("a", in.state)
					happen(t, w)
					pass(time.Hour)
					if state := w.state("a"); state != "stopped" && (cause != "in no settings" || state != "none") {
						s, _ := w.daemon.Find("a")
						t.Errorf("it is %s (%s)", state, s.Why)
					}
					w.Set(func() {
						if w.leaseOf("a") != nil {
							t.Error("it keeps its lease")
						}
						for _, s := range w.servers {
							if s.name == "a" {
								t.Error("its program runs")
							}
						}
						for run, r := range w.Runs {
							if r.Alive && !strings.HasPrefix(r.Record.Output, "berth-b") {
								t.Errorf("the minder of run %s lives", run)
							}
						}
					})
				})
			})
		}
	}
}

// A hand-over that cannot be made now is no failure: the minder asks again, people read
// why, and its end is watched once. After start_timeout the service has failed.
func TestAnOrderThatHasToWait(t *testing.T) {
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		w.unready = later.Because(errors.New("MPS could not be started"), 0)
		asked := w.ask(t.Context(), "a", time.Second)
		pass(time.Minute)
		w.is("a", "starting")
		if s, _ := w.daemon.Find("a"); !strings.Contains(s.Why, "MPS could not be started") || s.Failure != nil {
			t.Errorf("people read %q, %v", s.Why, s.Failure)
		}
		if w.Watches != 1 {
			t.Errorf("its minder is watched %d times", w.Watches)
		}
		w.Set(func() { w.unready = nil })
		answered(t, asked)
	})
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		w.unready = later.Because(errors.New("MPS could not be started"), 0)
		r := refusal(t, <-w.ask(t.Context(), "a", time.Second))
		if !strings.Contains(r.Why, "start_timeout of 2 min: MPS could not be started") {
			t.Errorf("it is refused with %+v", r)
		}
		pass(time.Second)
		w.is("a", "failed")
	})
}

// A failure of the start that cannot be written down is not told to the minder, whose end
// would be taken for the cause.
func TestAFailureOnAFullDisk(t *testing.T) {
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		w.unready = later.Because(errors.New("not yet"), 0)
		asked := w.ask(t.Context(), "a", time.Second)
		pass(10 * time.Second)
		w.Set(func() { w.full, w.unready = true, errors.New("the user is gone") })
		pass(10 * time.Second)
		w.is("a", "starting")
		w.Set(func() { w.full = false })
		if r := refusal(t, <-asked); !strings.Contains(r.Why, "the user is gone") {
			t.Errorf("it is refused with %+v", r)
		}
	})
}

// A reader of a log that could not be started, or that ended, is no failure of the service
// either.
func TestAReaderThatEnds(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", func(s *service.Spec) { s.Ready.Log = "listening" })}, func(t *testing.T, w *world) {
		whole, tries := w.daemon.Follow, 0
		w.daemon.Follow = func(ctx context.Context, s *service.Spec, path string, line func(string) bool) error {
			if tries++; tries < 3 {
				return errors.New("16 logs of user 1000 are being read")
			}
			return whole(ctx, s, path, line)
		}
		answered(t, w.ask(t.Context(), "a", time.Second))
	})
}

// A port that cannot be found is waited for; the service has not failed.
func TestNoFreePort(t *testing.T) {
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		find, tries := w.daemon.FreePort, 0
		w.daemon.FreePort = func() (int, error) {
			if tries++; tries < 3 {
				return 0, errors.New("address already in use")
			}
			return find()
		}
		answered(t, w.ask(t.Context(), "a", time.Second))
		if s, _ := w.daemon.Find("a"); s.Failure != nil {
			t.Errorf("it has failed: %v", s.Failure)
		}
	})
}

// While something is cleared away that takes long to end, services come and go.
func TestASlowCleanUpDelaysNobody(t *testing.T) {
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		w.Set(func() { w.Runs["999.0.1"] = &runtest.Run{Record: runs.Record{PID: 1}} })
		ended := make(chan struct{})
		w.Set(func() { w.Clearing = ended })
		pass(2 * time.Hour)
		answered(t, w.ask(t.Context(), "a", time.Second))
		close(ended)
		pass(time.Second)
		if w.Runs["999.0.1"] != nil {
			t.Error("it is not cleared away")
		}
	})
}

// The end of a program that cannot be written down is not forgotten because something else
// happens meanwhile that cannot be written down either.
func TestAnEndOnAFullDisk(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", away(service.Park), idleAfter(time.Second))}, func(t *testing.T, w *world) {
		w.script = func(string, int) plan {
			return plan{come: time.Second, leave: time.Second, parks: 20 * time.Second, resumes: time.Second}
		}
		answered(t, w.ask(t.Context(), "a", time.Second))
		pass(15 * time.Second)
		w.is("a", "leaving")
		w.Set(func() { w.full = true })
		w.kill("a") // it cannot be parked any more
		pass(20 * time.Second)
		w.Set(func() { w.full = false })
		pass(time.Minute)
		w.is("a", "away")
		answered(t, w.ask(t.Context(), "a", time.Second))
	})
}

// A record that cannot be read when a daemon starts is no sign that no minder could be
// started.
func TestARecordThatCannotBeReadAtTheStart(t *testing.T) {
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		w.script = func(string, int) plan { return plan{come: time.Second, leave: time.Second} }
		port := w.daemon.FreePort
		w.daemon.FreePort = func() (int, error) { // the daemon is killed before it starts the minder
			w.Set(func() { w.KillAt = 2*(w.Steps+2) - 1 })
			return port()
		}
		asked := w.ask(t.Context(), "a", time.Second)
		<-w.daemon.Over
		if !strings.Contains(string(w.disk), `"starting"`) || w.PID > 0 {
			t.Fatalf("%d minders were started: %s", w.PID, w.disk)
		}
		w.Set(func() { w.Unread = errors.New("too many open files") })
		w.start()
		pass(10 * time.Second)
		w.Set(func() { w.Unread = nil })
		answered(t, asked)
		if told := w.told(gpu.EventServiceFailed); len(told) > 0 {
			t.Errorf("people read %q", told)
		}
	})
}

// Whoever calls while a daemon starts does not make it forget the fronts of the daemon
// before, which have some time to come back.
func TestFrontsThatComeBackLate(t *testing.T) {
	for range 300 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			d := &daemon{w: w, Life: w.Begin()}
			d.Owner = newOwner(Options{Minders: runtest.Minders{Life: d.Life}, Log: slog.New(slog.DiscardHandler), Publish: func(gpu.Event) {}}, disk{d})
			if err := d.load(kept{Fronts: []string{"early", "late"}}); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				go func() { _ = d.Report(api.FrontReports{Front: "early"}) }()
			}
			synctest.Wait()
			go func() {
				defer close(d.Over)
				_ = d.Run(d.Ctx, desk{d})
			}()
			synctest.Wait()
			d.mu.RLock()
			if d.fronts["late"] == nil {
				t.Error("it is forgotten")
			}
			d.mu.RUnlock()
			d.Kill()
			<-d.Over
		})
		if t.Failed() {
			return
		}
	}
}

// However often a service asks for its lease in vain, nothing of those tries is kept.
func TestTriesLeaveNothingBehind(t *testing.T) {
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		w.refused = later.Because(errors.New("the user database does not answer"), time.Second)
		w.ask(t.Context(), "a", time.Hour)
		used := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		pass(1000 * time.Second)
		before := used()
		pass(20_000 * time.Second)
		if more := int64(used()) - int64(before); more > 2<<20 {
			t.Errorf("20,000 tries have left %d KiB", more>>10)
		}
		w.is("a", "waiting")
	})
}

// Whatever a service asks of the ledger, what passes ends nothing: its program is kept, it
// tries again, and people read why.
func TestAFullDiskEndsNoService(t *testing.T) {
	full := later.Because(errors.New("no space left on device"), 0)
	waits := func(t *testing.T, w *world, state string) {
		t.Helper()
		pass(time.Minute)
		w.is("a", state)
		if s, _ := w.daemon.Find("a"); !strings.Contains(s.Why, "no space left") || s.Failure != nil {
			t.Errorf("people read %q, %v", s.Why, s.Failure)
		}
		w.Set(func() { w.refused = nil })
	}
	for state, way := range map[string]service.Way{"parked": service.Park, "asleep": service.Sleep} {
		inWorld(t, []service.Spec{spec("a", away(way), idleAfter(time.Second))}, func(t *testing.T, w *world) {
			w.refused = full
			asked := w.ask(t.Context(), "a", time.Second)
			waits(t, w, "waiting")
			answered(t, asked)
			if way == service.Sleep {
				w.Set(func() { w.refused = full })
				waits(t, w, "leaving")
			}
			pass(30 * time.Second)
			w.is("a", state)
			w.Set(func() { w.refused = full })
			asked = w.ask(t.Context(), "a", time.Second)
			waits(t, w, "returning")
			answered(t, asked)
			if w.begun["a"] != 1 {
				t.Errorf("its program was started %d times", w.begun["a"])
			}
		})
	}
}

// A service that is stopped in the moment in which it gets its room back is not woken.
func TestAServiceThatGoesIsNotWoken(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", away(service.Sleep), idleAfter(time.Second))}, func(t *testing.T, w *world) {
		w.script = func(string, int) plan {
			return plan{come: time.Second, keeps: 1, sleeps: time.Second, wakes: time.Second, leave: time.Minute}
		}
		noRoom(t, w)
		pass(time.Second)
		w.is("a", "returning")
		w.Set(func() { w.lag = time.Second })
		if err := w.daemon.Stop("a", operator, ""); err != nil {
			t.Fatal(err)
		}
		w.Set(func() { w.room["G0"] = 100; w.grant() })
		pass(10 * time.Second)
		w.is("a", "leaving")
		w.Set(func() {
			if h := w.leaseOf("a"); h == nil || h.memory == 1 || !w.serverOf(h).asleep {
				t.Errorf("its lease is %+v, and its server was woken", h)
			}
		})
	})
}

// While nothing can be written down, a front that starts has requests answered by what is
// ready. It is written down later.
func TestAFrontStartsOnAFullDisk(t *testing.T) {
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "a", time.Second))
		pass(10 * time.Second)
		w.Set(func() { w.full = true })
		w.fronts[0].kill()
		started := w.front()
		pass(10 * time.Second)
		select {
		case err := <-w.ask(t.Context(), "a", time.Second):
			if err != nil {
				t.Errorf("it does not answer: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("it does not answer")
		}
		w.Set(func() { w.full = false })
		pass(10 * time.Second)
		w.Set(func() {
			if !strings.Contains(string(w.disk), started.name) {
				t.Errorf("the front is not written down: %s", w.disk)
			}
		})
	})
}

// However many fronts start on a full disk, berth tries to write them down once at a time.
func TestManyFrontsStartOnAFullDisk(t *testing.T) {
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		w.Set(func() { w.full = true })
		for range 10 {
			w.front().kill()
			pass(time.Second)
		}
		w.Set(func() { w.tries = 0 })
		pass(10 * brokenPause)
		w.Set(func() {
			if w.tries > 10 {
				t.Errorf("in %v it was tried %d times", 10*brokenPause, w.tries)
			}
			w.full = false
		})
	})
}

// A service whose program the machine cannot start for want of something has not failed: those
// who wait have it as soon as that has passed, also if it is not to start again after a failure.
func TestAServiceThatTheMachineCannotStartYet(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", func(s *service.Spec) { s.Restart = false })}, func(t *testing.T, w *world) {
		w.Set(func() { w.short = 3 })
		asked := w.ask(t.Context(), "a", time.Second)
		pass(3 * time.Second)
		if s, _ := w.daemon.Find("a"); s.Failure != nil || !strings.Contains(s.Why, "could not be started") {
			t.Errorf("it has failed with %+v, or nobody reads why it does not come: %s", s.Failure, s.Why)
		}
		answered(t, asked)
	})
}

// A service that asks again after the clock was set is as old as it is, and not as the clock
// said before.
func TestAgeOfAServiceAfterTheClockWasSet(t *testing.T) {
	asked, by := time.Now(), 2*time.Hour
	before := asked.Add(-by) // as the clock said; the second word of a Time is its monotonic reading, which stays
	(*[2]int64)(unsafe.Pointer(&before))[1] += int64(by)
	ask := askFor(&service.Life{Instance: &service.Instance{Spec: spec("a"), Asked: before}})
	if off := ask.Since.Round(0).Sub(asked.Round(0)); off.Abs() > by/2 {
		t.Errorf("it asks as if it were %v older", -off)
	}
}

// A service that is in no settings any more is removed as soon as that can be written down.
func TestARemovalOnAFullDisk(t *testing.T) {
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		pass(10 * time.Second)
		w.Set(func() { w.full = true })
		w.daemon.Configure(nil)
		pass(10 * time.Second)
		w.Set(func() { w.full = false })
		pass(10 * time.Second)
		if state := w.state("a"); state != "none" {
			t.Errorf("it is %s", state)
		}
	})
}
