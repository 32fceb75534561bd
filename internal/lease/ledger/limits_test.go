package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

// limited returns the settings of a world in which everybody has limits.
func limited(generation uint64, change func(*lease.Limits)) quota.Lookup {
	return quota.Lookup{Generation: generation, Of: func(s lease.Subject) *lease.Limits {
		l := lease.Builtin()
		l.Subject, l.Generation = s, generation
		change(&l)
		return &l
	}}
}

func memoryLimit(m gpu.MiB) func(*lease.Limits) {
	return func(l *lease.Limits) { l.Memory = lease.Limit[gpu.MiB]{Opt: gpu.Some(m), Source: "users.1"} }
}

func timed(d time.Duration) func(*lease.Request) {
	return func(r *lease.Request) { r.TimeLimit = d }
}

func isLimit(t *testing.T, err error, name string, later bool, words ...string) {
	t.Helper()
	limit := (*quota.LimitError)(nil)
	if !errors.As(err, &limit) || limit.Name != name || limit.Later != later {
		t.Errorf("%s: %+v: %v", name, limit, err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
}

// Who waits for a limit is told from who waits for a device, and so is who is behind one
// that waits for a limit of the same user.
func TestLimitedIsToldFromTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Limits = limited(1, memoryLimit(50))
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 45))
		k.grant(want("beside", 40, of(2)))
		for _, r := range []lease.Request{want("b", 30, wait(time.Hour)), want("c", 5, wait(time.Hour)), want("machine", 50, of(3), wait(time.Hour))} {
			k.queue(t.Context(), r)
		}
		found := k.Limited()
		for id, want := range map[string]string{"b": "45 MiB of your limit", "c": "it is behind b, which waits for your limits"} {
			err := found[k.only(id)]
			if err == nil || quota.KindOf(err) != "user" || !strings.Contains(err.Error(), want) {
				t.Errorf("%s waits for %v", id, err)
			}
			if limit := (*quota.LimitError)(nil); errors.As(err, &limit) && (strings.Contains(limit.Others(), "your")) {
				t.Errorf("others are told of %s: %s", id, limit.Others())
			}
		}
		if len(found) != 2 || quota.KindOf(nil) != "" {
			t.Errorf("limits keep %v", found)
		}
	})
}

// What limits leave to a program that the daemon runs they leave it also if its request comes
// just before the ledger has the settings that they are from.
func TestLimitsOfAProgramFromOtherSettings(t *testing.T) {
	w := newWorld()
	w.settings.Limits = limited(1, func(l *lease.Limits) {
		l.Named = lease.Limit[bool]{Opt: gpu.Some(false), Source: "users.default"}
	})
	k := w.start(t)
	k.device(0, 100)
	for generation := range uint64(3) {
		limits := lease.Builtin()
		limits.Subject.Owner, limits.Generation = user(1).Owner(), generation
		k.grant(want(fmt.Sprint("run-", generation), 10, func(r *lease.Request) { r.Limits = limits.OfProgram() }))
	}
	isLimit(t, k.refused(want("own", 10)), "named_leases", false)
}

