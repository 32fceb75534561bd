package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// under makes the request one for a child of a lease.
func under(parent string) func(*lease.Request) {
	return func(r *lease.Request) { r.Parent = parent }
}

// A batch takes one slot, and the memory of each worker. The first worker has
// what the batch has waited for.
func TestWorkersShareTheSlotOfTheirBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Device = func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 1} }
		k := w.start(t)
		k.device(0, 100)
		k.device(1, 100)
		k.grant(want("pipeline", 90, slots(1), at(dev(0)), of(2)))
		waits := k.queue(t.Context(), want("batch", 40, slots(1), at(dev(0)), wait(time.Hour)))
		other := k.queue(t.Context(), want("other", 70, of(3), at(dev(0)), wait(time.Hour)))
		k.give("pipeline", 2)
		if d := <-waits; d.err != nil {
			t.Fatal(d.err)
		}
		for _, test := range []struct {
			id        string
			memory    gpu.MiB
			available gpu.MiB // afterwards
		}{
			{"first", 40, 60}, // does not wait behind the other
			{"without memory", 0, 60},
		} {
			granted := k.grant(want(test.id, test.memory, under("batch")))
			if p := granted.Parts[0]; len(granted.Parts) != 1 || p.GPU != dev(0) || p.Memory != test.memory || p.Slots != 0 {
				t.Errorf("%s has %+v", test.id, granted.Parts)
			}
			if sum := k.Sum(dev(0)); sum.Available() != test.available || sum.Active != 1 {
				t.Errorf("%s and %d slots are left after %s", sum.Available(), sum.Active, test.id)
			}
		}
		if held, _ := k.Find(k.only("batch")); held.Parts[0].Memory != 0 || held.Parts[0].Slots != 1 {
			t.Errorf("the batch has %+v", held.Parts)
		}
		k.refused(want("third", 31, under("batch"))) // would delay the other
		k.refused(want("pipeline", 1, slots(1), at(dev(0))))
		k.give("first", 1)
		if d := <-other; d.err != nil {
			t.Fatal(d.err)
		}
		k.grant(want("second", 30, under("batch")))
		k.stop()

		k = w.start(t)
		k.device(0, 100)
		if sum := k.Sum(dev(0)); sum.Available() != 0 || sum.Active != 1 {
			t.Errorf("after a restart %s and %d slots are left", sum.Available(), sum.Active)
		}
		k.grant(want("third", 0, under("batch")))
	})
}

func TestChildrenThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.device(1, 100)
		k.grant(want("batch", 10, slots(1), at(dev(1))))
		fields := lease.FieldErrors{}
		for name, test := range map[string]struct {
			request lease.Request
			field   string // empty: ErrParent
		}{
			"of nobody":                    {want("a", 0, under("gone")), ""},
			"of another user":              {want("a", 0, under("batch"), of(2)), ""},
			"of itself":                    {want("a", 0, under("a")), ""},
			"on another device":            {want("a", 0, under("batch"), at(dev(0))), "gpu"},
			"on more devices":              {want("a", 0, under("batch"), gpus(2)), "gpus"},
			"where something is":           {want("a", 0, under("batch"), func(r *lease.Request) { r.Where.Name = "Simulated" }), "where"},
			"with a name that is no name":  {want("a", 0, under(" ")), "parent"},
			"for less than nothing":        {want("a", -1, under("batch")), "memory_mb"},
			"of nobody, and for something": {want("a", 5, under("gone")), ""},
		} {
			err := k.refused(test.request)
			if test.field == "" && !errors.Is(err, lease.ErrParent) || test.field != "" && (!errors.As(err, &fields) || fields[0].Field != test.field) {
				t.Errorf("%s: %v", name, err)
			}
		}
		k.device(1, 100, inState(gpu.Unavailable))
		k.refused(want("a", 0, under("batch")))
	})
}

// A child that waits does not outlive its parent, and says so.
func TestWaitingChildIsWithdrawnWithItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("batch", 0, slots(1)))
		k.grant(want("other", 90))
		waits := k.queue(t.Context(), want("worker", 20, under("batch"), wait(time.Hour)))
		k.give("batch", 1)
		if d := <-waits; !errors.Is(d.err, context.Canceled) {
			t.Errorf("it got %v, %v", d.lease, d.err)
		}
		if waiting := k.waiting(); len(waiting) != 0 {
			t.Errorf("%v wait", waiting)
		}
	})
}

// The limits of a service hold for a child, and what it has of its parent counts
// once.
func TestChildrenOfAService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Services = map[string]quota.Served{"s": {Service: quota.Service{
			Name: "s", MinMemory: 20, MaxMemory: 40, Quota: lease.Usage{Memory: 50, Slots: 1},
		}}}
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("batch", 0, slots(1), service("s")))
		for _, id := range []string{"first", "second"} {
			if granted := k.grant(want(id, 0, under("batch"), service("s"))); granted.Parts[0].Memory != 20 {
				t.Errorf("%s has %+v", id, granted.Parts)
			}
		}
		if used := k.book.ServiceUsage("s"); used != (lease.Usage{Memory: 40, Slots: 1}) {
			t.Errorf("the service uses %+v", used)
		}
		if err := k.refused(want("third", 0, under("batch"), service("s"))); !errors.Is(err, quota.ErrQuota) {
			t.Errorf("the third was refused with %v", err)
		}
		if err := k.refused(want("large", 41, under("batch"), service("s"))); !errors.Is(err, quota.ErrMaxMemory) {
			t.Errorf("a large one was refused with %v", err)
		}
	})
}

// Explain and Fits say what Acquire does.
func TestExplainChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("batch", 30, slots(1)))
		k.grant(want("other", 70))
		for memory, fits := range map[gpu.MiB]bool{0: true, 30: true, 31: false} {
			request := want("", memory, under("batch"))
			e, err := k.Explain(request)
			if err != nil || (e.Refusal == nil) != fits || (e.Grant != nil) != fits || k.Fits(want("x", memory, under("batch"))) != fits {
				t.Errorf("%s: %+v, %v", memory, e, err)
			}
		}
	})
}

// Memory that is passed on from child to child keeps the end that it was granted with, and
// so does the memory of a pool: who waits for that end gets it.
func TestChildrenEndNoLaterThanTheirMemory(t *testing.T) {
	for name, first := range map[string]func(*lease.Request){
		"of a lease": func(*lease.Request) {},
		"of a pool":  func(r *lease.Request) { r.Pool = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.settings.Limits = limited(1, func(l *lease.Limits) {
					l.LongestTime = lease.Limit[time.Duration]{Opt: gpu.Some(time.Hour), Source: "users.default"}
				})
				k := w.start(t)
				k.device(0, 100)
				parent := k.grant(want("l-0", 90, slots(1), first))
				end, _ := parent.Ends()
				waits := k.queue(t.Context(), want("waits", 90, of(2), wait(2*time.Hour)))
				for i := range 3 {
					time.Sleep(10 * time.Minute)
					child := k.grant(want(fmt.Sprint("l-", i+1), 80, under(parent.ID)))
					if ends, _ := child.Ends(); !ends.Equal(end) || !child.Imposed || !child.Unchosen {
						t.Errorf("%s ends at %v, and its parent at %v", child.ID, ends, end)
					}
					if !parent.Pool {
						k.give(parent.ID, 1)
						parent = child
					} else {
						k.give(child.ID, 1)
					}
				}
				k.grant(want("last", 70, under(parent.ID), timed(20*time.Minute)))
				if d := <-waits; d.err != nil {
					t.Error(d.err)
				}
			})
		})
	}
}
