package ledger

import (
	"context"
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

// park parks a lease of the first user.
func (k *keeper) park(id string) *lease.Lease {
	k.t.Helper()
	parked, err := k.Park(k.t.Context(), k.only(id), 0, access.Daemon(), "others wait")
	if err != nil {
		k.t.Fatalf("park %s: %v", id, err)
	}
	return parked
}

// returns asks that a parked lease returns, and returns what comes of it.
func (k *keeper) returns(ctx context.Context, id string, wait gpu.Opt[time.Duration]) <-chan decision {
	answers := make(chan decision, 1)
	go func() {
		l, err := k.Return(ctx, k.only(id), 0, access.Daemon(), "its turn", time.Time{}, wait)
		answers <- decision{l, err}
	}()
	return answers
}

// still is how long nobody waits.
var still = gpu.Some(time.Duration(0))

func TestParkAndReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		var returned []string
		k.hooks.Changed = func(e *lease.Effect) {
			if e.Kind == lease.Resumed {
				returned = append(returned, e.After.ID)
			}
		}
		k.device(0, 100)
		k.grant(want("a", 80))
		waits := k.queue(t.Context(), want("b", 70, of(2), wait(time.Hour)))
		parked := k.park("a")
		if d := <-waits; d.err != nil { // in the same moment
			t.Fatal(d.err)
		}
		if parked.State != lease.Parked || !parked.ParkedAt.Equal(time.Now()) {
			t.Errorf("it is %+v", parked)
		}
		k.expect(30, 70, 0, 0)
		noFit := (*placement.NoFitError)(nil)
		if d := <-k.returns(t.Context(), "a", still); !errors.As(d.err, &noFit) || noFit.LargestNow != 30 {
			t.Errorf("it returned without room: %v", d.err)
		}
		back := k.returns(t.Context(), "a", gpu.Opt[time.Duration]{})
		k.told(gpu.EventWaiting, "a")
		time.Sleep(40 * 24 * time.Hour) // no limit
		k.give("b", 2)
		d := <-back
		if d.err != nil || d.lease.State != lease.Active || d.lease.Paused != 40*24*time.Hour || !d.lease.ParkedAt.IsZero() {
			t.Errorf("it returned as %+v, %v", d.lease, d.err)
		}
		if len(returned) != 1 || returned[0] != "a" {
			t.Errorf("these were told to have returned: %v", returned)
		}
		k.expect(20, 80, 0, 0)
	})
}

func TestWhatCannotBeParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Services = map[string]quota.Served{"firm": {Service: quota.Service{Name: "firm", Parkable: gpu.Some(false)}}}
		k := w.start(t)
		k.device(0, 100)
		k.device(1, 100)
		k.grant(want("plain", 10))
		k.grant(want("two", 10, gpus(2)))
		k.grant(want("firm", 10, service("firm"), func(r *lease.Request) { r.Parkable = true }))
		k.grant(want("mps", 10, func(r *lease.Request) { r.EnforcedBy = "mps" }))
		k.grant(want("scoped", 10, func(r *lease.Request) { r.Scope = []string{"job.scope"} }))
		k.grant(want("whole", 10))
		k.grant(want("piece", 1, func(r *lease.Request) { r.Parent = "whole" }))
		k.grant(want("parked", 10))
		k.park("parked")
		ctx := t.Context()
		for id, want := range map[string]error{
			"two": lease.ErrUnparkable, "firm": quota.ErrForbidden, "mps": lease.ErrUnparkable, "scoped": lease.ErrUnparkable,
			"whole": lease.ErrUnparkable, "piece": lease.ErrUnparkable, "parked": lease.ErrState, "nobody": lease.ErrUnknown,
		} {
			before := k.standing()
			if err := k.Unparkable(k.only(id), 0); !errors.Is(err, want) {
				t.Errorf("%s: asked first: %v, want %v", id, err, want)
			}
			if _, err := k.Park(ctx, k.only(id), 0, access.Daemon(), ""); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", id, err, want)
			}
			if after := k.standing(); after != before {
				t.Errorf("%s was refused, and the book was\n%s\nand is\n%s", id, before, after)
			}
		}
		if err := k.Unparkable(k.only("plain"), 0); err != nil {
			t.Error(err)
		}
		if _, err := k.Park(ctx, k.only("plain"), 0, by(2), ""); !errors.Is(err, lease.ErrNotYours) {
			t.Errorf("somebody else parked it: %v", err)
		}
		if _, err := k.Park(ctx, k.only("plain"), 99, by(1), ""); !errors.Is(err, lease.ErrNoFence) {
			t.Errorf("with a fence that was never given: %v", err)
		}
		if d := <-k.returns(ctx, "plain", still); !errors.Is(d.err, lease.ErrState) {
			t.Errorf("an active lease returned: %v", d.err)
		}
		if _, err := k.Release(ctx, byID("parked"), 0, by(1)); !errors.Is(err, lease.ErrParked) {
			t.Errorf("a parked lease was released: %v", err)
		}
		if err := k.resize("parked", 5); !errors.Is(err, lease.ErrState) {
			t.Errorf("a parked lease was resized: %v", err)
		}
		if err := k.Revoke(ctx, k.only("parked"), 0, "enough", nil); err != nil {
			t.Errorf("a parked lease was not revoked: %v", err)
		}
	})
}