// What keeps requests is told without a text for each, which few read.
func TestLimitedMakesNoTexts(t *testing.T) {
	const waiting = 1000
	w := newWorld()
	w.settings.Limits = limited(1, memoryLimit(2000))
	k := w.start(t)
	k.device(0, 10_000)
	k.grant(want("a", 1500))
	leave := k.sit()
	for i := range waiting {
		r := want(fmt.Sprint("w-", i), gpu.MiB(waiting-i)) // half of them are only behind one that waits
		r.GPUs, r.Requested, r.Deadline = 1, time.Now(), time.Now().Add(time.Hour)
		k.waiters[&r] = &waiter{request: &r, done: make(chan outcome, 1)}
		if _, err := k.apply(lease.Ask{Request: &r}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	k.effects = k.effects[:0]
	leave()
	if found := k.Limited(); len(found) != waiting {
		t.Fatalf("limits keep %d of %d", len(found), waiting)
	}
	if made := testing.AllocsPerRun(5, func() { k.Limited() }) / waiting; made > 6 {
		t.Errorf("each of %d requests takes %.1f allocations", waiting, made)
	}
}

// Others have the book while somebody looks at what keeps a long queue: what is told of those
// who are looked at later is what holds then.
func TestLimitedLetsOthersGoOn(t *testing.T) {
	w := newWorld()
	w.settings.Limits = limited(1, memoryLimit(10))
	k := w.start(t)
	k.device(0, 10_000)
	leave := k.sit()
	for i := range 3 * mostAtOnce {
		r := want(fmt.Sprint("w-", i), 20)
		r.GPUs, r.Requested, r.Deadline = 1, time.Now().Add(time.Duration(i)), time.Now().Add(time.Hour)
		k.waiters[&r] = &waiter{request: &r, done: make(chan outcome, 1)}
		if _, err := k.apply(lease.Ask{Request: &r}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	k.effects = k.effects[:0]
	leave()
	var seen []string
	for r, err := range k.overQuotas {
		if err == nil {
			t.Errorf("nothing keeps %s", r.ID)
		}
		if seen = append(seen, r.ID); len(seen) == 1 { // this would wait for ever if the lock were held
			leave := k.sit()
			for _, r := range slices.Clone(k.book.Waiting())[2*mostAtOnce:] {
				if _, err := k.apply(lease.Withdraw{Key: r.Key(), By: access.Daemon()}, time.Now()); err != nil {
					t.Error(err)
				}
				delete(k.waiters, r)
			}
			k.effects = k.effects[:0]
			k.shift(time.Hour) // they still wait when the clock is set
			leave()
		}
	}
	if len(seen) != 2*mostAtOnce {
		t.Errorf("%d requests were looked at, want %d", len(seen), 2*mostAtOnce)
	}
}

// A request that waits for a limit of its user keeps no room from others, and no
// other request of the user takes what it waits for.
func TestWaitingForALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Limits = limited(1, memoryLimit(50))
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 30))
		isLimit(t, k.refused(want("big", 60, wait(time.Hour))), "memory_mb", false, "60 MiB is more than your limit of 50 MiB (users.1)", "you hold 30 MiB")
		isLimit(t, k.refused(want("now", 30, wait(0))), "memory_mb", true, "30 MiB of your limit of 50 MiB")
		waits := k.queue(t.Context(), want("b", 40, wait(time.Hour)))
		e, _ := k.ExplainWaiting(k.only("b"))
		if !errors.Is(e.Quota, quota.ErrLimit) || e.Refusal != nil || e.LargestEver != 50 {
			t.Errorf("b waits for %v and %v, and could have %v", e.Quota, e.Refusal, e.LargestEver)
		}
		if err := k.refused(want("c", 10)); !errors.Is(err, quota.ErrLimit) || !strings.Contains(err.Error(), "it is behind b, which waits for your limits") {
			t.Errorf("c was refused with %v", err)
		}
		k.grant(want("other", 70, of(2), func(r *lease.Request) { r.By.Role = access.Admin })) // who may exceed them
		k.give("a", 1)
		k.give("other", 2)
		if d := <-waits; d.err != nil {
			t.Error(d.err)
		}
		if _, err := k.Resize(t.Context(), byID("b"), 0, 51, by(1), nil, 0); !errors.Is(err, quota.ErrLimit) {
			t.Errorf("it was made larger than the limit: %v", err)
		}
		if _, err := k.Resize(t.Context(), byID("b"), 0, 50, by(1), nil, 0); err != nil {
			t.Errorf("it was not made as large as the limit: %v", err)
		}
	})
}

