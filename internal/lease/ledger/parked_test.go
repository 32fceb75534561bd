package ledger

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// TestParkedThroughARestart: a parked lease is still parked after a restart, its
// time has stood still, and its age in the queue counts from when it was parked.
func TestParkedThroughARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		granted := k.grant(want("a", 80, ttl(time.Minute), timed(time.Hour), func(r *lease.Request) { r.Parkable, r.Unshared = true, true }))
		time.Sleep(20 * time.Second)
		parked := k.park("a")
		k.grant(want("b", 90, of(2)))
		time.Sleep(2 * time.Hour)
		k.die(w.disk.Kill)

		k = w.start(t)
		back := k.returns(t.Context(), "a", gpu.Opt[time.Duration]{}) // its device was not seen yet
		synctest.Wait()
		k.device(0, 100)
		older := k.queue(t.Context(), want("c", 90, of(3), wait(3*time.Hour)))
		held, stands := k.Find(k.only("a"))
		if !stands || held.State != lease.Parked || !held.Parkable || !held.Unshared || !held.ParkedAt.Equal(parked.ParkedAt) {
			t.Fatalf("after the restart it is %+v", held.Lease)
		}
		if _, limited := held.Ends(); limited {
			t.Error("its time limit goes on")
		}
		time.Sleep(time.Hour)
		k.give("b", 2)
		d := <-back
		if d.err != nil {
			t.Fatal(d.err)
		}
		if ends, _ := d.lease.Ends(); ends.Sub(granted.Granted) != time.Hour+3*time.Hour || time.Until(d.lease.Expires) != 40*time.Second {
			t.Errorf("it ends at %s and expires in %s", ends, time.Until(d.lease.Expires))
		}
		if held, _ := k.Find(k.only("a")); !held.Returned.Equal(time.Now()) {
			t.Errorf("it returned at %s", held.Returned)
		}
		k.told(gpu.EventExpired, "a") // nobody renews it
		if d := <-older; d.err != nil {
			t.Error(d.err)
		}
	})
}

// TestHolderOfAParkedLeaseEnds: the lease ends with its process, parked or not, and
// whoever waits for its return learns it.
func TestHolderOfAParkedLeaseEnds(t *testing.T) {
	k := newWorld().start(t)
	holder := child(t)
	k.device(0, 100)
	k.grant(want("a", 80, k.bound(holder.Process.Pid)))
	k.park("a")
	k.grant(want("b", 90, of(2)))
	back := k.returns(t.Context(), "a", gpu.Opt[time.Duration]{})
	k.told(gpu.EventWaiting, "a")
	kill(t, holder)
	k.told(gpu.EventReleased, "a")
	if d := <-back; !errors.Is(d.err, lease.ErrStaleFence) || len(k.waiting()) != 0 {
		t.Errorf("its lease has ended: %v; %v wait", d.err, k.waiting())
	}
}

// TestParkingGivesRoomAtOnce: whoever parks a lease has measured that its memory is
// gone, so the next sample need not say it too.
func TestParkingGivesRoomAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		pid := child(t).Process.Pid
		k.device(0, 100)
		k.grant(want("a", 50, k.held(pid)))
		k.device(0, 100, used(pid, 60))
		waits := k.queue(t.Context(), want("b", 100, of(2), wait(time.Hour)))
		w.fail(errFull, false)
		if _, err := k.Park(t.Context(), k.only("a"), 0, access.Daemon(), ""); !errors.Is(err, errFull) {
			t.Errorf("it was parked, and is not in the journal: %v", err)
		}
		if held, _ := k.Find(k.only("a")); held.State != lease.Active {
			t.Errorf("it is %s", held.State)
		}
		w.fail(nil, false)
		k.device(0, 100, used(pid, 60))
		k.park("a")
		if d := <-waits; d.err != nil {
			t.Error(d.err)
		}
		k.expect(0, 100, 0, 0)
		k.device(0, 100, used(pid, 10)) // something of it is still there
		k.expect(-10, 100, 10, 0)
	})
}

// TestReturnsWithinLimits: a lease that was parked does not return beyond what its
// user may have, unless it was never within that.
func TestReturnsWithinLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Limits = limited(1, memoryLimit(50))
		k := w.start(t)
		k.device(0, 200)
		k.grant(want("a", 40))
		k.grant(want("large", 90, func(r *lease.Request) { r.By = admin(0) }))
		k.park("large")
		k.park("a")
		k.grant(want("b", 40))
		isLimit(t, (<-k.returns(t.Context(), "a", still)).err, "memory_mb", true, "40 MiB")
		if p := k.Queue(); len(p.Wants) != 0 {
			t.Errorf("these wait: %+v", p.Wants)
		}
		back := k.returns(t.Context(), "a", gpu.Opt[time.Duration]{})
		k.told(gpu.EventWaiting, "a")
		if p := k.Queue(); len(p.Wants) != 1 || p.Wants[0].Rooms != nil {
			t.Errorf("room does not help it: %+v", p.Wants)
		}
		k.give("b", 1)
		if d := <-back; d.err != nil {
			t.Error(d.err)
		}
		if d := <-k.returns(t.Context(), "large", still); d.err != nil {
			t.Errorf("what an administrator gave is stuck: %v", d.err)
		}
	})
}

