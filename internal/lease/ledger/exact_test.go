package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// part is a part of a lease on the i-th device.
func part(i int, memory gpu.MiB, slots int) lease.Part {
	return lease.Part{GPU: dev(i), Memory: memory, Slots: slots}
}

// exact is a request of an operator for exactly these parts.
func exact(id string, parts []lease.Part, change ...func(*lease.Request)) lease.Request {
	r := lease.Request{ID: id, Holder: user(1), By: by(1), Binding: lease.ByName, Exact: parts, Terms: lease.Terms{EnforcedBy: "none"}}
	r.By.Role = access.Operator
	for _, c := range change {
		c(&r)
	}
	return r
}

func scoped(names ...string) func(*lease.Request) {
	return func(r *lease.Request) { r.Scope = names }
}

// again asks for what must be answered, and returns the answer.
func (k *keeper) again(r lease.Request) Found {
	k.t.Helper()
	found, err := k.Ledger.Acquire(k.t.Context(), r)
	if err != nil {
		k.t.Fatalf("%s was refused: %v", r.ID, err)
	}
	return found
}

// What another scheduler has admitted is held back by a device that cannot be used,
// by memory that is not there and by slots that the device does not have, and by
// nothing else.
func TestWhatHoldsBackAnExactRequest(t *testing.T) {
	closed := func(o *placement.Observation) { o.Closed = "it is drained: new fans" }
	hot := func(o *placement.Observation) { o.State, o.Stop, o.Reason = gpu.Critical, true, "95 °C" }
	forecast := func(o *placement.Observation) { o.Multiplier, o.Slower = gpu.Some(0.0), "it will be too hot" }
	cut := func(o *placement.Observation) { o.Device.Instances = []string{"MIG-1"} }
	for name, c := range map[string]struct {
		shown func(*placement.Observation)
		part  lease.Part
		code  placement.Code // empty: it is granted
		text  string
	}{
		"a device in the best state":                 {inState(gpu.Optimal), part(0, 100, 2), "", ""},
		"a device that is slow":                      {inState(gpu.Throttled), part(0, 100, 2), "", ""},
		"a device that is full, and critical for it": {func(o *placement.Observation) { inState(gpu.Critical)(o); used(1, 96)(o) }, part(0, 4, 2), "", ""},
		"a device that will be too hot":              {forecast, part(0, 100, 2), "", ""},
		"slots alone":                                {inState(gpu.Critical), part(0, 0, 1), "", ""},
		"memory alone":                               {inState(gpu.Critical), part(0, 1, 0), "", ""},
		"memory that others use":                     {used(1, 97), part(0, 4, 1), placement.NoMemory, "cannot lease 4 MiB: it has 3 MiB left"},
		"more memory than there is":                  {inState(gpu.Optimal), part(0, 101, 1), placement.TooSmall, "can never lease 101 MiB: it has 100 MiB at most"},
		"more slots than there are":                  {inState(gpu.Optimal), part(0, 1, 3), placement.NoSlot, "cannot lease 3 slots: 0 of 2 are taken"},
		"a device that is lost":                      {inState(gpu.Unavailable), part(0, 1, 1), placement.Closed, "grants nothing: it is UNAVAILABLE"},
		"a device above temp_critical":               {hot, part(0, 1, 1), placement.Closed, "grants nothing: it is too hot: 95 °C"},
		"a device that is drained":                   {closed, part(0, 1, 1), placement.Closed, "grants nothing: it is drained: new fans"},
		"a device that is cut":                       {cut, part(0, 1, 1), placement.Closed, "grants nothing: it is cut into 1 instance: lease that one"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newWorld().start(t)
			k.device(0, 100, c.shown)
			k.device(1, 100)
			r := exact("e", []lease.Part{part(1, 10, 1), c.part})
			if c.code == "" {
				if granted := k.grant(r); !slices.Equal(granted.Parts, r.Exact) || granted.Fence != 1 {
					t.Errorf("it got %+v", granted)
				}
				return
			}
			refusal := (*placement.ExactError)(nil)
			if err := k.refused(r); !errors.As(err, &refusal) || len(refusal.Reasons) != 1 || refusal.Reasons[0].Code != c.code ||
				!strings.Contains(err.Error(), "GPU 0 (GPU-0) "+c.text) {
				t.Errorf("it was refused with %v, want %s: %s", err, c.code, c.text)
			}
			if leases, waiting := k.Len(); leases+waiting != 0 {
				t.Errorf("it left %d leases and %d requests", leases, waiting)
			}
		})
	}
}

func TestExactRequestGoesBeforeThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("a", 60))
		answer := k.queue(t.Context(), want("big", 90, wait(time.Hour), of(2)))
		if err := k.refused(want("b", 30)); !errors.As(err, new(*placement.QueuedError)) {
			t.Errorf("an ordinary request: %v", err)
		}
		k.grant(exact("e", []lease.Part{part(0, 40, 1)}))
		if err := k.refused(exact("big", []lease.Part{part(0, 1, 0)}, of(2))); !errors.Is(err, lease.ErrDuplicate) {
			t.Errorf("the id of a request that waits: %v", err)
		}
		k.give("a", 1)
		if _, err := k.Release(t.Context(), byID("e"), 0, by(1)); err != nil {
			t.Fatal(err)
		}
		if d := <-answer; d.err != nil {
			t.Errorf("the one that waits: %v", d.err)
		}
	})
}

func TestSettingsHoldForExactRequests(t *testing.T) {
	w := newWorld()
	w.settings.KnownOnly = true
	w.settings.Services = map[string]quota.Served{
		"s": {Service: quota.Service{Name: "s", MinMemory: 10, MaxMemory: 40, Priority: 5, Quota: lease.Usage{Memory: 60, Slots: 1}}},
		"t": {Service: quota.Service{Name: "t", Users: []string{"eve"}}},
	}
	w.settings.Limits.Of = func(s lease.Subject) *lease.Limits {
		l := lease.Builtin()
		l.Subject = s
		if s.UID == 2 {
			l.Memory, l.Leases = lease.Limit[gpu.MiB]{Opt: gpu.Some(gpu.MiB(50))}, lease.Limit[int]{Opt: gpu.Some(1)}
		}
		return &l
	}
	k := w.start(t)
	k.device(0, 100)
	k.device(1, 100)
	second := func(r *lease.Request) { of(2)(r); r.By.Role = access.Operator }
	for what, c := range map[string]struct {
		r   lease.Request
		err error
	}{
		"below the minimum on one device": {exact("e", []lease.Part{part(0, 10, 0), part(1, 9, 1)}, service("s")), quota.ErrMinMemory},
		"slots alone, with a minimum":     {exact("e", []lease.Part{part(0, 0, 1)}, service("s")), quota.ErrMinMemory},
		"above the maximum":               {exact("e", []lease.Part{part(0, 41, 0)}, service("s")), quota.ErrMaxMemory},
		"above the quota of all devices":  {exact("e", []lease.Part{part(0, 31, 0), part(1, 30, 0)}, service("s")), quota.ErrQuota},
		"above the quota of slots":        {exact("e", []lease.Part{part(0, 10, 1), part(1, 10, 1)}, service("s")), quota.ErrQuota},
		"the service of another user":     {exact("e", []lease.Part{part(0, 10, 1)}, service("t")), quota.ErrUser},
		"a service that is not known":     {exact("e", []lease.Part{part(0, 10, 1)}, service("none")), quota.ErrService},
		"above the limit of the user":     {exact("e", []lease.Part{part(0, 26, 0), part(1, 25, 0)}, second), quota.ErrLimit},
		"a device that is not there":      {exact("e", []lease.Part{part(0, 1, 0), part(7, 1, 0)}), lease.ErrDevice},
	} {
		if err := k.refused(c.r); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", what, err, c.err)
		}
	}
	if got := k.grant(exact("e", []lease.Part{part(0, 40, 1), part(1, 20, 0)}, service("s"))); got.Priority != 5 || got.Raised || got.Note != "" {
		t.Errorf("within the settings: %+v", got)
	}
	if err := k.refused(exact("f", []lease.Part{part(1, 10, 0)}, service("s"))); !errors.Is(err, quota.ErrQuota) {
		t.Errorf("what would fit later: %v", err)
	}
	k.grant(exact("g", []lease.Part{part(1, 50, 0)}, second))
	if err := k.refused(exact("h", []lease.Part{part(1, 0, 1)}, second)); !errors.Is(err, quota.ErrCrowded) {
		t.Errorf("a second lease: %v", err)
	}
	// The same request again takes nothing more, so no limit refuses it.
	if found := k.again(exact("g", []lease.Part{part(1, 50, 0)}, second)); !found.Stood {
		t.Errorf("the same again: %+v", found)
	}
}