// A limit below what stands takes nothing away, and holds for what comes.
func TestLimitBelowWhatStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Limits = limited(1, memoryLimit(80))
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 60))
		waits := k.queue(t.Context(), want("b", 30, wait(time.Minute)))
		w.settings.Limits = limited(2, memoryLimit(20))
		k.Configure(w.settings)
		if usage := k.Usage(w.settings.Limits.For(user(1), nil, ptr(by(1)))); usage.Has.Memory != 60 || usage.Memory.Or(0) != 20 {
			t.Errorf("they have %v of %v", usage.Has.Memory, usage.Memory.Or(0))
		}
		k.give("a", 1) // b asked when more was allowed
		d := <-waits
		if late := (*placement.TimeoutError)(nil); !errors.As(d.err, &late) || !errors.Is(late.Why(), quota.ErrLimit) {
			t.Errorf("b: %v %v", d.lease, d.err)
		}
		k.grant(want("c", 20))
		w.settings.Limits = limited(3, memoryLimit(90))
		k.Configure(w.settings)
		k.grant(want("d", 70))
	})
}

func ptr[T any](v T) *T { return &v }

func TestOtherLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Services = map[string]quota.Served{"pool": {Service: quota.Service{Name: "pool", MaxMemory: 10}}}
		w.settings.Limits = limited(1, func(l *lease.Limits) {
			l.Slots = lease.Limit[int]{Opt: gpu.Some(1), Source: "users.default"}
			l.Leases = lease.Limit[int]{Opt: gpu.Some(2), Source: "users.default"}
			l.Waiting = lease.Limit[int]{Opt: gpu.Some(1), Source: "users.default"}
			l.LongestWait = lease.Limit[time.Duration]{Opt: gpu.Some(time.Minute), Source: "users.default"}
			l.LongestTTL = lease.Limit[time.Duration]{Opt: gpu.Some(time.Minute), Source: "users.default"}
			l.LongestTime = lease.Limit[time.Duration]{Opt: gpu.Some(time.Hour), Source: "users.default"}
			l.Named = lease.Limit[bool]{Opt: gpu.Some(false), Source: "users.default"}
			l.Service = lease.Limit[string]{Opt: gpu.Some("pool"), Source: "users.default"}
		})
		k := w.start(t)
		k.device(0, 100)
		isLimit(t, k.refused(want("n", 10)), "named_leases", false, "ttl")
		isLimit(t, k.refused(want("long", 10, ttl(2*time.Minute))), "longest_ttl_seconds", false, "2 min is longer than your limit of 1 min", "users.default")
		isLimit(t, k.refused(want("longer", 10, ttl(time.Minute), timed(2*time.Hour))), "longest_time_seconds", false)
		isLimit(t, k.refused(want("wide", 10, ttl(time.Minute), slots(2))), "slots", false, "2 slots is more than your limit of 1 slot")
		if err := k.refused(want("large", 11, ttl(time.Minute))); !errors.Is(err, quota.ErrMaxMemory) {
			t.Errorf("the service of the limits does not hold: %v", err)
		}
		a := k.grant(want("a", 10, ttl(time.Minute), slots(1)))
		if a.Holder.Service != "pool" || a.TimeLimit != time.Hour || !a.Imposed || !a.Unchosen || !strings.Contains(a.Note, "longest_time_seconds (users.default)") {
			t.Errorf("a is %+v", a)
		}
		if _, ends := a.Until(); !ends || !a.Expires.Before(a.Granted.Add(a.TimeLimit)) {
			t.Errorf("a ends with its ttl: %+v", a)
		}
		if _, err := k.Renew(t.Context(), byID("a"), 0, 2*time.Minute, by(1), nil); !errors.Is(err, quota.ErrLimit) {
			t.Errorf("a longer ttl by a renewal: %v", err)
		}
		k.grant(want("b", 10, ttl(time.Minute), slots(0)))
		waits := k.queue(t.Context(), want("c", 10, ttl(time.Minute), slots(0), wait(time.Hour)))
		if err := k.refused(want("d", 10, ttl(time.Minute), slots(0), wait(time.Hour))); !errors.Is(err, quota.ErrCrowded) {
			t.Errorf("one more waits: %v", err)
		}
		began := time.Now()
		k.give("b", 1)
		if d := <-waits; d.err != nil || !strings.Contains(d.lease.Note, "waits 60 s at most") {
			t.Errorf("c: %+v %v", d.lease, d.err)
		}
		k.give("a", 1)
		k.give("c", 1)
		k.grant(want("full", 100, of(2), func(r *lease.Request) { r.By.Role, r.Binding, r.Holder.Service = access.Admin, lease.ByName, "" }))
		if late := k.refused(want("e", 10, ttl(time.Minute), slots(1), wait(time.Hour))); time.Since(began) != time.Minute {
			t.Errorf("e waited %v: %v", time.Since(began), late)
		}
	})
}

