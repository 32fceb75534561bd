package owner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/runs"
)

var operator = access.Actor{User: "op", UID: 7, Door: access.Socket, Role: access.Operator}

// with returns a change of settings.
func with(do func(*service.Spec)) func(*service.Spec) { return do }

func away(w service.Way) func(*service.Spec) {
	return func(s *service.Spec) {
		if s.Away = w; w == service.Sleep || w == service.Auto {
			s.Sleep, s.Wake = []api.FrontHTTPCall{{Method: "POST", Path: "/sleep"}}, []api.FrontHTTPCall{{Method: "POST", Path: "/wake"}}
		}
	}
}

func idleAfter(d time.Duration) func(*service.Spec) {
	return func(s *service.Spec) { s.IdleAfter = gpu.Some(d) }
}

// answered fails unless a request is answered.
func answered(t *testing.T, done <-chan error) {
	t.Helper()
	if err := <-done; err != nil {
		t.Fatalf("a request is not answered: %v", err)
	}
}

// refusal returns why a request was refused.
func refusal(t *testing.T, err error) *Refusal {
	t.Helper()
	r := (*Refusal)(nil)
	if !errors.As(err, &r) {
		t.Fatalf("it is not refused: %v", err)
	}
	return r
}

func device(uuid string) func() []string { return func() []string { return []string{uuid} } }

// pass lets time pass.
func pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

// A request that does not end holds its service, which has to go, no longer than a time
// slice; then it is broken off, and people read why. One that ends in time is not touched,
// and neither is one that nobody has to wait for.
func TestARequestWithoutEnd(t *testing.T) {
	slice := with(func(s *service.Spec) { s.Slice = 90 * time.Second })
	inWorld(t, []service.Spec{spec("a", slice), spec("b", slice)}, func(t *testing.T, w *world) {
		w.rules.Slice = 100 * time.Second
		endless := w.ask(t.Context(), "a", 1000*time.Hour)
		pass(10 * time.Hour)
		if w.is("a", "ready"); len(endless) > 0 {
			t.Fatalf("it was broken off though nobody waits: %v", <-endless)
		}
		other := w.ask(t.Context(), "b", time.Second)
		pass(time.Second)
		w.is("a", "closing")
		short := w.ask(t.Context(), "a", time.Second) // it waits for the next stay
		pass(88 * time.Second)
		if w.is("a", "closing"); len(endless) > 0 || len(w.told(gpu.EventServiceCut)) > 0 {
			t.Fatalf("it was broken off within the time slice: %v", <-endless)
		}
		w.restart() // the time counts over restarts
		pass(2 * time.Second)
		if err := <-endless; !errors.Is(err, errCut) {
			t.Fatalf("a request without an end: %v", err)
		}
		answered(t, other)
		answered(t, short)
		told := w.told(gpu.EventServiceCut)
		if len(told) != 1 || !strings.Contains(told[0], "The service a has to go (b-5 waits for its device), and 1 request had not ended 90 s after it took no more") {
			t.Errorf("people read %q", told)
		}
		pass(5 * time.Minute)
		long := w.ask(t.Context(), "a", 120*time.Second) // it is to end 80 s after the service takes no more
		pass(40 * time.Second)
		other = w.ask(t.Context(), "b", time.Second)
		answered(t, long)
		answered(t, other)
		if told := w.told(gpu.EventServiceCut); len(told) != 1 {
			t.Errorf("people read %q", told)
		}
	})
}

// A person who stops a service waits no longer than that either.
func TestStopOfARequestWithoutEnd(t *testing.T) {
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		endless := w.ask(t.Context(), "a", 1000*time.Hour)
		pass(time.Minute)
		if err := w.daemon.Stop("a", operator, ""); err != nil {
			t.Fatal(err)
		}
		pass(5*time.Minute - time.Second)
		w.is("a", "closing")
		pass(5 * time.Second)
		if w.is("a", "stopped"); !errors.Is(<-endless, errCut) {
			t.Error("the request was not broken off")
		}
	})
}

// When something else parks or resumes the lease of a service, the owner follows the
// ledger: also a daemon that was not there when it happened.
func TestTheLedgerIsRight(t *testing.T) {
	for name, tell := range map[string]func(w *world, i *service.Instance){
		"told":    func(w *world, i *service.Instance) { w.daemon.LeaseMoved(i.Fence) },
		"absent":  func(w *world, _ *service.Instance) { w.restart() },
		"no news": func(w *world, i *service.Instance) { w.daemon.LeaseMoved(i.Fence + 1); w.restart() },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, []service.Spec{spec("a", away(service.Park), with(func(s *service.Spec) { s.Start = service.Always }))}, func(t *testing.T, w *world) {
				pass(20 * time.Second)
				w.is("a", "ready")
				i, epoch := w.life("a").Instance, w.life("a").Epoch
				tell(w, i)
				pass(time.Second)
				w.is("a", "ready") // nothing has changed
				w.Set(func() { w.leaseOf("a").parked = true })
				tell(w, i)
				pass(time.Minute)
				w.is("a", "parked") // also with start: always it stays so until somebody asks
				answered(t, w.ask(t.Context(), "a", time.Second))
				if w.is("a", "ready"); w.life("a").Epoch <= epoch || w.begun["a"] != 1 {
					t.Errorf("epoch %d after %d, %d starts", w.life("a").Epoch, epoch, w.begun["a"])
				}
				pass(5 * time.Second)
				w.daemon.Away(keyOf(i), i.Fence, lease.Key{}, "x waits")
				pass(time.Minute)
				w.is("a", "parked")
				w.Set(func() { w.leaseOf("a").parked = false })
				tell(w, i)
				pass(time.Minute)
				w.is("a", "ready") // it comes though nobody waits for it
				if left := w.told(gpu.EventServiceLeft); len(left) != 2 || !strings.Contains(left[0], "its lease was parked") {
					t.Errorf("people read %q", left)
				}
			})
		})
	}
}