// The same request finds its lease in whichever state that is.
func TestExactRequestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.device(1, 100)
		r := exact("e", []lease.Part{part(0, 60, 1), part(1, 70, 0)}, scoped("pod1"))
		first := k.grant(r)
		if found := k.again(r); !found.Stood || found.Lease != first {
			t.Errorf("nothing has changed, and it is %+v", found)
		}
		slices.Reverse(r.Exact)
		r.Scope = []string{"pod2", "pod1"}
		if found := k.again(r); !found.Stood || found.Fence != first.Fence || !slices.Equal(found.Scope, []string{"pod1", "pod2"}) {
			t.Errorf("with another name in its scope it is %+v", found)
		}
		var many []string
		for i := range lease.MaxScope {
			many = append(many, fmt.Sprint("other", i))
		}
		bad := lease.FieldErrors{}
		if err := k.refused(exact("e", r.Exact, scoped(many[1:]...))); !errors.As(err, &bad) || bad[0].Field != "scope" {
			t.Errorf("more names than a scope has: %v", err)
		}
		other := exact("e", []lease.Part{part(0, 60, 1), part(1, 71, 0)})
		if err := k.refused(other); !errors.Is(err, lease.ErrDuplicate) ||
			!strings.HasSuffix(err.Error(), "with other parts: it has 70 MiB and 0 slots on GPU-1, where the request is for 71 MiB and 0 slots") {
			t.Errorf("other parts: %v", err)
		}
		k.device(0, 100, inState(gpu.Unavailable))
		if found := k.again(r); found.Fence != first.Fence {
			t.Errorf("on a device that is lost it is %+v", found)
		}
		k.device(0, 100)
		k.BeginRevoke(first.Key(), first.Fence, "somebody said so", nil)
		if err := k.refused(r); !errors.Is(err, lease.ErrState) || !strings.Contains(err.Error(), "somebody said so") {
			t.Errorf("about to be revoked: %v", err)
		}
		if _, err := k.Release(t.Context(), byID("e"), first.Fence, by(1)); err != nil {
			t.Fatal(err)
		}
		if found := k.again(other); found.Stood || found.Fence <= first.Fence {
			t.Errorf("after its end: %+v", found)
		}

		mortal := exact("t", []lease.Part{part(0, 10, 0)}, ttl(time.Minute))
		k.grant(mortal)
		time.Sleep(40 * time.Second)
		if found := k.again(mortal); !found.Stood || time.Until(found.Expires) != time.Minute {
			t.Errorf("it was not renewed: %+v", found)
		}
		time.Sleep(2 * time.Minute)
		if found := k.again(mortal); found.Stood {
			t.Errorf("it has expired, and is %+v", found)
		}

		parked := exact("p", []lease.Part{part(0, 10, 0)})
		l := k.grant(parked)
		if _, err := k.Park(t.Context(), l.Key(), l.Fence, by(1), ""); err != nil {
			t.Fatal(err)
		}
		if err := k.refused(parked); !errors.Is(err, lease.ErrParked) {
			t.Errorf("while it is parked: %v", err)
		}
		if _, err := k.Release(t.Context(), byID("p"), 0, access.Daemon()); err != nil {
			t.Fatal(err)
		}
	})
}

