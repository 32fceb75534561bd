package ledger

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

func TestAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.device(1, 100)
		k.grant(want("s", 30, service("s"), of(2), at(dev(1)))) // of another user
		k.grant(want("of-an-app", 10, service("s"), at(dev(1))))
		k.grant(want("s-9", 10, service("s"), ttl(time.Hour), at(dev(0))))
		first := k.grant(want("s-2", 30, service("s"), at(dev(0))))
		for _, test := range []struct {
			name    string
			request lease.Request
			again   lease.Again
			id      string // that is found; empty: it is refused
			stood   bool
			was     gpu.MiB
			memory  gpu.MiB
		}{
			{name: "the same", request: want("s", 30, service("s")), again: lease.SameService, id: "s-2", stood: true, memory: 30},
			{name: "larger", request: want("s", 60, service("s")), again: lease.SameService, id: "s-2", stood: true, was: 30, memory: 60},
			{name: "more than there is", request: want("s", 95, service("s")), again: lease.SameService},
			{name: "smaller, by id", request: want("s-2", 20, service("s")), again: lease.SameID, id: "s-2", stood: true, was: 60, memory: 20},
			{name: "without again", request: want("s-2", 20, service("s")), again: lease.Once},
			{name: "another's id", request: want("s", 5, service("s"), at(dev(0))), again: lease.SameID, id: "s", memory: 5},
			{name: "the one with the id, and not the oldest", request: want("s", 5, service("s"), at(dev(0))), again: lease.SameService, id: "s", stood: true, memory: 5},
			{name: "on another device", request: want("s-3", 30, service("s"), at(dev(1))), again: lease.SameService, id: "s-3", memory: 30},
			{name: "by id on another device", request: want("s-3", 30, service("s"), at(dev(0))), again: lease.SameID},
			{name: "another binding", request: want("s", 10, service("s"), ttl(time.Minute)), again: lease.SameService, id: "s-9", stood: true, memory: 10},
			{name: "another name", request: want("of-an-app", 10, service("s")), again: lease.SameID, id: "of-an-app", stood: true, memory: 10},
			{name: "another service", request: want("t", 5, service("t")), again: lease.SameService, id: "t", memory: 5},
		} {
			test.request.Again = test.again
			found, err := k.Ledger.Acquire(t.Context(), test.request)
			switch {
			case test.id == "":
				if err == nil {
					t.Errorf("%s: it found %+v", test.name, found.Lease)
				}
			case err != nil:
				t.Errorf("%s: %v", test.name, err)
			case found.ID != test.id || found.Stood != test.stood || found.Was != test.was || found.Parts[0].Memory != test.memory:
				t.Errorf("%s: it found %+v with %+v", test.name, found, found.Lease)
			}
		}
		if held, _ := k.Find(k.only("s-2")); held.Fence != first.Fence {
			t.Error("the lease has another fence")
		}
		if held, _ := k.Find(k.only("s-9")); held.TTL != time.Minute || !held.Expires.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("the lease with a time to live was not renewed: %+v", held.Lease)
		}
	})
}

// Two who ask at the same time get one lease, and the second does not queue up
// for another one.
func TestAskedAgainWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("other", 80, of(2)))
		k.queue(t.Context(), want("s", 30, service("s"), wait(time.Hour)))
		if _, err := k.Acquire(t.Context(), want("s", 30, service("s"), wait(time.Hour), madeAgain(lease.SameService))); !errors.Is(err, lease.ErrWaiting) {
			t.Errorf("it was answered with %v", err)
		}
	})
}

// Whoever leaves after finding a lease leaves it standing.
func TestAskedAgainByOneWhoLeaves(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	k.grant(want("s", 30))
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, _ = k.Acquire(ctx, want("s", 30, madeAgain(lease.SameID)))
	if _, stands := k.Find(k.only("s")); !stands {
		t.Error("it was given back")
	}
}

// Whoever asks again and gets the lease of the first request keeps it, whatever becomes of
// that one.
func TestLeaseOfARequestThatWasMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		for _, broken := range []bool{false, true} { // while the journal takes nothing
			first := k.grant(want("a", 10))
			if broken {
				w.fail(errBroken, false)
				if kept, err := k.TakeBack(first.Key(), first.Fence, clientGone); kept || err != nil {
					t.Fatalf("taken back with %v, %v", kept, err)
				}
			}
			found, err := k.Ledger.Acquire(t.Context(), want("a", 10, func(r *lease.Request) { r.Repeated = true }))
			if err != nil || !found.Stood || found.Fence != first.Fence {
				t.Fatalf("asked again: %+v, %v", found, err)
			}
			w.fail(nil, false)
			if kept, err := k.TakeBack(first.Key(), first.Fence, clientGone); !kept || err != nil {
				t.Errorf("taken back with %v, %v", kept, err)
			}
			time.Sleep(time.Minute)
			if got := k.leases(); !slices.Equal(got, []string{"a"}) {
				t.Errorf("%q stand", got)
			}
			if err := k.GiveBack(first.Key(), first.Fence, "its job has ended"); err != nil {
				t.Fatal(err)
			}
			next := k.grant(want("a", 10)) // whoever has asked for this one again was refused
			if _, err := k.Ledger.Acquire(t.Context(), want("a", 200, madeAgain(lease.SameID))); err == nil {
				t.Error("it is larger than its device")
			}
			if kept, err := k.TakeBack(next.Key(), next.Fence, clientGone); kept || err != nil {
				t.Errorf("the next was taken back with %v, %v", kept, err)
			}
			if got := k.leases(); len(got) > 0 {
				t.Errorf("%q stand", got)
			}
		}
	})
}

