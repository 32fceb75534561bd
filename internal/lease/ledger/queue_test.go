package ledger

import (
	"context"
	"errors"
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
)

func TestOrderOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.device(1, 100)
		k.grant(want("full", 100, at(dev(0)), of(9)))
		k.grant(want("share", 50, at(dev(1)), of(2))) // user 2 has something already
		long := wait(time.Hour)
		answers := map[string]<-chan decision{}
		for _, r := range []lease.Request{
			want("greedy", 100, at(dev(0)), of(2), long),
			want("old", 100, at(dev(0)), of(3), long),
			want("young", 100, at(dev(0)), of(3), long),
			want("urgent", 100, at(dev(0)), of(2), long, priority(5)),
		} {
			answers[r.ID] = k.queue(t.Context(), r)
			time.Sleep(time.Second)
		}
		order := []string{"urgent", "old", "young", "greedy"}
		if got := k.waiting(); !slices.Equal(got, order) {
			t.Fatalf("the queue is %v, want %v", got, order)
		}
		holder := "full"
		var served []string
		for range order {
			released := time.Now()
			if _, err := k.Release(t.Context(), byID(holder), 0, access.Daemon()); err != nil {
				t.Fatal(err)
			}
			holder = k.View().Leases[1].ID
			served = append(served, holder)
			if d := <-answers[holder]; d.err != nil || !d.lease.Granted.Equal(released) {
				t.Errorf("%s got %+v, %v", holder, d.lease, d.err)
			}
		}
		if !slices.Equal(served, order) {
			t.Errorf("served %v, want %v", served, order)
		}
	})
}

// A request that gets a better place by the share that was set for it is granted at once if
// it fits there.
func TestSetShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		held := k.grant(want("holder", 60, of(9)))
		if got := k.LeaseShare(held.Key(), held.Fence); got != 0.6 {
			t.Errorf("the share of the lease is %v, want 0.6", got)
		}
		long := wait(time.Hour)
		k.queue(t.Context(), want("big", 100, of(3), long))
		time.Sleep(time.Second)
		small := k.queue(t.Context(), want("small", 40, of(4), long))
		synctest.Wait()
		if got := k.waiting(); !slices.Equal(got, []string{"big", "small"}) {
			t.Fatalf("the queue is %v", got)
		}
		k.SetShares(map[lease.Key]float64{k.View().Waiting[0].Key(): 0.5})
		if d := <-small; d.err != nil {
			t.Errorf("small got %v", d.err)
		}
	})
}

// A request that waited before it came to the ledger keeps its age, and its wait still
// counts from now.
func TestSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("full", 100, at(dev(0))))
		since := func(ago time.Duration) func(*lease.Request) {
			return func(r *lease.Request) { r.Since = time.Now().Add(-ago) }
		}
		k.queue(t.Context(), want("new", 100, wait(time.Hour)))
		k.queue(t.Context(), want("future", 100, wait(time.Hour), since(-time.Hour)))
		k.queue(t.Context(), want("hour", 100, wait(time.Hour), since(time.Hour)))
		k.queue(t.Context(), want("year", 100, wait(time.Minute), since(365*24*time.Hour)))
		if got, order := k.waiting(), []string{"year", "hour", "new", "future"}; !slices.Equal(got, order) {
			t.Errorf("the queue is %v, want %v", got, order)
		}
		oldest := k.View().Waiting[0]
		if want := time.Now().Add(time.Minute); !oldest.Deadline.Equal(want) {
			t.Errorf("it waits until %s, want %s", oldest.Deadline, want)
		}
		if err := k.refused(want("long", 100, wait(2*lease.MaxWait), since(time.Hour))); !strings.Contains(err.Error(), "timeout_seconds") {
			t.Errorf("a wait that is too long is refused with %v", err)
		}
	})
}