// Two services that do not fit together answer in turn, in each way to go away.
func TestTwoInTurn(t *testing.T) {
	for way, state := range map[service.Way]string{service.Stop: "away", service.Park: "parked", service.Sleep: "asleep"} {
		inWorld(t, []service.Spec{spec("a", away(way)), spec("b", away(way))}, func(t *testing.T, w *world) {
			if way == service.Sleep {
				w.room["G0"] = 110 // a sleeping server keeps some
			}
			for i, name := range []string{"a", "b", "a", "b"} {
				answered(t, w.ask(t.Context(), name, 5*time.Second))
				w.is(name, "ready")
				if other := []string{"b", "a"}[i%2]; i > 0 {
					w.is(other, state)
				}
				pass(2 * time.Minute)
			}
			s, _ := w.daemon.Find("a")
			if s.Switches != 2 || s.Took.Start.Count == 0 || s.Failure != nil {
				t.Errorf("a is %+v", s)
			}
			going, coming := map[service.Way]api.ServiceTime{service.Stop: s.Took.Stop, service.Park: s.Took.Park, service.Sleep: s.Took.Sleep}[way], map[service.Way]api.ServiceTime{service.Stop: s.Took.Start, service.Park: s.Took.Resume, service.Sleep: s.Took.Wake}[way]
			if going.Count == 0 || coming.Count == 0 || going.Seconds <= 0 || coming.Seconds <= 0 {
				t.Errorf("by %s, to go took %+v and to come %+v", way, going, coming)
			}
			if told := w.told(gpu.EventServiceReady); len(told) != 4 {
				t.Errorf("people are told %q", told)
			}
		})
	}
}

// A request that meets an unload is answered: by the service itself if it only was idle,
// and otherwise when it is back.
func TestARequestMeetsAnUnload(t *testing.T) {
	for millis := range 40 {
		inWorld(t, []service.Spec{spec("a", idleAfter(10*time.Second), away(service.Park)), spec("b")}, func(t *testing.T, w *world) {
			answered(t, w.ask(t.Context(), "a", time.Second))
			time.Sleep(10*time.Second - 100*time.Millisecond + time.Duration(millis)*100*time.Millisecond)
			first, second := w.ask(t.Context(), "a", time.Second), w.ask(t.Context(), "a", 20*time.Second)
			answered(t, first)
			answered(t, second)
		})
	}
}

// A closed service is parked only after its last request has ended, and one that stays
// gets another epoch.
func TestAnEpochIsClosedOnce(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", away(service.Park)), spec("b")}, func(t *testing.T, w *world) {
		w.front() // another one, which has nothing
		answered(t, w.ask(t.Context(), "a", time.Second))
		long := w.ask(t.Context(), "a", 4*time.Minute)
		pass(time.Second)
		if err := w.daemon.Stop("a", operator, "to look"); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Minute)
		w.is("a", "closing")
		epoch := w.life("a").Epoch
		if err := w.daemon.Start("a", operator, ""); err != nil {
			t.Fatal(err)
		}
		w.is("a", "closing")
		again := w.ask(t.Context(), "a", time.Second)
		answered(t, long)
		answered(t, again)
		w.is("a", "ready")
		if now := w.life("a").Epoch; now <= epoch || w.begun["a"] != 1 {
			t.Errorf("its epoch is %d after %d, and it was started %d times", now, epoch, w.begun["a"])
		}
	})
}

// While a service has requests it is in use, and the mover is told so.
func TestUse(t *testing.T) {
	inWorld(t, []service.Spec{spec("a"), spec("b")}, func(t *testing.T, w *world) {
		began := w.ask(t.Context(), "a", time.Minute)
		pass(3 * time.Second)
		i := w.life("a").Instance
		k := keyOf(i)
		if u, runs := w.daemon.Use(k, i.Fence); !runs || !u.Since.IsZero() || u.Leaves {
			t.Errorf("while it comes, its use is %+v", u)
		}
		if name, _ := w.daemon.Moving(k); name != "a" {
			t.Errorf("its lease is one of %q", name)
		}
		pass(10 * time.Second)
		if u, _ := w.daemon.Use(k, i.Fence); u.Since.IsZero() || !u.Idle.IsZero() || u.Barred.After(time.Now()) {
			t.Errorf("with a request, its use is %+v", u)
		}
		answered(t, began)
		end := time.Now()
		pass(time.Second)
		if u, _ := w.daemon.Use(k, i.Fence); !u.Idle.Equal(end) || u.Leaves {
			t.Errorf("after its request, its use is %+v; want idle since %v", u, end)
		}
		long := w.ask(t.Context(), "a", 4*time.Minute)
		pass(time.Second)
		w.daemon.Away(k, i.Fence, lease.Key{ID: "x"}, "x waits")
		synctest.Wait()
		if u, _ := w.daemon.Use(k, i.Fence); !u.Leaves {
			t.Errorf("while it closes, its use is %+v", u)
		}
		if _, runs := w.daemon.Use(k, i.Fence+1); runs {
			t.Error("another lease with its id is one of it")
		}
		answered(t, long)
		pass(time.Minute)
		w.is("a", "away")
		if _, runs := w.daemon.Use(k, i.Fence); runs {
			t.Error("it is away and uses a lease")
		}
	})
}

// With idle_after: 0 a service answers whoever asks, and goes. The owner does not spin.
func TestIdleAfterZero(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", idleAfter(0))}, func(t *testing.T, w *world) {
		first := w.life("a").Epoch
		answered(t, w.ask(t.Context(), "a", 5*time.Second))
		pass(time.Minute)
		w.is("a", "away")
		if epochs := w.life("a").Epoch - first; w.begun["a"] != 1 || epochs > 2 {
			t.Errorf("it was started %d times, and had %d epochs", w.begun["a"], epochs)
		}
		if w.Steps > 60 {
			t.Errorf("one request made %d steps", w.Steps)
		}
	})
	// One that comes at once, before its front has told that somebody waits.
	inWorld(t, []service.Spec{spec("a", idleAfter(0), away(service.Park))}, func(t *testing.T, w *world) {
		w.script = func(string, int) plan { return plan{leave: time.Second, parks: time.Second} }
		first := w.life("a").Epoch
		for n := range 5 {
			answered(t, w.ask(t.Context(), "a", 5*time.Second))
			pass(time.Minute)
			w.is("a", "parked")
			if epochs := w.life("a").Epoch - first; epochs > uint64(n)+1 {
				t.Fatalf("%d requests made %d epochs", n+1, epochs)
			}
		}
	})
}