// Whatever the journal does not have was not granted, and nobody was told so. What
// it has is found by the same request after the daemon was killed.
func TestExactRequestSurvives(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	r := exact("e", []lease.Part{part(0, 60, 1)}, scoped("pod1"))
	w.fail(errFull, false)
	if err := k.refused(r); !errors.Is(err, errFull) {
		t.Errorf("without a journal: %v", err)
	}
	w.fail(nil, false)
	first := k.grant(r)
	w.fail(errFull, false)
	if found := k.again(r); !found.Stood || found.Fence != first.Fence {
		t.Errorf("the same again needs no journal, and is %+v", found)
	}
	r.Scope = []string{"pod2"}
	if err := k.refused(r); !errors.Is(err, errFull) {
		t.Errorf("another scope without a journal: %v", err)
	}
	w.fail(nil, false)
	if found := k.again(r); !slices.Equal(found.Scope, []string{"pod1", "pod2"}) {
		t.Errorf("its scope is %v", found.Scope)
	}
	for range 2 {
		k.die(w.disk.Kill)
		k = w.start(t)
		k.device(0, 100)
		if found := k.again(r); !found.Stood || found.Fence != first.Fence || !slices.Equal(found.Scope, []string{"pod1", "pod2"}) || !slices.Equal(found.Parts, first.Parts) {
			t.Errorf("after a crash it is %+v", found)
		}
	}
}

// Many callers with the same request at the same moment share one grant. A caller who
// leaves takes it from nobody.
func TestExactRequestsAtOnce(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	const callers = 20
	answers := make(chan Found, callers)
	for i := range callers {
		ctx, leave := context.WithCancel(t.Context())
		if i%4 == 0 {
			leave()
		}
		go func() {
			defer leave()
			found, err := k.Ledger.Acquire(ctx, exact("e", []lease.Part{part(0, 60, 1)}, scoped(fmt.Sprint("pod", i))))
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			answers <- found
		}()
	}
	granted, fence := 0, uint64(0)
	for range callers {
		switch found := <-answers; {
		case found.Lease == nil: // it left before the clerk had its request
		case !found.Stood:
			granted++
			fallthrough
		default:
			if fence == 0 {
				fence = found.Fence
			}
			if found.Fence != fence {
				t.Errorf("one got fence %d, another %d", fence, found.Fence)
			}
		}
	}
	if held, stands := k.Find(k.only("e")); granted != 1 || !stands || held.Fence != fence || len(held.Scope) < callers*3/4 {
		t.Errorf("%d grants, and %+v", granted, held)
	}
}