// A small request may pass a big one only where it does not delay it.
func TestPassing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.device(1, 100)
		k.grant(want("a", 60, at(dev(0))))
		k.grant(want("b", 20, at(dev(1))))
		big := k.queue(t.Context(), want("big", 90, at(dev(0)), wait(time.Hour), of(2)))
		// It would still be there when "a" has gone, and "big" would not fit.
		small := k.queue(t.Context(), want("small", 30, at(dev(0)), wait(time.Hour), of(3)))
		e, waits := k.ExplainWaiting(k.only("small"))
		if !waits || e.Position != 2 || e.Refusal == nil || e.Refusal.Reasons[0].Code != placement.HeldBack ||
			!strings.Contains(e.Refusal.Reasons[0].Text, "is kept for big") {
			t.Errorf("small waits for %+v", e.Refusal)
		}
		// The same, of one that does not want to wait.
		queued := (*placement.QueuedError)(nil)
		if err := k.refused(want("impatient", 30, at(dev(0)))); !errors.As(err, &queued) || queued.Waiting != 2 {
			t.Errorf("impatient was refused with %v", err)
		}
		// Beside "big" there is room for ten, whoever ends first.
		k.grant(want("tiny", 10, at(dev(0)), wait(time.Hour), of(3)))
		k.grant(want("elsewhere", 80, wait(time.Hour), of(3)))
		k.give("elsewhere", 3)
		k.grant(want("impatient", 80, of(3)))

		k.give("a", 1)
		if d := <-big; d.err != nil {
			t.Error(d.err)
		}
		k.give("big", 2)
		if d := <-small; d.err != nil {
			t.Error(d.err)
		}
	})
}

// A request with a higher priority does not stand behind those who wait.
func TestImpatientButUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("a", 60))
		waits := k.queue(t.Context(), want("big", 90, wait(time.Minute)))
		k.refused(want("small", 40))
		k.grant(want("small", 40, priority(1)))
		if got := k.waiting(); !slices.Equal(got, []string{"big"}) {
			t.Errorf("%v wait", got)
		}
		if d := <-waits; status(d.err) != "timeout" {
			t.Errorf("big got %v", d.err)
		}
	})
}

// When the one ahead gives up, those whom it held back are served at once.
func TestWhoLeavesTheQueueIsInNobodysWay(t *testing.T) {
	for _, how := range []string{"timeout", "withdrawn", "left"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newWorld().start(t)
				k.device(0, 100)
				k.grant(want("a", 60))
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				big := k.queue(ctx, want("big", 90, wait(time.Minute), of(2)))
				small := k.queue(t.Context(), want("small", 30, wait(time.Hour), of(3)))
				switch how {
				case "withdrawn":
					k.give("big", 2)
				case "left":
					leave()
				}
				if d := <-big; d.err == nil {
					t.Error("big was granted")
				}
				left := time.Now()
				if d := <-small; d.err != nil || !d.lease.Granted.Equal(left) {
					t.Errorf("small got %+v, %v, after %v", d.lease, d.err, time.Since(left))
				}
			})
		})
	}
}

func TestTimeoutSaysWhatStoodInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Wait = 30 * time.Second
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 60))
		k.device(1, 100, inState(gpu.Critical))
		asked := time.Now()
		answer := k.queue(t.Context(), want("b", 50, func(r *lease.Request) { r.Wait = gpu.Opt[time.Duration]{} }))
		d := <-answer
		late := (*placement.TimeoutError)(nil)
		if !errors.As(d.err, &late) || late.Waited != 30*time.Second || time.Since(asked) != 30*time.Second || late.Refusal == nil {
			t.Fatalf("after %v: %v", time.Since(asked), d.err)
		}
		if r := late.Refusal.Reasons; len(r) != 2 || r[0].Code != placement.NoMemory || r[1].Code != placement.BadState || late.Refusal.LargestNow != 40 {
			t.Errorf("it is explained by %+v", late.Refusal)
		}
		k.told(gpu.EventTimedOut, "b")
	})
}

func TestWhoLeavesWhileItIsGrantedGivesItBack(t *testing.T) {
	for _, full := range []bool{false, true} { // without and with waiting
		synctest.Test(t, func(t *testing.T) {
			k := newWorld().start(t)
			k.device(0, 100)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			r := want("b", 100, wait(time.Hour))
			waits := make(<-chan decision)
			if full {
				k.grant(want("a", 100))
				waits = k.queue(ctx, r)
			}
			// Told after the grant is written and before the one who asked knows.
			k.mu.Lock()
			k.onTold = func(e gpu.Event) {
				if e.Code == gpu.EventGranted {
					leave()
				}
			}
			k.mu.Unlock()
			var err error
			if full {
				k.give("a", 1)
				err = (<-waits).err
			} else {
				_, err = k.Acquire(ctx, r)
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the one who left was told %v", err)
			}
			if e := k.told(gpu.EventReleased, "b"); !strings.Contains(e.Text, "the client disconnected") {
				t.Errorf("its end was told as %q", e.Text)
			}
			if got := k.leases(); len(got) != 0 {
				t.Errorf("%v stand, and nobody knows of them", got)
			}
		})
	}
}

func TestStoppingLeavesNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 100))
		waits := k.queue(t.Context(), want("b", 100, wait(time.Hour)))
		k.stop()
		if d := <-waits; !errors.Is(d.err, ErrStopped) {
			t.Errorf("the one who waited was told %v", d.err)
		}
		if err := k.refused(want("c", 1)); !errors.Is(err, ErrStopped) {
			t.Errorf("afterwards: %v", err)
		}
		if got := w.start(t).leases(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("after a restart %v stand", got)
		}
	})
}

// One that waits for the quota of its service does not keep room from others,
// and nobody of its own service takes the quota from under it.
func TestWaitingForAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Services = map[string]quota.Served{"s": {Service: quota.Service{Name: "s", Quota: lease.Usage{Memory: 50}}}}
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 30, service("s")))
		waits := k.queue(t.Context(), want("b", 40, service("s"), wait(time.Hour)))
		e, _ := k.ExplainWaiting(k.only("b"))
		if e.Quota == nil || !errors.Is(e.Quota, quota.ErrQuota) || e.Refusal != nil {
			t.Errorf("b waits for %v and %v", e.Quota, e.Refusal)
		}
		if err := k.refused(want("c", 10, service("s"))); !errors.Is(err, quota.ErrQuota) || !strings.Contains(err.Error(), "it is behind b") {
			t.Errorf("c was refused with %v", err)
		}
		k.grant(want("d", 70))
		k.give("a", 1)
		if e, _ := k.ExplainWaiting(k.only("b")); e.Quota != nil || e.Refusal == nil {
			t.Errorf("b waits for %v and %v", e.Quota, e.Refusal)
		}
		k.give("d", 1)
		if d := <-waits; d.err != nil {
			t.Error(d.err)
		}
		if err := k.refused(want("e", 60, service("s"), wait(time.Hour))); !errors.Is(err, quota.ErrQuota) {
			t.Errorf("more than the whole quota was refused with %v", err)
		}
	})
}

// A request behind others in the queue is still only put where it wants to be:
// asking whether they would be delayed must not change what it asked for.
func TestConstraintsHoldBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		named := func(name string) func(*placement.Observation) {
			return func(o *placement.Observation) { o.Device.Name = name }
		}
		where := func(name string) func(*lease.Request) { return func(r *lease.Request) { r.Where.Name = name } }
		k.device(0, 100, named("H200"))
		k.device(1, 100, named("A100"))
		k.grant(want("a", 10, at(dev(0))))
		big := k.queue(t.Context(), want("big", 100, at(dev(0)), wait(time.Minute)))
		if err := k.refused(want("small", 10, where("H200"))); !errors.As(err, new(*placement.QueuedError)) {
			t.Errorf("small was refused with %v", err)
		}
		if d := <-big; d.err == nil {
			t.Errorf("big is on %s", d.lease.Parts[0].GPU)
		}
	})
}

func TestExplainIsWhatWouldHappen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("a", 60))
		waits := k.queue(t.Context(), want("big", 90, wait(time.Minute)))
		for _, test := range []struct {
			request lease.Request
			fits    bool
		}{
			{want("x", 10), true},
			{want("x", 40), false},
			{want("x", 40, priority(1)), true},
			{want("x", 50, priority(1)), false},
			{want("x", 200), false},
		} {
			e, err := k.Explain(test.request)
			if err != nil || (e.Refusal == nil) != test.fits || e.Position != 0 {
				t.Errorf("%+v: %+v, %v", &test.request, e.Refusal, err)
			}
			granted, err := k.Acquire(t.Context(), test.request)
			if (err == nil) != test.fits {
				t.Errorf("%+v was explained to fit (%v), and then: %v", test.request, test.fits, err)
			}
			if granted != nil {
				k.give("x", 1)
			}
		}
		if d := <-waits; status(d.err) != "timeout" {
			t.Errorf("big got %v", d.err)
		}
	})
}