// A service that was closed because it was idle stays if somebody asks for it meanwhile.
func TestItStaysIfSomebodyAsks(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", idleAfter(10*time.Second), away(service.Park))}, func(t *testing.T, w *world) {
		begun := w.life("a").Epoch
		answered(t, w.ask(t.Context(), "a", time.Second))
		time.Sleep(10*time.Second - 100*time.Millisecond)
		first := w.ask(t.Context(), "a", 20*time.Second) // the front tells of it too late
		pass(time.Second)
		w.is("a", "closing")
		second := w.ask(t.Context(), "a", time.Second)
		answered(t, first)
		answered(t, second)
		w.is("a", "ready")
		if s, _ := w.daemon.Find("a"); s.Took.Park.Count != 0 || w.life("a").Epoch != begun+2 {
			t.Errorf("it was parked %d times, and had %d epochs", s.Took.Park.Count, w.life("a").Epoch-begun)
		}
	})
}

// A lease that is granted in the moment in which nobody wants it any more is given back.
func TestGrantedTooLate(t *testing.T) {
	inWorld(t, []service.Spec{spec("a"), spec("b")}, func(t *testing.T, w *world) {
		w.lag = 5 * time.Second
		w.ask(t.Context(), "b", time.Hour)
		pass(20 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		w.ask(ctx, "a", time.Second)
		pass(time.Second)
		cancel()
		pass(5 * time.Second)
		w.is("a", "away")
		w.kill("b")
		pass(10 * time.Second)
		w.tidy()
	})
}

// A load that nobody waits for any more is cancelled, wherever it is.
func TestALoadThatNobodyWaitsFor(t *testing.T) {
	for _, after := range []time.Duration{10 * time.Millisecond, 2 * time.Second} { // it waits for its lease, or starts
		inWorld(t, []service.Spec{spec("a"), spec("b")}, func(t *testing.T, w *world) {
			if after < time.Second {
				answered(t, w.ask(t.Context(), "b", time.Second))
				w.ask(t.Context(), "b", 20*time.Minute)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := w.ask(ctx, "a", time.Second)
			pass(after)
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			pass(10 * time.Second)
			w.is("a", "away")
			if n := len(w.leases); n > 1 || w.leaseOf("a") != nil {
				t.Errorf("there are %d leases, and servers %v", n, w.servers)
			}
			if s, _ := w.daemon.Find("a"); s.Failure != nil || !strings.Contains(s.Why, "nobody asks for it any more") {
				t.Errorf("that counts as a failure, or for another reason: %+v, %s", s.Failure, s.Why)
			}
		})
	}
	// One that returns goes back to where it was.
	inWorld(t, []service.Spec{spec("a", away(service.Park)), spec("b")}, func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "a", time.Second))
		pass(2 * time.Minute)
		answered(t, w.ask(t.Context(), "b", time.Second))
		w.ask(t.Context(), "b", 20*time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		w.ask(ctx, "a", time.Second)
		pass(5 * time.Second)
		w.is("a", "returning")
		cancel()
		pass(10 * time.Second)
		w.is("a", "parked")
		answered(t, w.ask(t.Context(), "a", time.Second))
		if w.begun["a"] != 1 {
			t.Errorf("it was started %d times", w.begun["a"])
		}
	})
}

// A server that fails is told with the last lines of its log, those who wait are answered
// with what happened, and it rests for longer each time. Another service goes on.
func TestFailures(t *testing.T) {
	for what, p := range map[string]plan{
		"was not ready within its start_timeout of 20 s: connection refused. berth logs a shows its log": {come: -1, leave: time.Second},
		"ended with exit code 1": {come: -1, dies: 3 * time.Second},
	} {
		change := with(func(s *service.Spec) { s.StartTimeout, s.Memory = 20*time.Second, gpu.Some[gpu.MiB](30) })
		inWorld(t, []service.Spec{spec("a", change), spec("b")}, func(t *testing.T, w *world) {
			good := w.script
			w.script = func(name string, nth int) plan {
				if name == "a" {
					return p
				}
				return good(name, nth)
			}
			other := w.ask(t.Context(), "b", 10*time.Minute)
			rests := []time.Duration{}
			for n := range 4 {
				r := refusal(t, <-w.ask(t.Context(), "a", time.Second))
				if r.Status != 503 || r.Code != "failed" || r.RetryAfter <= 0 || !strings.Contains(r.Why, what) || strings.Contains(r.Why, "last line") {
					t.Fatalf("a request is refused with %+v; want one that says %q", r, what)
				}
				pass(2 * time.Second) // its program ends
				s, _ := w.daemon.Find("a")
				if s.State != "failed" || s.Log != "berth-a.log" || s.Failure.Count != n+1 || !slices.Equal(s.Failure.Log, []string{"the last line of berth-a.log"}) {
					t.Fatalf("a is %s after %+v", s.State, s.Failure)
				}
				if r := refusal(t, <-w.ask(t.Context(), "a", time.Second)); n > 1 && (r.RetryAfter <= 0 || w.begun["a"] != n+1) {
					t.Errorf("while it rests, it is started, or refused with %+v", r)
				}
				rests = append(rests, s.Failure.Next.Sub(s.Failure.At))
				pass(time.Until(s.Failure.Next) + time.Second)
			}
			if !slices.IsSorted(rests) || rests[3] <= 2*rests[0] {
				t.Errorf("it rests for %v", rests)
			}
			if told := w.told(gpu.EventServiceFailed); len(told) != 4 {
				t.Errorf("people are told %q", told)
			}
			answered(t, other)
			w.script = good
			pass(time.Hour)
			answered(t, w.ask(t.Context(), "a", time.Second))
			if s, _ := w.daemon.Find("a"); s.Failure != nil || s.State != "ready" {
				t.Errorf("ready, it still shows %+v", s.Failure)
			}
		})
	}
}