// Over random histories of exact and ordinary requests, with devices whose state and
// foreign memory change and daemons that are killed: an exact request is granted if and
// only if each of its parts fits by the sums, it is granted whole, and the same one
// again gets the same lease.
func TestExactRequestsOverHistories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(undated{t}, func(t *rapid.T) {
			const devices, total, most = 3, 12, 3
			w := newWorld()
			w.settings.Device = func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: most} }
			k := w.start(t)
			draw := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(t, name) }
			var foreign [devices]gpu.MiB
			var states [devices]gpu.State
			show := func(i int) {
				k.device(i, total, inState(states[i]), func(o *placement.Observation) { o.Sample.MemoryUsed = gpu.Some(foreign[i]) })
			}
			for i := range devices {
				states[i] = gpu.Optimal
				show(i)
			}
			held := map[string]*lease.Lease{}
			room := func(i int) (memory gpu.MiB, slots int) {
				memory, slots = total-foreign[i], most
				for _, l := range held {
					for _, p := range l.Parts {
						if p.GPU == dev(i) {
							memory, slots = memory-p.Memory, slots-p.Slots
						}
					}
				}
				return memory, slots
			}
			for range draw("steps", 1, 30) {
				id := fmt.Sprint("l", draw("id", 0, 4))
				switch draw("step", 0, 7) {
				case 0, 1, 2: // an exact request
					var parts []lease.Part
					fits, scope := true, []string{fmt.Sprint("pod", draw("pod", 0, 2))}
					for i := range devices {
						if draw("here", 0, 1) == 0 {
							continue
						}
						p := part(i, gpu.MiB(draw("memory", 0, 8)), draw("slots", 0, 2))
						if p.Memory+gpu.MiB(p.Slots) == 0 {
							p.Slots = 1
						}
						memory, slots := room(i)
						fits = fits && states[i] != gpu.Unavailable && p.Memory <= memory && (p.Slots == 0 || p.Slots <= slots)
						parts = append(parts, p)
					}
					if parts == nil {
						continue
					}
					found, err := k.Ledger.Acquire(t.Context(), exact(id, parts, scoped(scope...)))
					switch before := held[id]; {
					case before == nil && (err == nil) != fits:
						t.Fatalf("%v fits: %v, and the answer is %v", parts, fits, err)
					case before == nil && err == nil && (found.Stood || !slices.Equal(found.Parts, parts)):
						t.Fatalf("%v became %+v", parts, found)
					case before != nil && err == nil && (!found.Stood || found.Fence != before.Fence || quota.Difference(before, parts) != ""):
						t.Fatalf("%+v was found as %+v for %v", before, found, parts)
					case before != nil && err != nil && (!errors.Is(err, lease.ErrDuplicate) || quota.Difference(before, parts) == ""):
						t.Fatalf("%+v was not found for %v: %v", before, parts, err)
					case err == nil:
						held[id] = found.Lease
					}
				case 3: // the same one again
					if before := held[id]; before != nil {
						found, err := k.Ledger.Acquire(t.Context(), exact(id, slices.Clone(before.Parts)))
						if err != nil || !found.Stood || found.Fence != before.Fence || !slices.Equal(found.Parts, before.Parts) || !slices.Equal(found.Scope, before.Scope) {
							t.Fatalf("%+v again: %+v, %v", before, found, err)
						}
					}
				case 4: // an ordinary one
					if granted, err := k.Acquire(t.Context(), want(id, gpu.MiB(draw("memory", 1, 8)), slots(draw("slots", 0, 1)))); err == nil {
						held[id] = granted
					}
				case 5:
					if before := held[id]; before != nil {
						if _, err := k.Release(t.Context(), byID(id), before.Fence, by(1)); err != nil {
							t.Fatal(err)
						}
						delete(held, id)
					}
				case 6:
					i := draw("device", 0, devices-1)
					foreign[i], states[i] = gpu.MiB(draw("foreign", 0, 6)), rapid.SampledFrom(gpu.States()).Draw(t, "state")
					show(i)
				case 7: // kill -9
					k.die(w.disk.Kill)
					k = w.start(t)
					for i := range devices {
						show(i)
					}
				}
				for i := range devices {
					memory, free := room(i)
					if sum, _ := k.book.Sum(dev(i)); sum.Available() != memory || sum.Active != most-free || sum.Leased > total || sum.Active > most {
						t.Fatalf("%s has %+v, and should have %s and %d slots left", dev(i), sum, memory.Exact(), free)
					}
				}
			}
			if got, want := len(k.leases()), len(held); got != want {
				t.Fatalf("%d leases stand, and should be %v", got, slices.Sorted(maps.Keys(held)))
			}
			k.stop() // checks the book, and that its journal describes it
		})
	})
}