// TestReturnsInTheQueue: a lease that wants to return stands in the queue like all
// others, and nobody who came later delays it.
func TestReturnsInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("a", 80))
		k.park("a")
		k.grant(want("b", 60, of(2)))
		ctx, leave := context.WithCancel(t.Context())
		back := k.returns(ctx, "a", gpu.Opt[time.Duration]{})
		k.told(gpu.EventWaiting, "a")
		late := k.queue(t.Context(), want("late", 30, of(3), wait(time.Hour)))
		if got := k.waiting(); len(got) != 2 || got[0] != "a" {
			t.Fatalf("these wait: %v", got)
		}
		r := k.View().Waiting[0]
		if r.For() != "resume" || r.Memory != 80 || r.Into == 0 {
			t.Errorf("it waits as %+v", r)
		}
		e, waits := k.ExplainWaiting(k.only("a"))
		if !waits || e.Position != 1 || e.Refusal == nil || len(e.Refusal.Reasons) != 1 || e.Refusal.Reasons[0].Code != placement.NoMemory {
			t.Errorf("it is explained as %+v", e)
		}
		if d := <-k.returns(t.Context(), "a", still); !errors.Is(d.err, lease.ErrAsked) {
			t.Errorf("it returns twice: %v", d.err)
		}
		if err := k.refused(want("a", 80, madeAgain(lease.SameID))); !errors.Is(err, lease.ErrParked) {
			t.Errorf("it was asked for again: %v", err)
		}
		leave()
		if d := <-back; !errors.Is(d.err, context.Canceled) {
			t.Errorf("nobody waits for it any more: %+v", d)
		}
		if d := <-late; d.err != nil { // it delays nobody now
			t.Error(d.err)
		}
		back = k.returns(t.Context(), "a", gpu.Some(time.Minute))
		timeout := (*placement.TimeoutError)(nil)
		if d := <-back; !errors.As(d.err, &timeout) || timeout.Waited != time.Minute {
			t.Errorf("after a minute: %v", d.err)
		}
		back = k.returns(t.Context(), "a", gpu.Opt[time.Duration]{})
		synctest.Wait()
		if err := k.Revoke(t.Context(), k.only("a"), 0, "enough", nil); err != nil {
			t.Fatal(err)
		}
		if d := <-back; !errors.Is(d.err, lease.ErrStaleFence) || len(k.waiting()) != 0 {
			t.Errorf("its lease has ended: %v; %v wait", d.err, k.waiting())
		}
	})
}

func TestResizeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("a", 40))
		k.grant(want("b", 50, of(2)))
		larger := func(memory gpu.MiB, wait time.Duration) <-chan decision {
			answers := make(chan decision, 1)
			go func() {
				l, err := k.Resize(t.Context(), byID("a"), 0, memory, by(1), nil, wait)
				answers <- decision{l, err}
			}()
			synctest.Wait()
			return answers
		}
		timeout, never := (*placement.TimeoutError)(nil), (*placement.ResizeError)(nil)
		if d := <-larger(60, time.Minute); !errors.As(d.err, &timeout) {
			t.Errorf("without room: %v", d.err)
		}
		if d := <-larger(101, time.Minute); !errors.As(d.err, &never) || never.Ever {
			t.Errorf("more than there is: %v", d.err)
		}
		grows := larger(95, time.Hour)
		if r := k.View().Waiting; len(r) != 1 || r[0].For() != "resize" || r[0].Size != 95 || r[0].Memory != 55 {
			t.Fatalf("these wait: %+v", r)
		}
		if d := <-larger(70, time.Hour); !errors.Is(d.err, lease.ErrAsked) {
			t.Errorf("a second one: %v", d.err)
		}
		if got := k.refused(want("small", 10, of(2), wait(0))); got == nil {
			t.Error("somebody passed it")
		}
		k.give("b", 2)
		if d := <-grows; d.err != nil || d.lease.Parts[0].Memory != 95 {
			t.Errorf("it grew to %+v, %v", d.lease, d.err)
		}
		k.grant(want("c", 5, of(2)))
		grows = larger(100, time.Hour)
		if err := k.resize("a", 30); err != nil { // it wants less after all
			t.Fatal(err)
		}
		if d := <-grows; !errors.Is(d.err, context.Canceled) {
			t.Errorf("it does not want that any more: %v", d.err)
		}
		grows = larger(100, time.Hour)
		k.give("a", 1)
		if d := <-grows; !errors.Is(d.err, lease.ErrStaleFence) {
			t.Errorf("its lease has ended: %v", d.err)
		}
	})
}

// TestWithdraw: to take a wish back never ends what is held.
func TestWithdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("a", 40))
		k.grant(want("b", 60, of(2)))
		grows := make(chan error, 1)
		go func() {
			_, err := k.Resize(t.Context(), byID("a"), 0, 90, by(1), nil, time.Hour)
			grows <- err
		}()
		synctest.Wait()
		fence := k.View().Leases[0].Fence
		if err := k.Withdraw(t.Context(), byID("a"), fence+10, by(1)); err == nil {
			t.Error("withdrew what another lease waits for")
		}
		if err := k.Withdraw(t.Context(), byID("a"), 0, by(1)); err != nil {
			t.Errorf("a wish to grow: %v", err)
		}
		if err := <-grows; !errors.Is(err, ErrWithdrawn) {
			t.Errorf("whoever waited was told %v", err)
		}
		if err := k.Withdraw(t.Context(), byID("a"), 0, by(1)); !errors.Is(err, lease.ErrState) {
			t.Errorf("a lease: %v", err)
		}
		if err := k.Withdraw(t.Context(), byID("none"), 0, by(1)); !errors.Is(err, lease.ErrUnknown) {
			t.Errorf("nothing: %v", err)
		}
		if v := k.View(); len(v.Leases) != 2 || len(v.Waiting) != 0 {
			t.Errorf("%d leases stand and %d requests wait", len(v.Leases), len(v.Waiting))
		}
	})
}

