package ledger

import (
	"errors"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

// implied binds the lease to a process because nobody said what ends it.
func (k *keeper) implied(pid int) func(*lease.Request) {
	return func(r *lease.Request) {
		k.bound(pid)(r)
		r.Implied = true
	}
}

// detached is a lease whose caller, a process that still runs, seems to have
// exited.
func (k *keeper) detached(id string, memory gpu.MiB, pid int, change ...func(*lease.Request)) {
	k.t.Helper()
	request := want(id, memory, append(change, k.implied(pid))...)
	err := k.submit(k.t.Context(), func(now time.Time) error {
		if _, err := k.apply(lease.Grant{Lease: request.Lease(dev(0))}, now); err != nil {
			return err
		}
		_, err := k.apply(lease.Detach{Key: request.Key()}, now)
		return err
	})
	if err != nil {
		k.t.Fatal(err)
	}
}

func TestCallerThatExitsUnmeasuredLeavesItsLease(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	script, exit := script(t)
	granted := k.grant(want("script", 40, k.implied(script.Process.Pid)))
	exit()
	k.told(gpu.EventBound, "script")
	check := func(k *keeper) {
		t.Helper()
		held, stands := k.Find(k.only("script"))
		if !stands || held.Fence != granted.Fence || held.Binding != lease.ByTTL || held.TTL != lease.DetachedTTL || !held.Implied || held.EnforcedBy != "none" {
			t.Fatalf("the lease is %+v", held.Lease)
		}
	}
	check(k)
	if err := k.refused(want("script", 10)); !errors.Is(err, lease.ErrDuplicate) {
		t.Errorf("its id was refused with %v", err)
	}
	until(t, "its process is watched no longer", func() bool { return k.watched() == 0 })
	k.die(w.disk.Kill)
	k = w.start(t)
	k.device(0, 100)
	k.grant(want("next", 60))
	check(k)
}

// After a crash the same id is free again, at once.
func TestApplicationThatWasMeasuredTakesItsLeaseAlong(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	for range 3 {
		app := child(t)
		k.grant(want("app", 40, k.implied(app.Process.Pid)))
		k.device(0, 100, used(app.Process.Pid, 30))
		kill(t, app)
		k.told(gpu.EventReleased, "app")
		k.forget(gpu.EventReleased, "app")
	}
}

// An application that crashes before it is measured takes its lease along, too: a
// program that only asks for others exits by itself. What the kernel tells of the end
// outlasts a full disk.
func TestCallerThatASignalEndsLeavesNothing(t *testing.T) {
	for _, full := range []bool{false, true} {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		app, exit := script(t)
		granted := k.grant(want("app", 40, k.implied(app.Process.Pid)))
		if full {
			w.fail(errFull, false)
		}
		k.holders.exited(processOf(granted), true) // as its watch does
		if full {
			k.told(gpu.EventJournal, "")
			exit() // the rest is the backlog's
			w.fail(nil, false)
		}
		k.told(gpu.EventReleased, "app")
	}
}

// forget lets told wait for the next event.
func (k *keeper) forget(code gpu.EventCode, id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.events, string(code)+id)
}

// Nobody knows when a process exited while the daemon was away. Its lease stands
// for a while, unless the process had been measured.
func TestCallerThatExitsWhileTheDaemonIsAway(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	alive, exit := script(t)
	app, script := child(t), child(t)
	k.grant(want("app", 10, k.implied(app.Process.Pid)))
	k.grant(want("script", 10, k.implied(script.Process.Pid)))
	k.grant(want("alive", 10, k.implied(alive.Process.Pid)))
	k.device(0, 100, used(app.Process.Pid, 5))
	k.grant(want("other", 10)) // from here on the use is written down
	k.die(w.disk.Kill)
	kill(t, app)
	kill(t, script)

	k = w.start(t)
	k.device(0, 100)
	k.told(gpu.EventReleased, "app")
	k.told(gpu.EventBound, "script")
	if got, want := k.leases(), []string{"script", "alive", "other"}; !slices.Equal(got, want) {
		t.Errorf("leases are %v, want %v", got, want)
	}
	exit() // it is watched again, and not settled
	k.told(gpu.EventBound, "alive")
}

func TestAfterARebootAnImpliedLeaseEnds(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	k.grant(want("app", 10, k.implied(os.Getpid())))
	k.stop()
	w.entries = anotherBoot(t)
	k = w.start(t)
	k.told(gpu.EventReleased, "app")
}