// Members of a group have a limit together, which counts the leases of those who
// were in it when they asked.
func TestLimitsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Limits = limited(1, func(l *lease.Limits) {
			if l.Subject.UID < 3 {
				l.Together = []lease.Together{{Group: "students", Memory: gpu.Some(gpu.MiB(50))}}
			}
		})
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 30))
		k.grant(want("free", 30, of(3)))
		waits := k.queue(t.Context(), want("b", 30, of(2), wait(time.Hour)))
		e, _ := k.ExplainWaiting(k.only("b"))
		if e.Quota == nil || !strings.Contains(e.Quota.Error(), "members of students") || !strings.Contains(e.Quota.Error(), "groups.students.together") {
			t.Errorf("b waits for %v", e.Quota)
		}
		if err := k.refused(want("c", 10)); !errors.Is(err, quota.ErrLimit) {
			t.Errorf("c took what b waits for: %v", err)
		}
		k.stop()
		<-waits
		k = w.start(t)
		k.device(0, 100)
		if n := k.Usage(w.settings.Limits.For(user(2), nil, ptr(by(2)))).Together[0].Memory; n != 30 {
			t.Errorf("after a restart, the group has %v", n)
		}
		isLimit(t, k.refused(want("d", 30, of(2), wait(0))), "memory_mb", true)
		k.give("a", 1)
		k.grant(want("d", 30, of(2)))
	})
}

// A lease ends at its time limit, with a warning ahead, and not before it, however
// often it is renewed; also across a restart.
func TestTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		began := time.Now()
		a := k.grant(want("a", 10, ttl(time.Minute), timed(100*time.Second)))
		k.grant(want("b", 10, timed(time.Hour)))
		k.grant(want("c", 10, ttl(10*time.Second), timed(time.Hour)))
		time.Sleep(50 * time.Second)
		if _, err := k.Renew(t.Context(), byID("a"), a.Fence, time.Minute, by(1), nil); err != nil {
			t.Fatal(err)
		}
		if e := k.told(gpu.EventExpired, "c"); e.Time.Sub(began) != 10*time.Second {
			t.Errorf("c expired after %v", e.Time.Sub(began))
		}
		e := k.told(gpu.EventEnding, "a")
		if e.Time.Sub(began) != 90*time.Second || e.Data["time_limit_seconds"] != 100.0 || !strings.Contains(e.Text, "its time limit of") {
			t.Errorf("after %v: %+v", e.Time.Sub(began), e)
		}
		e = k.told(gpu.EventRevoked, "a")
		if e.Time.Sub(began) != 100*time.Second || !strings.Contains(e.Text, "its time limit of 100 s is over") {
			t.Errorf("after %v: %s", e.Time.Sub(began), e.Text)
		}
		k.stop()
		time.Sleep(40 * time.Minute)
		k = w.start(t)
		k.device(0, 100)
		if e := k.told(gpu.EventEnding, "b"); e.Time.Sub(began) != 55*time.Minute {
			t.Errorf("b was warned after %v", e.Time.Sub(began))
		}
		k.stop()
		time.Sleep(time.Hour)
		k = w.start(t)
		k.told(gpu.EventRevoked, "b")
	})
}