// TestShrunkLeasesGetItBackFirst: what berth took from a lease it gets back before
// everybody else, however high their priority.
func TestShrunkLeasesGetItBackFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Services = map[string]quota.Served{"soft": {Service: quota.Service{Name: "soft", Shrinkable: true, MinMemory: 15}}}
		k := w.start(t)
		pid := child(t).Process.Pid
		k.device(0, 100)
		k.grant(want("a", 60, service("soft"), k.held(pid)))
		k.grant(want("firm", 10))
		k.device(0, 100, used(pid, 20))
		ctx := t.Context()
		if _, err := k.Shrink(ctx, k.only("firm"), 0, 5); !errors.Is(err, quota.ErrForbidden) {
			t.Errorf("a service that does not allow it: %v", err)
		}
		if _, err := k.Shrink(ctx, k.only("a"), 0, 19); !errors.Is(err, lease.ErrInUse) {
			t.Errorf("below what its process uses: %v", err)
		}
		if _, err := k.Shrink(ctx, k.only("a"), 0, 60); !errors.Is(err, lease.ErrState) {
			t.Errorf("to what it has: %v", err)
		}
		if _, err := k.Shrink(ctx, k.only("nobody"), 0, 60); !errors.Is(err, lease.ErrUnknown) {
			t.Errorf("what there is not: %v", err)
		}
		shrunk, err := k.Shrink(ctx, k.only("a"), 0, 30)
		if err != nil || shrunk.Asked != 60 || shrunk.Parts[0].Memory != 30 {
			t.Fatalf("shrunk to %+v, %v", shrunk, err)
		}
		if shrunk, err = k.Shrink(ctx, k.only("a"), 0, 20); err != nil || shrunk.Asked != 60 {
			t.Fatalf("shrunk again to %+v, %v", shrunk, err)
		}
		k.grant(want("b", 60, of(2)))
		k.queue(ctx, want("urgent", 50, of(3), wait(time.Hour), func(r *lease.Request) {
			r.AskedPriority, r.By = gpu.Some(1000), access.Daemon()
		}))
		back := make(chan decision, 1)
		go func() {
			l, err := k.Resize(ctx, byID("a"), 0, 60, by(1), nil, time.Hour)
			back <- decision{l, err}
		}()
		synctest.Wait()
		if got := k.waiting(); len(got) != 2 || got[0] != "a" {
			t.Fatalf("these wait: %v", got)
		}
		k.give("b", 2)
		if d := <-back; d.err != nil || d.lease.Parts[0].Memory != 60 || d.lease.Asked != 0 {
			t.Errorf("it got back %+v, %v", d.lease, d.err)
		}
		if got := k.waiting(); len(got) != 1 || got[0] != "urgent" {
			t.Errorf("these wait: %v", got)
		}
		k.give("urgent", 3)
	})
}

// TestScopedLeasesThatAllowIt: berth shrinks a lease with a scope that allows it and gives
// it its size back before others; the same request finds it meanwhile, and nobody else
// changes its size.
func TestScopedLeasesThatAllowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		claim := func(id string, allowed ...string) lease.Request {
			return want(id, 0, func(r *lease.Request) {
				r.Exact, r.Slots = []lease.Part{{GPU: dev(0), Memory: 40, Slots: 1}}, 0
				r.Scope, r.Optimize = []string{"pod" + id}, allowed
			})
		}
		k.grant(claim("firm"))
		held := k.grant(claim("soft", lease.MayShrink, lease.MayPark))
		ctx := t.Context()
		if _, err := k.Shrink(ctx, k.only("firm"), 0, 10); !errors.Is(err, quota.ErrForbidden) {
			t.Errorf("one that allows nothing: %v", err)
		}
		shrunk, err := k.Shrink(ctx, k.only("soft"), 0, 10)
		if err != nil || shrunk.Asked != 40 || shrunk.Parts[0].Memory != 10 {
			t.Fatalf("shrunk to %+v, %v", shrunk, err)
		}
		if again := k.grant(claim("soft", lease.MayShrink, lease.MayPark)); again.Fence != held.Fence {
			t.Errorf("the same request finds %+v", again)
		}
		if err := k.resize("soft", 40); !errors.Is(err, lease.ErrState) {
			t.Errorf("its owner changes its size: %v", err)
		}
		k.grant(want("b", 50, of(2)))
		back := make(chan error, 1)
		go func() { back <- k.Regrow(ctx, k.only("soft"), 0, 40) }()
		synctest.Wait()
		k.give("b", 2)
		if err := <-back; err != nil {
			t.Fatal(err)
		}
		if now, _ := k.Find(k.only("soft")); now.Parts[0].Memory != 40 || now.Asked != 0 || now.Fence != held.Fence {
			t.Errorf("it got back %+v", now)
		}
	})
}