func TestCallerThatIsGoneBeforeTheAnswerLeavesNothing(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	dead := child(t)
	request := want("dead", 100, k.implied(dead.Process.Pid))
	kill(t, dead)
	if err := k.refused(request); !errors.Is(err, process.ErrGone) {
		t.Errorf("it was refused with %v", err)
	}
	if got := k.leases(); len(got) != 0 {
		t.Errorf("%v stand", got)
	}
}

// A full disk delays what is written down, and loses nothing.
func TestFullDiskDelaysADetach(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	script, exit := script(t)
	k.grant(want("script", 10, k.implied(script.Process.Pid)))
	w.fail(errFull, false)
	exit()
	k.told(gpu.EventJournal, "")
	if held, _ := k.Find(k.only("script")); held.Lease == nil {
		t.Error("the lease is gone")
	}
	w.fail(nil, false)
	k.told(gpu.EventBound, "script")
}

func TestDetachedLeaseLastsWhileItsProcessesAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		service := child(t).Process.Pid
		k.detached("service", 40, service)
		for range 60 {
			k.device(0, 100, used(service, 30))
			time.Sleep(time.Minute)
		}
		if _, stands := k.Find(k.only("service")); !stands {
			t.Fatal("it has ended although its process was measured")
		}
		k.mu.Lock()
		if n := k.counts[gpu.EventRenewed]; n != 0 {
			t.Errorf("%d renewals were told", n)
		}
		k.mu.Unlock()
		k.device(0, 100) // the process has left the device
		time.Sleep(lease.DetachedTTL * 8 / 10)
		if _, stands := k.Find(k.only("service")); !stands {
			t.Error("it has ended too early")
		}
		time.Sleep(lease.DetachedTTL * 2 / 10)
		k.told(gpu.EventExpired, "service")
	})
}

// The memory of a process is charged to the oldest of its leases first. The others last as
// long: their process is on the device.
func TestDetachedLeasesLastWhileOneIsChargedForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		service := child(t).Process.Pid
		k.detached("older", 40, service)
		k.detached("younger", 40, service)
		for range 60 {
			k.device(0, 100, used(service, 30))
			time.Sleep(time.Minute)
		}
		if got, want := k.leases(), []string{"older", "younger"}; !slices.Equal(got, want) {
			t.Errorf("leases are %v, want %v", got, want)
		}
		time.Sleep(time.Hour) // nobody looks
		if got, want := k.leases(), []string{"older", "younger"}; !slices.Equal(got, want) {
			t.Errorf("while nobody looks, leases are %v, want %v", got, want)
		}
	})
}

// Where nothing is measured any more, what was measured last counts.
func TestDetachedLeaseLastsWhileMonitoringIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		service := child(t).Process.Pid
		k.detached("service", 40, service)
		k.device(0, 100, used(service, 30))
		time.Sleep(time.Hour)
		if _, stands := k.Find(k.only("service")); !stands {
			t.Error("it has ended although nobody looked")
		}
	})
}

func TestDetachedLeaseSurvivesTheAbsenceOfTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.detached("service", 40, child(t).Process.Pid)
		k.stop()
		time.Sleep(time.Hour)
		k = w.start(t)
		k.device(0, 100)
		synctest.Wait()
		held, stands := k.Find(k.only("service"))
		if !stands || !held.Expires.Equal(time.Now().Add(lease.DetachedTTL)) {
			t.Fatalf("the lease is %+v", held.Lease)
		}
		time.Sleep(lease.DetachedTTL)
		k.told(gpu.EventExpired, "service")
	})
}