// Somebody who ends the processes of a lease first is told once, and again a
// minute later if the lease still stands.
func TestTimeLimitIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		told := make(chan string, 9)
		k.submitNothing(t)
		k.hooks.Changed = func(e *lease.Effect) {
			if e.Kind == lease.Overran {
				told <- e.After.ID + ": " + e.After.OverrunText()
			}
		}
		k.device(0, 100)
		began := time.Now()
		a := k.grant(want("a", 10, timed(time.Minute)))
		if got := <-told; got != "a: its time limit of 60 s is over" || time.Since(began) != time.Minute {
			t.Errorf("after %v: %s", time.Since(began), got)
		}
		if <-told; time.Since(began) != 2*time.Minute {
			t.Errorf("again after %v", time.Since(began))
		}
		if err := k.Revoke(t.Context(), a.Key(), a.Fence, "enough", nil); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if len(told) != 0 {
			t.Error("it was told of a lease that has ended")
		}
	})
}

// submitNothing returns when the clerk is at work, so that the hooks may change.
func (k *keeper) submitNothing(t *testing.T) {
	t.Helper()
	if err := k.submit(t.Context(), func(time.Time) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// The limit of GPUs counts the devices of new leases, adopted ones among them. A lease that
// grows stays on its own.
func TestGPUsOfLeasesThatGrowAndOfAdoptedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Limits = limited(1, func(l *lease.Limits) {
			l.GPUs = lease.Limit[int]{Opt: gpu.Some(1), Source: "users.default"}
		})
		k := w.start(t)
		app := child(t).Process.Pid
		k.device(0, 100, used(app, 2))
		k.device(1, 100, used(app, 2))
		id, err := process.Proc().Identify(app)
		if err != nil {
			t.Fatal(err)
		}
		adoption := Adoption{ID: "adopted", Holder: user(1), Memory: 10, By: by(1)}
		adoption.Holder.PID, adoption.Holder.Start, adoption.Holder.Boot = id.PID, id.Start, k.boot
		_, err = k.Adopt(t.Context(), adoption)
		isLimit(t, err, "gpus", false)
		k.grant(want("a", 30, slots(1), at(dev(0))))
		if held, err := k.Resize(t.Context(), byID("a"), 0, 50, by(1), nil, 0); err != nil || held.Parts[0].Memory != 50 {
			t.Errorf("resize: %v", err)
		}
		k.grant(want("child", 10, under("a")))
		if _, err := k.Resize(t.Context(), byID("child"), 0, 20, by(1), nil, 0); err != nil {
			t.Errorf("resize a child: %v", err)
		}
		k.grant(want("a", 60, slots(1), madeAgain(lease.SameID)))
		isLimit(t, k.refused(want("b", 10, at(dev(1)))), "gpus", true)
	})
}

// A child counts for the quota of its service, unless its memory counts for that already.
func TestChildrenOfAnotherServiceCountForItsQuota(t *testing.T) {
	w := newWorld()
	w.settings.Services = map[string]quota.Served{"b": {Service: quota.Service{Name: "b", Quota: lease.Usage{Memory: 10}}}}
	k := w.start(t)
	k.device(0, 100)
	k.grant(want("parent", 80, slots(1)))
	k.grant(want("first", 10, under("parent"), service("b")))
	if err := k.refused(want("second", 10, under("parent"), service("b"))); !errors.Is(err, quota.ErrQuota) {
		t.Error(err)
	}
	k.grant(want("without", 0, under("parent"), service("b")))
	k.give("first", 1)
	k.grant(want("own", 10, slots(1), service("b")))
	k.grant(want("part", 10, under("own"), service("b")))
}