// A server that dies while it is ready, or whose lease is revoked, has failed; the next
// request starts it again.
func TestItDiesWhileReady(t *testing.T) {
	for why, end := range map[string]func(*world){
		"SIGKILL":         func(w *world) { w.kill("a") },
		"lease has ended": func(w *world) { w.revoke("a") },
	} {
		inWorld(t, []service.Spec{spec("a"), spec("b")}, func(t *testing.T, w *world) {
			long := w.ask(t.Context(), "a", time.Hour)
			pass(10 * time.Minute)
			end(w)
			if err := <-long; !errors.Is(err, errBroken) {
				t.Errorf("its stream ends with %v", err)
			}
			pass(2 * time.Second)
			s, _ := w.daemon.Find("a")
			if s.State != "failed" || !strings.Contains(s.Failure.Why, why) || s.Failure.Count != 1 {
				t.Fatalf("a is %s: %+v", s.State, s.Failure)
			}
			if len(w.leases) != 0 || len(w.Runs) != 0 {
				t.Errorf("there are left %v and %v", w.leases, w.Runs)
			}
			pass(3 * time.Second)
			answered(t, w.ask(t.Context(), "a", time.Second))
		})
	}
}

// A service that can never come is refused at once, without a word about later. One that
// the ledger refuses, or that has no minder, is refused until later.
func TestItCannotCome(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", with(func(s *service.Spec) { s.Memory = gpu.Some[gpu.MiB](101) })), spec("b")}, func(t *testing.T, w *world) {
		if r := refusal(t, <-w.ask(t.Context(), "a", time.Second)); r.Status != 503 || r.Code != "never_fits" || r.RetryAfter != 0 || !strings.Contains(r.Why, "no device has so much") {
			t.Errorf("it is refused with %+v", r)
		}
		if err := w.daemon.Start("a", operator, ""); !errors.Is(err, ErrState) {
			t.Errorf("to start it: %v", err)
		}
		w.is("a", "away")
		w.Set(func() { w.refused = errors.New("you have as many leases as allowed") })
		if r := refusal(t, <-w.ask(t.Context(), "b", time.Second)); r.RetryAfter == 0 || !strings.Contains(r.Why, "as allowed") {
			t.Errorf("it is refused with %+v", r)
		}
		w.Set(func() { w.refused, w.Deny = nil, errors.New("no more processes") })
		pass(time.Minute)
		if r := refusal(t, <-w.ask(t.Context(), "b", time.Second)); r.RetryAfter == 0 || !strings.Contains(r.Why, "no more processes") {
			t.Errorf("it is refused with %+v", r)
		}
		pass(time.Second)
		if len(w.leases) > 0 {
			t.Errorf("it keeps %v", w.leases)
		}
		w.Set(func() { w.Deny = nil })
		pass(time.Minute)
		answered(t, w.ask(t.Context(), "b", time.Second))
		if r := refusal(t, <-w.ask(t.Context(), "nobody", 0)); r.Status != 404 {
			t.Errorf("an unknown service is refused with %+v", r)
		}
	})
}

// Stop holds over restarts, with who and why, until start.
func TestStopHolds(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", with(func(s *service.Spec) { s.Start = service.Always })), spec("b")}, func(t *testing.T, w *world) {
		pass(10 * time.Second)
		w.is("a", "ready")
		if err := w.daemon.Stop("a", operator, "maintenance"); err != nil {
			t.Fatal(err)
		}
		if err := w.daemon.Stop("a", operator, ""); !errors.Is(err, ErrState) {
			t.Errorf("stopped again: %v", err)
		}
		for range 3 {
			pass(2 * time.Minute)
			w.is("a", "stopped")
			r := refusal(t, <-w.ask(t.Context(), "a", time.Second))
			if r.Status != 503 || r.RetryAfter != 0 || !strings.Contains(r.Why, "op stopped the service a") || !strings.Contains(r.Why, "maintenance") {
				t.Errorf("it is refused with %+v", r)
			}
			w.restart()
		}
		if err := w.daemon.Start("a", operator, ""); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		w.is("a", "ready")
		if told := w.told(gpu.EventServiceOrdered); len(told) != 2 || !strings.Contains(told[0], "stopped by op: maintenance") {
			t.Errorf("people are told %q", told)
		}
		if err := w.daemon.Stop("nobody", operator, ""); !errors.Is(err, ErrUnknown) {
			t.Errorf("an unknown one: %v", err)
		}
	})
}

// Those who wait for a service that is stopped are refused at once, and its load ends.
func TestStopWhileItComes(t *testing.T) {
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		waits := w.ask(t.Context(), "a", time.Second)
		pass(2 * time.Second)
		asked := time.Now()
		if err := w.daemon.Stop("a", operator, ""); err != nil {
			t.Fatal(err)
		}
		if r := refusal(t, <-waits); r.Code != "stopped" || time.Since(asked) > time.Second {
			t.Errorf("after %v it is refused with %+v", time.Since(asked), r)
		}
		pass(3 * time.Second)
		w.is("a", "stopped")
		w.tidy()
	})
}

// A front that dies while it finds out whether a server is ready leaves that to another.
func TestAnotherFrontProbes(t *testing.T) {
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		if err := w.daemon.Start("a", operator, ""); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		old := w.fronts[0]
		w.front()
		old.kill()
		pass(20 * time.Second)
		w.is("a", "ready")
	})
}