// Whoever asks again for the id of a lease that a process has left replaces it, with a new
// fence and in its place, if the user is the same and nobody uses it.
func TestLeaseThatAProcessLeftIsReplaced(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	k.device(1, 100)
	first, next := child(t).Process.Pid, child(t).Process.Pid
	k.detached("app", 40, first) // on device 0
	old, _ := k.Find(k.only("app"))
	ask := func(memory gpu.MiB, change ...func(*lease.Request)) lease.Request {
		return want("app", memory, append([]func(*lease.Request){k.implied(next), madeAgain(lease.SameID)}, change...)...)
	}
	stands := func(when string) {
		t.Helper()
		if held, stands := k.Find(lease.Key{Owner: old.Holder.Owner(), ID: "app"}); !stands || held.Fence != old.Fence || held.Binding != lease.ByTTL {
			t.Fatalf("%s: the lease is %+v", when, held.Lease)
		}
	}
	if err := k.refused(ask(40, madeAgain(lease.Once))); !errors.Is(err, lease.ErrDuplicate) || !errors.Is(err, lease.ErrLeft) {
		t.Errorf("without again: %v", err)
	}
	if err := k.refused(ask(400)); errors.Is(err, lease.ErrDuplicate) {
		t.Errorf("more than a device has: %v", err)
	}
	stands("more than a device has")
	if err := k.refused(want("app", 40, madeAgain(lease.SameID))); !errors.Is(err, lease.ErrLeft) {
		t.Errorf("as a named lease: %v", err)
	}
	stands("as a named lease")
	if other := k.grant(ask(10, of(2))); other.Fence == old.Fence {
		t.Errorf("another user has %+v", other)
	}
	k.give("app", 2)
	stands("asked for by another user")
	k.device(0, 100, used(first, 5))
	if err := k.refused(ask(40)); !errors.Is(err, lease.ErrDuplicate) || errors.Is(err, lease.ErrLeft) {
		t.Errorf("while it is used: %v", err)
	}
	stands("while it is used")
	k.device(0, 100)

	k.queue(t.Context(), want("whole", 90, wait(time.Hour), at(dev(0)), of(2)))
	if err := k.refused(ask(60, at(dev(0)))); errors.Is(err, lease.ErrDuplicate) {
		t.Errorf("more than before, with others waiting: %v", err)
	}
	stands("more than before, with others waiting")
	found, err := k.Ledger.Acquire(t.Context(), ask(40))
	if err != nil || found.Stood || found.Fence <= old.Fence || found.Parts[0].GPU != dev(0) || found.Holder.PID != next || found.Binding != lease.ByProcess || !found.Implied {
		t.Fatalf("it was answered with %v, %+v", err, found.Lease)
	}
	if err := k.refused(ask(40, k.implied(first))); !errors.Is(err, lease.ErrDuplicate) || errors.Is(err, lease.ErrLeft) {
		t.Errorf("while its process runs: %v", err)
	}
}

// Whoever asks for an id again, and for longer than the lease that a process has left would
// have lasted, waits behind those who wait for its end.
func TestLeaseThatAProcessLeftIsReplacedForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		app, next := child(t).Process.Pid, child(t).Process.Pid
		k.detached("app", 90, app, timed(5*time.Minute))
		k.queue(t.Context(), want("waits", 90, wait(time.Hour), of(2)))
		time.Sleep(time.Minute)
		ask := want("app", 90, k.implied(next), madeAgain(lease.SameID), timed(5*time.Minute))
		queued := (*placement.QueuedError)(nil)
		if err := k.refused(ask); !errors.As(err, &queued) {
			t.Errorf("for as long again: %v", err)
		}
		ask.TimeLimit = time.Minute
		if held := k.grant(ask); held.Holder.PID != next {
			t.Errorf("for less: %+v", held)
		}
	})
}

// Whoever asks for an id again under another service waits behind those who wait for the
// quota of that.
func TestLeaseThatAProcessLeftIsReplacedUnderAnotherService(t *testing.T) {
	w := newWorld()
	w.settings.Services = map[string]quota.Served{"s": {Service: quota.Service{Name: "s", Quota: lease.Usage{Memory: 50}}}}
	k := w.start(t)
	k.device(0, 100)
	first, next := child(t).Process.Pid, child(t).Process.Pid
	k.detached("app", 20, first)
	old, _ := k.Find(k.only("app"))
	k.grant(want("uses", 30, service("s")))
	k.queue(t.Context(), want("waits", 30, of(2), service("s"), wait(time.Hour)))
	if err := k.refused(want("app", 20, k.implied(next), madeAgain(lease.SameID), service("s"))); errors.Is(err, lease.ErrDuplicate) {
		t.Errorf("it was refused with %v", err)
	}
	if held, stands := k.Find(k.only("app")); !stands || held.Fence != old.Fence {
		t.Errorf("the lease is %+v", held.Lease)
	}
}

// The memory of a process is charged to the oldest of its leases first: it still uses the
// others, although nothing is charged to them.
func TestLeaseOfAProcessThatUsesAnOlderOneIsNotReplaced(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	app, next := child(t).Process.Pid, child(t).Process.Pid
	k.detached("older", 40, app)
	k.detached("younger", 40, app)
	k.device(0, 100, used(app, 30))
	ask := want("younger", 40, k.implied(next), madeAgain(lease.SameID))
	if err := k.refused(ask); !errors.Is(err, lease.ErrDuplicate) || errors.Is(err, lease.ErrLeft) {
		t.Errorf("while its process uses the device: %v", err)
	}
	k.device(0, 100)
	if found, err := k.Ledger.Acquire(t.Context(), ask); err != nil || found.Holder.PID != next {
		t.Errorf("after that: %+v, %v", found.Lease, err)
	}
}