// Whoever gives back the lease of a run may know it by its id and its fence alone.
func TestLeaseOfARunThatWasAskedForAgain(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	of := func(r *lease.Request) { r.Run, r.Repeated = lease.Run{Kind: lease.OfJob, Number: 7}, true }
	program := child(t)
	first := k.grant(want("a", 10, of, ofSelf, k.bound(program.Process.Pid)))
	if _, err := k.Ledger.Acquire(t.Context(), want("a", 10, of, ofSelf, k.bound(program.Process.Pid))); err != nil {
		t.Fatal(err)
	}
	plain := lease.Key{Owner: first.Holder.Owner(), ID: "a"}
	if members := k.Members(plain, first.Fence); len(members) == 0 || members[0].PID != program.Process.Pid {
		t.Errorf("its members are %v", members)
	}
	if kept, err := k.TakeBack(plain, first.Fence, clientGone); !kept || err != nil {
		t.Errorf("taken back with %v, %v", kept, err)
	}
}

// A request that is made again finds its lease also if berth has shrunk that meanwhile: it
// grows if there is room, and stands as it is if not.
func TestAskedAgainForAShrunkLease(t *testing.T) {
	w := newWorld()
	w.settings.Services = map[string]quota.Served{"s": {Service: quota.Service{Name: "s", Shrinkable: true}}}
	k := w.start(t)
	k.device(0, 100)
	ask := want("s", 80, service("s"), madeAgain(lease.SameService))
	first := k.grant(ask)
	if _, err := k.Shrink(t.Context(), first.Key(), 0, 20); err != nil {
		t.Fatal(err)
	}
	k.grant(want("other", 70, of(2)))
	if found, err := k.Ledger.Acquire(t.Context(), ask); err != nil || !found.Stood || found.Parts[0].Memory != 20 || found.Asked != 80 {
		t.Errorf("without room: %v, %+v", err, found.Lease)
	}
	larger := ask
	larger.Memory = 90
	_ = k.refused(larger)
	k.give("other", 2)
	if found, err := k.Ledger.Acquire(t.Context(), ask); err != nil || found.Was != 20 || found.Parts[0].Memory != 80 {
		t.Errorf("with room: %v, %+v", err, found.Lease)
	}
}

// A lease whose release the journal has refused stays if the next try of its run gets it
// before the journal takes the release.
func TestLeaseOfARunThatIsToBeReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		ask := want("job", 40, repeated, func(r *lease.Request) { r.Run = lease.Run{Kind: lease.OfJob, Number: 1} })
		held := k.grant(ask)
		w.fail(errBroken, false)
		if err := k.GiveBack(held.Key(), held.Fence, "its program did not start"); err != nil {
			t.Fatal(err)
		}
		if again := k.grant(ask); again.Fence != held.Fence {
			t.Errorf("the next try has another lease, %d", again.Fence)
		}
		w.fail(nil, false)
		time.Sleep(2 * retry)
		synctest.Wait()
		if !slices.Equal(k.leases(), []string{"job"}) {
			t.Error("its lease was released")
		}
	})
}

// An answer that the journal refuses keeps no lease: nobody has it.
func TestLeaseThatIsToBeReleasedAfterARefusedAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		ask := want("named", 40, repeated, ttl(time.Hour))
		held := k.grant(ask)
		w.fail(errBroken, false)
		if err := k.GiveBack(held.Key(), held.Fence, "it was not handed over"); err != nil {
			t.Fatal(err)
		}
		k.refused(ask)
		w.fail(nil, false)
		time.Sleep(2 * retry)
		synctest.Wait()
		if left := k.leases(); len(left) > 0 {
			t.Errorf("%v stand, and nobody has them", left)
		}
	})
}

// A lease that is about to end, or whose memory is not on its devices, answers nobody but the
// program of berth's own that it is for, and no child takes memory of it.
func TestLeasesThatNobodyMayCountOn(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(k *keeper, held *lease.Lease)
		want    error
	}{
		"parked":    {func(k *keeper, held *lease.Lease) { k.park(held.ID) }, lease.ErrParked},
		"revoked":   {func(k *keeper, held *lease.Lease) { k.BeginRevoke(held.Key(), held.Fence, "enough", nil) }, lease.ErrState},
		"over":      {func(*keeper, *lease.Lease) { time.Sleep(time.Hour) }, lease.ErrState},
		"cancelled": {func(k *keeper, held *lease.Lease) { _, _ = k.Cancel(k.t.Context(), byID(held.ID), 0, held.By, "") }, lease.ErrState},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.changed = func(*lease.Effect) {} // somebody else ends what has to end
				k := w.start(t)
				k.device(0, 100)
				asks := want("s", 40, service("s"), timed(time.Hour))
				c.happens(k, k.grant(asks))
				for again, change := range map[string]func(*lease.Request){
					"by id": madeAgain(lease.SameID), "by service": madeAgain(lease.SameService), "repeated": repeated,
				} {
					next := asks
					change(&next)
					if err := k.refused(next); !errors.Is(err, c.want) {
						t.Errorf("%s: %v", again, err)
					}
				}
				for _, memory := range []gpu.MiB{0, 10} {
					if err := k.refused(want("child", memory, under("s"))); !errors.Is(err, lease.ErrParent) {
						t.Errorf("a child with %s: %v", memory, err)
					}
				}
				asks.ID, asks.Again = "s-2", lease.SameService
				if held := k.grant(asks); held.ID != "s-2" {
					t.Errorf("under another id it found %s", held.ID)
				}
			})
		})
	}
}