// A lease that has ended while there was no daemon takes its service with it, even if the
// program lives.
func TestLeaseEndedWithoutADaemon(t *testing.T) {
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "a", time.Second))
		w.daemon.Kill()
		<-w.daemon.Over
		h := w.leaseOf("a")
		h.ended = true
		delete(w.leases, h.key.ID)
		w.start()
		pass(4 * time.Second) // a minder whose command ended with the lease would write that down first
		w.is("a", "failed")
		if s, _ := w.daemon.Find("a"); !strings.Contains(s.Failure.Why, "its lease has ended") {
			t.Errorf("it failed because %s", s.Failure.Why)
		}
	})
}

// When a person has stopped or started a service, the fronts know it.
func TestFrontsKnowWhatPeopleOrdered(t *testing.T) {
	inWorld(t, []service.Spec{spec("a")}, func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "a", time.Second))
		f := w.fronts[0]
		for _, stopped := range []bool{true, false, true} {
			order := w.daemon.Start
			if stopped {
				order = w.daemon.Stop
			}
			if err := order("a", operator, ""); err != nil {
				t.Fatal(err)
			}
			f.mu.Lock()
			if got := f.table["a"].told.Stopped != nil; got != stopped {
				t.Errorf("the front believes that it is stopped: %v", got)
			}
			f.mu.Unlock()
		}
		token := access.Actor{User: "op", UID: 7, Token: "ci", Door: access.TCP, Role: access.Operator}
		if err := errors.Join(w.daemon.Start("a", token, ""), w.daemon.Stop("a", token, "enough")); err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		if got := f.table["a"].told.Stopped.Sentence("a"); !strings.HasPrefix(got, "a token stopped the service a on ") {
			t.Errorf("callers read %q", got)
		}
		f.mu.Unlock()
		w.Set(func() {
			if e := w.events[len(w.events)-1]; e.Text != "The service a was stopped by token ci: enough." || e.Public != "The service a was stopped by a token: enough." {
				t.Errorf("the event says %q, to others %q", e.Text, e.Public)
			}
		})
		// One that does not listen is not waited for.
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = w.daemon.Orders(ctx, "deaf", func(api.FrontOrder) error { return nil }) }()
		pass(time.Second)
		asked := time.Now()
		if err := w.daemon.Start("a", operator, ""); err != nil || time.Since(asked) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(asked), err)
		}
	})
}

// Restart and move let the requests end, and bring the service back, on the device that
// was named.
func TestRestartAndMove(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", away(service.Park))}, func(t *testing.T, w *world) {
		w.room["G1"] = 80
		answered(t, w.ask(t.Context(), "a", time.Second))
		on := func() string { s, _ := w.daemon.Find("a"); return strings.Join(s.Devices, " ") }
		if on() != "G0" {
			t.Fatalf("it is on %s", on())
		}
		long := w.ask(t.Context(), "a", time.Minute)
		pass(time.Second)
		if err := w.daemon.Restart("a", operator, ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		waits := w.ask(t.Context(), "a", time.Second)
		answered(t, long)
		answered(t, waits)
		if w.begun["a"] != 2 {
			t.Errorf("it was started %d times", w.begun["a"])
		}
		for err, uuid := range map[string]string{"there already": "G0", "cannot come to G9": "G9"} {
			if got := w.daemon.Move("a", uuid, operator, ""); !errors.Is(got, ErrState) || !strings.Contains(got.Error(), err) {
				t.Errorf("moved to %s: %v", uuid, got)
			}
		}
		if name, takes := w.daemon.Moving(keyOf(w.life("a").Instance)); name != "a" || takes < 8*time.Second || takes > 9*time.Second {
			t.Errorf("%q takes %v to move; want what it took to stop and to start, 8 s and a little", name, takes)
		}
		if name, _ := w.daemon.Moving(lease.Key{ID: "other"}); name != "" {
			t.Errorf("berth runs %q under a lease of others", name)
		}
		if err := w.daemon.Move("a", "G1", operator, ""); err != nil {
			t.Fatal(err)
		}
		pass(20 * time.Second)
		w.is("a", "ready")
		if on() != "G1" {
			t.Errorf("it is on %s", on())
		}
		w.daemon.Vacate("G1", "GPU 1 is in quarantine", device("G9"))
		pass(20 * time.Second)
		if on() != "G1" || w.life("a").Switches != 3 {
			t.Errorf("it can go nowhere else, and is on %s after %d switches", on(), w.life("a").Switches)
		}
		w.daemon.Vacate("G1", "GPU 1 is in quarantine", device("G0"))
		w.Set(func() { w.room["G1"] = 0 })
		pass(20 * time.Second)
		w.is("a", "ready")
		if on() != "G0" {
			t.Errorf("it is on %s", on())
		}
		pass(time.Minute)
		answered(t, w.ask(t.Context(), "a", time.Second))
		i := w.life("a").Instance
		w.daemon.Away(keyOf(i), i.Fence, lease.Key{}, "x waits")
		pass(time.Minute)
		w.is("a", "parked")
		w.Set(func() { w.room["G1"] = 80 })
		w.daemon.Vacate("G0", "GPU 0 is in quarantine", device("G1"))
		pass(time.Minute)
		w.is("a", "away") // it comes if somebody asks for it
	})
}

// start: always starts a service with the daemon and again after it has ended, with
// growing pauses; start: never only by hand.
func TestStart(t *testing.T) {
	inWorld(t, []service.Spec{
		spec("a", with(func(s *service.Spec) { s.Start, s.Memory = service.Always, gpu.Some[gpu.MiB](30) })),
		spec("b", with(func(s *service.Spec) { s.Start, s.Memory = service.Never, gpu.Some[gpu.MiB](30) })),
		spec("c", with(func(s *service.Spec) { s.Start, s.Restart, s.Memory = service.Always, false, gpu.Some[gpu.MiB](30) })),
	}, func(t *testing.T, w *world) {
		pass(10 * time.Second)
		w.is("a", "ready")
		w.is("b", "away")
		w.is("c", "ready")
		if r := refusal(t, <-w.ask(t.Context(), "b", time.Second)); r.Code != "not_started" || r.RetryAfter != 0 {
			t.Errorf("it is refused with %+v", r)
		}
		if err := w.daemon.Start("b", operator, ""); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		w.is("b", "ready")
		w.kill("c")
		pass(time.Hour)
		w.is("c", "failed")
		good := w.script
		w.Set(func() { w.script = func(string, int) plan { return plan{come: -1, dies: time.Second} } })
		w.kill("a")
		pass(time.Hour)
		w.is("a", "failed")
		if n := w.begun["a"]; n < 12 || n > 25 {
			t.Errorf("in an hour, it was started %d times", n)
		}
		w.Set(func() { w.script = good })
		pass(10 * time.Minute)
		w.is("a", "ready")
	})
}