// TestResizeWaitsWithinLimits: nobody waits for longer than they may.
func TestResizeWaitsWithinLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Limits = limited(1, func(l *lease.Limits) {
			l.LongestWait = lease.Limit[time.Duration]{Opt: gpu.Some(time.Minute), Source: "users.1"}
		})
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 40))
		k.grant(want("b", 50, of(2)))
		_, err := k.Resize(t.Context(), byID("a"), 0, 60, by(1), nil, time.Hour)
		if timeout := (*placement.TimeoutError)(nil); !errors.As(err, &timeout) || timeout.Waited != time.Minute {
			t.Errorf("after its minute: %v", err)
		}
		if held, _ := k.Find(k.only("a")); held.Parts[0].Memory != 40 {
			t.Errorf("it has %s", held.Parts[0].Memory)
		}
	})
}

func TestQueueSaysWhoIsInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Services = map[string]quota.Served{
			"soft": {Service: quota.Service{Name: "soft", Parkable: gpu.Some(true), Priority: 3}},
			"firm": {Service: quota.Service{Name: "firm", Parkable: gpu.Some(false)}},
		}
		k := w.start(t)
		parkable := func(r *lease.Request) { r.Parkable = true }
		pid := child(t).Process.Pid
		k.device(0, 100)
		k.device(1, 50)
		k.device(2, 200, inState(gpu.Unavailable))
		k.grant(want("soft", 60, at(dev(0)), service("soft"), slots(1), k.held(pid)))
		k.grant(want("firm", 10, at(dev(0)), service("firm"), parkable))
		k.grant(want("asked", 5, at(dev(0)), parkable))
		k.grant(want("plain", 5, at(dev(0))))
		k.grant(want("both", 5, gpus(2), parkable))
		k.grant(want("shrunk", 5, at(dev(1)), service("soft")))
		k.device(0, 100, used(pid, 65))
		time.Sleep(time.Minute)
		k.park("soft")
		time.Sleep(time.Minute)
		if d := <-k.returns(t.Context(), "soft", still); d.err != nil {
			t.Fatal(d.err)
		}
		k.device(0, 100, used(pid, 65))
		k.queue(t.Context(), want("b", 80, slots(2), of(2), wait(time.Hour)))
		p := k.Queue()
		got := map[string]placement.Holding{}
		for _, h := range p.Holdings {
			got[h.Key.ID+" "+h.GPU] = h
		}
		for name, want := range map[string]bool{
			"soft " + dev(0): true, "firm " + dev(0): false, "asked " + dev(0): true, "plain " + dev(0): false, "both " + dev(0): false, "both " + dev(1): false,
		} {
			if h, there := got[name]; !there || h.Parkable != want || h.Fence == 0 {
				t.Errorf("%s is %+v, parkable %v", name, h, want)
			}
		}
		if soft := got["soft "+dev(0)]; soft.Memory != 65 || soft.Measured != 65 || soft.Slots != 1 || soft.Priority != 3 || !soft.Since.Equal(time.Now()) || soft.Key.UID != user(1).UID {
			t.Errorf("it is %+v", soft)
		}
		if plain := got["plain "+dev(0)]; time.Since(plain.Since) != 2*time.Minute {
			t.Errorf("it is %+v", plain)
		}
		if len(p.Wants) != 1 || len(p.Wants[0].Rooms) != 1 ||
			p.Wants[0].Rooms[0] != (placement.Room{GPU: dev(0), Missing: 70, MissingSlots: 1}) {
			t.Errorf("these wait: %+v", p.Wants)
		}
		k.give("b", 2)
	})
}

// TestResizeOfWhatRunsWithItsLimit: the receipt says that programs that run keep
// the limit they were started with.
func TestResizeOfWhatRunsWithItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("a", 40, func(r *lease.Request) { r.EnforcedBy = "framework" }))
		for _, memory := range []gpu.MiB{60, 20} {
			resized, err := k.Resize(t.Context(), byID("a"), 0, memory, by(1), nil, 0)
			const note = "programs that run keep the memory limit they were started with, unless they follow the new one, as the Python package does"
			if err != nil || resized.Note != note || resized.Parts[0].Memory != memory {
				t.Errorf("resized to %+v, %v", resized, err)
			}
		}
		k.give("a", 1)
		if _, err := k.Resize(t.Context(), byID("a"), 1, 30, by(1), nil, time.Hour); !errors.Is(err, lease.ErrStaleFence) {
			t.Errorf("a lease that ended: %v", err)
		}
		fields := lease.FieldErrors{}
		k.grant(want("a", 40))
		if _, err := k.Resize(t.Context(), byID("a"), 0, 0, by(1), nil, time.Hour); !errors.As(err, &fields) {
			t.Errorf("to nothing: %v", err)
		}
	})
}

// A lease that nobody said the end of, and that is parked, ends with its process also if
// that ends while no daemon runs: nothing else would ever end it.
func TestParkedImpliedLeaseWhoseProcessEnds(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	program := child(t)
	granted := k.grant(want("a", 50, k.bound(program.Process.Pid), func(r *lease.Request) { r.Implied = true }))
	if _, err := k.Park(t.Context(), granted.Key(), 0, access.Daemon(), ""); err != nil {
		t.Fatal(err)
	}
	k.stop()
	kill(t, program)
	k = w.start(t)
	k.told(gpu.EventReleased, "a")
	if got := k.leases(); len(got) > 0 {
		t.Errorf("%q stand", got)
	}
}