// A service whose user is not known yet has not failed: it comes when the user is known.
func TestAServiceWaitsForItsUser(t *testing.T) {
	always := with(func(s *service.Spec) { s.Start, s.Restart = service.Always, false })
	inWorld(t, []service.Spec{spec("a", always, with(func(s *service.Spec) { s.UID = -1 }))}, func(t *testing.T, w *world) {
		pass(time.Hour)
		w.is("a", "away")
		if found, _ := w.daemon.Find("a"); !strings.Contains(found.Why, "no user u") {
			t.Errorf("it waits because: %s", found.Why)
		}
		if r := refusal(t, <-w.ask(t.Context(), "a", time.Second)); r.Code != "unknown_user" {
			t.Errorf("it is refused with %+v", r)
		}
		w.daemon.Configure([]service.Spec{spec("a", always)})
		pass(10 * time.Second)
		w.is("a", "ready")
	})
}

// A default service comes back when nobody asks for another one, and leaves again when
// somebody does.
func TestDefault(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", with(func(s *service.Spec) { s.Default = true }), idleAfter(time.Minute)), spec("b"), spec("c")}, func(t *testing.T, w *world) {
		pass(20 * time.Second)
		w.is("a", "ready")
		pass(10 * time.Minute)
		w.is("a", "ready")
		answered(t, w.ask(t.Context(), "b", time.Minute))
		for range 3 { // somebody asks now and then
			pass(2 * time.Minute)
			w.is("b", "ready")
			answered(t, w.ask(t.Context(), "b", time.Second))
		}
		pass(6 * time.Minute)
		w.is("a", "ready")
		w.is("b", "away")
		if w.came != 3 {
			t.Errorf("%d came", w.came)
		}
	})
}

// Auto tries each way once, with a second start, and then takes the shortest. If the memory of the machine is
// full, or several processes use the device, it stops.
func TestAuto(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", away(service.Auto), idleAfter(10*time.Second))}, func(t *testing.T, w *world) {
		w.script = func(string, int) plan {
			return plan{come: 20 * time.Second, leave: time.Second, parks: 27 * time.Second, resumes: 7 * time.Second, sleeps: 2 * time.Second, wakes: 3 * time.Second, keeps: 5}
		}
		var went []string
		for range 4 {
			answered(t, w.ask(t.Context(), "a", time.Second))
			pass(2 * time.Minute)
			went = append(went, w.state("a"))
		}
		if want := []string{"asleep", "parked", "away", "asleep"}; !slices.Equal(went, want) {
			t.Errorf("it went to %v; want %v", went, want)
		}
		w.Set(func() { w.host = 0 })
		answered(t, w.ask(t.Context(), "a", time.Second))
		if s, _ := w.daemon.Find("a"); s.Goes != "sleep" || s.GoesWhy == "" {
			t.Errorf("it would go by %q: %s", s.Goes, s.GoesWhy)
		}
	})
	inWorld(t, []service.Spec{spec("a", away(service.Park), idleAfter(10*time.Second))}, func(t *testing.T, w *world) {
		for _, spoil := range []func(){func() { w.host = 0 }, func() { w.host, w.unfit["a"] = 1000, true }} {
			w.Set(spoil)
			answered(t, w.ask(t.Context(), "a", time.Second))
			pass(2 * time.Minute)
			w.is("a", "away")
		}
	})
}

// What a sleeping server frees is measured: one that says that it sleeps and keeps its
// memory is stopped, as is one that cannot sleep.
func TestSleepIsMeasured(t *testing.T) {
	for name, spoil := range map[string]func(*plan){
		"keeps": func(p *plan) { p.keeps = 55 },
		"fails": func(p *plan) { p.sleepErr = "the server answered 500" },
	} {
		inWorld(t, []service.Spec{spec("a", away(service.Sleep), idleAfter(10*time.Second))}, func(t *testing.T, w *world) {
			p := w.script("a", 1)
			spoil(&p)
			w.script = func(string, int) plan { return p }
			answered(t, w.ask(t.Context(), "a", time.Second))
			pass(time.Minute)
			w.is("a", "away")
			if told := w.told(gpu.EventServiceLeft); len(told) != 1 || !strings.Contains(told[0], "sleep failed, so it is stopped") {
				t.Errorf("%s: people are told %q", name, told)
			}
		})
	}
	inWorld(t, []service.Spec{spec("a", away(service.Sleep), idleAfter(10*time.Second))}, func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "a", time.Second))
		pass(time.Minute)
		w.is("a", "asleep")
		if h := w.leaseOf("a"); h.memory != 5 {
			t.Errorf("asleep, it leases %v; want the 5 that it keeps", h.memory)
		}
		answered(t, w.ask(t.Context(), "a", time.Second))
		if h := w.leaseOf("a"); h.memory != 60 {
			t.Errorf("awake, it leases %v", h.memory)
		}
	})
}

// A sleeping server that waits for room to wake does not keep what it has from one that
// waits before it: each would wait for the other.
func TestASleeperMakesRoom(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", away(service.Sleep), idleAfter(5*time.Second)), spec("b", idleAfter(5*time.Second)), spec("c", with(func(s *service.Spec) { s.Memory = gpu.Some[gpu.MiB](98) }))}, func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "a", time.Second))
		pass(time.Minute)
		w.is("a", "asleep")
		answered(t, w.ask(t.Context(), "b", time.Second))
		long := w.ask(t.Context(), "b", time.Minute)
		pass(time.Second)
		large := w.ask(t.Context(), "c", time.Second)
		pass(time.Second)
		small := w.ask(t.Context(), "a", time.Second)
		for _, done := range []<-chan error{long, large, small} {
			answered(t, done)
		}
	})
}

// A sleeping server that has just got its memory again is not sent away for it, though the
// owner has not heard of it yet.
func TestASleeperThatHasRoomWakes(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", away(service.Sleep), idleAfter(5*time.Second))}, func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "a", time.Second))
		pass(time.Minute)
		w.is("a", "asleep")
		w.Set(func() { w.grown = func(h *held) { w.daemon.Away(h.key, h.fence, lease.Key{}, "another waits") } })
		answered(t, w.ask(t.Context(), "a", time.Second))
		if w.begun["a"] != 1 {
			t.Errorf("it was started %d times", w.begun["a"])
		}
	})
}

// A daemon that is restarted leaves programs and streams alone, and the epoch of a service
// that was ready stays open: requests pass while there is no daemon. It closes nothing
// before the fronts have told of their requests.
func TestRestartOfTheDaemon(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", idleAfter(time.Second), away(service.Park)), spec("b")}, func(t *testing.T, w *world) {
		long := w.ask(t.Context(), "a", 10*time.Minute)
		pass(20 * time.Second)
		epoch := w.life("a").Epoch
		w.daemon.Kill()
		meanwhile := w.ask(t.Context(), "a", time.Second)
		answered(t, meanwhile)
		<-w.daemon.Over
		w.start()
		k := keyOf(w.life("a").Instance)
		if u, _ := w.daemon.Use(k, w.life("a").Instance.Fence); !u.Idle.IsZero() || !u.Barred.After(time.Now()) {
			t.Errorf("before the fronts have told of their requests, its use is %+v", u)
		}
		w.daemon.Away(k, w.life("a").Instance.Fence, lease.Key{}, "x waits")
		synctest.Wait()
		w.is("a", "ready")
		pass(time.Minute)
		w.is("a", "ready")
		if now := w.life("a").Epoch; now != epoch || w.begun["a"] != 1 {
			t.Errorf("its epoch is %d after %d, and it was started %d times", now, epoch, w.begun["a"])
		}
		answered(t, long)
		pass(time.Minute)
		w.is("a", "parked")
	})
}

// A front that vanishes has no requests after some seconds; one that is there and has not
// told of its requests holds everything open.
func TestFrontsThatVanish(t *testing.T) {
	inWorld(t, []service.Spec{spec("a"), spec("b")}, func(t *testing.T, w *world) {
		broken := w.ask(t.Context(), "a", time.Hour)
		pass(time.Minute)
		if err := w.daemon.Stop("a", operator, ""); err != nil {
			t.Fatal(err)
		}
		w.is("a", "closing")
		old := w.fronts[0]
		w.front()
		old.kill()
		if err := <-broken; !errors.Is(err, errBroken) {
			t.Error(err)
		}
		pass(patience - time.Second)
		w.is("a", "closing")
		pass(3 * time.Second)
		w.is("a", "stopped")

		silent := func(front string) context.CancelFunc {
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _ = w.daemon.Orders(ctx, front, func(api.FrontOrder) error { return nil }) }()
			return cancel
		}
		answered(t, w.ask(t.Context(), "b", time.Second))
		gone := silent("silent")
		pass(time.Second)
		if !w.daemon.Connected("silent") {
			t.Error("a front that gets orders is not connected")
		}
		if err := w.daemon.Stop("b", operator, ""); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		w.is("b", "ready") // nobody knows whether that front has requests
		gone()
		synctest.Wait()
		if w.daemon.Connected("silent") {
			t.Error("a front whose stream has ended is connected")
		}
		pass(patience + 2*time.Second)
		w.is("b", "stopped")
	})
}

// A reload stops nothing: what has changed holds from the next start. A service that is in
// no settings any more ends its requests and goes.
func TestReload(t *testing.T) {
	inWorld(t, []service.Spec{spec("a"), spec("b")}, func(t *testing.T, w *world) {
		long := w.ask(t.Context(), "a", time.Minute)
		pass(20 * time.Second)
		w.daemon.Configure([]service.Spec{spec("a", with(func(s *service.Spec) { s.Memory, s.Models = gpu.Some[gpu.MiB](40), []string{"new"} })), spec("c")})
		synctest.Wait()
		w.is("a", "ready")
		w.is("b", "none")
		w.is("c", "away")
		s, _ := w.daemon.Find("a")
		if s.Memory != gpu.Some[gpu.MiB](60) {
			t.Errorf("it has %v", s.Memory)
		}
		pass(time.Second)
		f := w.fronts[0]
		f.mu.Lock()
		if told := f.table["a"].told; !slices.Equal(told.Models, []string{"new"}) || f.table["b"] != nil || f.table["c"] == nil {
			t.Errorf("the front is told %+v", told)
		}
		f.mu.Unlock()
		w.daemon.Configure([]service.Spec{spec("c")})
		pass(time.Second)
		w.is("a", "closing")
		if r := refusal(t, <-w.ask(t.Context(), "a", time.Second)); r.Status != 404 {
			t.Errorf("it is refused with %+v", r)
		}
		answered(t, long)
		pass(10 * time.Second)
		w.is("a", "none")
		if len(w.leases) != 0 || len(w.servers) != 0 {
			t.Errorf("there are left %v and %v", w.leases, w.servers)
		}
	})
}

// A service that is in no settings for a while begins anew: its requests end before it goes.
func TestReloadBringsOneBack(t *testing.T) {
	inWorld(t, []service.Spec{spec("a"), spec("b")}, func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "a", time.Second))
		w.daemon.Configure([]service.Spec{spec("b")})
		pass(time.Minute)
		w.is("a", "none")
		w.daemon.Configure([]service.Spec{spec("a"), spec("b")})
		synctest.Wait()
		long := w.ask(t.Context(), "a", time.Minute)
		pass(20 * time.Second)
		if err := w.daemon.Stop("a", operator, "to look"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		w.is("a", "closing")
		answered(t, long)
	})
}

// Where nobody knows how much memory a service uses, it has the device alone; later it has
// what it used.
func TestLearnedMemory(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", idleAfter(time.Second), with(func(s *service.Spec) { s.Memory = gpu.Opt[gpu.MiB]{} }))}, func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "a", time.Second))
		if s, _ := w.daemon.Find("a"); s.Memory != gpu.Some[gpu.MiB](100) || s.Learned {
			t.Errorf("the first time, it has %v", s.Memory)
		}
		pass(time.Minute)
		w.Set(func() { w.learned["a"] = 33 })
		answered(t, w.ask(t.Context(), "a", time.Second))
		if s, _ := w.daemon.Find("a"); s.Memory != gpu.Some[gpu.MiB](33) || !s.Learned {
			t.Errorf("the second time, it has %v", s.Memory)
		}
	})
}

// A server may show by a line of its log that it is ready.
func TestReadyByLog(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", with(func(s *service.Spec) { s.Ready.Log = "listening" }))}, func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "a", time.Second))
	})
	inWorld(t, []service.Spec{spec("a", with(func(s *service.Spec) { s.Ready.Log = "never said" }))}, func(t *testing.T, w *world) {
		if r := refusal(t, <-w.ask(t.Context(), "a", time.Second)); !strings.Contains(r.Why, `was not ready within its start_timeout of 2 min: no line of its log has "never said"`) {
			t.Errorf("it is refused with %+v", r)
		}
	})
}

// On a full disk nothing is started or stopped, and what is ready goes on; when there is
// room again, so does the rest.
func TestFullDisk(t *testing.T) {
	inWorld(t, []service.Spec{spec("a"), spec("b")}, func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "a", time.Second))
		w.Set(func() { w.full = true })
		b := w.ask(t.Context(), "b", time.Second)
		pass(time.Minute)
		answered(t, w.ask(t.Context(), "a", time.Second))
		w.is("b", "away")
		w.kill("a")
		pass(time.Minute)
		w.is("a", "ready") // it cannot be written down
		if told := w.told(gpu.EventJournal); len(told) != 1 {
			t.Errorf("people are told %q", told)
		}
		w.Set(func() { w.full = false })
		answered(t, b)
		w.is("a", "failed")
	})
}

// After a reboot no program runs: an on-demand service is away, and one that is always
// there starts again. That is no failure.
func TestReboot(t *testing.T) {
	inWorld(t, []service.Spec{spec("a", with(func(s *service.Spec) { s.Start, s.Memory = service.Always, gpu.Some[gpu.MiB](30) })), spec("b")}, func(t *testing.T, w *world) {
		answered(t, w.ask(t.Context(), "b", time.Second))
		w.daemon.Kill()
		<-w.daemon.Over
		w.Set(func() {
			w.Boot = "boot-2"
			clear(w.leases)
			clear(w.servers)
			for _, r := range w.Runs {
				r.Alive = false
			}
		})
		w.start()
		pass(20 * time.Second)
		w.is("a", "ready")
		w.is("b", "away")
		if s, _ := w.daemon.Find("b"); s.Failure != nil {
			t.Errorf("that is a failure: %+v", s.Failure)
		}
	})
}

// What is written is read again; a damaged file is set aside and told.
func TestTheFile(t *testing.T) {
	o := Options{Folder: t.TempDir()}
	first, damage := Open(o)
	if damage != nil {
		t.Fatal(damage)
	}
	i := &service.Instance{Spec: spec("a", idleAfter(time.Minute)), Number: 7, Fence: 3}
	life := service.Life{State: service.Serving, Epoch: 4, Instance: i, Trouble: map[service.Way]time.Time{service.Park: time.Unix(5, 0).UTC()}}
	if err := first.store.Save(kept{Services: map[string]*service.Life{"a": &life}, Fronts: []string{"f"}}); err != nil {
		t.Fatal(err)
	}
	second, damage := Open(o)
	if s := second.services["a"]; damage != nil || s == nil || s.life.Epoch != 4 || s.life.Instance.Spec.IdleAfter != i.Spec.IdleAfter || second.fronts["f"] == nil || len(s.life.Trouble) != 1 {
		t.Errorf("it is read as %+v, %v", second.services, damage)
	}
	if v, found := second.Find("a"); !found || v.State != "ready" { // before Run
		t.Errorf("it is shown as %+v", v)
	}
	for _, text := range []string{"nonsense", `{"version":1,"services":{"a":{"state":"ready"}}}`, `{"version":1,"services":{"a":{"state":"gone"}}}`} {
		if err := os.WriteFile(filepath.Join(o.Folder, FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if third, damage := Open(o); damage == nil || len(third.services) != 0 {
			t.Errorf("%q is read as %v", text, third.services)
		}
	}
}

// The user of a service reads why its program could not be started, and those who ask for
// it read that without paths.
func TestWhyItCouldNotBeStarted(t *testing.T) {
	for failure, want := range map[string]string{
		"run /hush/server: there is no such file":                          "its program could not be started: there is no such file.",
		"run server: there is no such command in the folders of PATH":      "its program could not be started: there is no such command in the folders of PATH.",
		"open the folder /hush: permission denied":                         "its program could not be started: permission denied.",
		"the user ada is not in the user database of this machine":         "its program could not be started: the user ada is not in the user database of this machine.",
		"run /hush/server: the interpreter is /hush/python, which is gone": "its program could not be started.",
	} {
		why := endOf(runs.Record{PID: 7, Failure: failure}, "")
		if why != "its program could not be started: "+failure {
			t.Errorf("its user reads %q", why)
		}
		if r := failed("chat", &api.ServiceFailure{Why: why, Count: 1}); !strings.Contains(r.Why, "The service chat failed: "+want) || strings.Contains(r.Why, "hush") {
			t.Errorf("those who ask read %q", r.Why)
		}
	}
}
