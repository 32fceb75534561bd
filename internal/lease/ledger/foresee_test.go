package ledger

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
)

// A look ahead says when each request is granted, by the ends that are known and by the
// order in which the ledger grants, and changes nothing.
func TestForesee(t *testing.T) {
	hour := time.Hour
	byName := func(known map[string]time.Duration) Lasts {
		return func(held *lease.Lease, lasted time.Duration) (time.Duration, bool) {
			if whole, is := known[held.Holder.Name]; is {
				return whole - lasted, true
			}
			return held.TimeLimit - lasted, held.TimeLimit > 0
		}
	}
	named := func(r lease.Request, name string, wait time.Duration) lease.Request {
		r.Holder.Name = name
		if wait > 0 {
			r.Wait = gpu.Some(wait)
		}
		return r
	}
	for title, test := range map[string]struct {
		held, queue []lease.Request
		known       map[string]time.Duration
		measured    gpu.MiB                  // that a process of the lease a uses
		want        map[string]time.Duration // from now on; -1 for a request that is never granted
		because     string
		leaves      bool
	}{
		"behind one with a known end": {
			held: []lease.Request{named(want("a", 900), "train", 0)}, queue: []lease.Request{named(want("b", 500), "x", 48*hour)},
			known: map[string]time.Duration{"train": 2 * hour}, want: map[string]time.Duration{"b": 2 * hour},
		},
		"behind one whose process is on the device": {
			held: []lease.Request{named(want("a", 900), "train", 0)}, queue: []lease.Request{named(want("b", 500), "x", 48*hour)}, measured: 850,
			known: map[string]time.Duration{"train": 2 * hour}, want: map[string]time.Duration{"b": 2 * hour},
		},
		"one after the other": {
			held:  []lease.Request{named(want("a", 900), "train", 0)},
			queue: []lease.Request{named(want("b", 900), "train", 48*hour), named(want("c", 900), "train", 48*hour)},
			known: map[string]time.Duration{"train": 2 * hour}, want: map[string]time.Duration{"b": 2 * hour, "c": 4 * hour},
		},
		"nobody knows the end": {
			held: []lease.Request{named(want("a", 900), "mystery", 0)}, queue: []lease.Request{named(want("b", 500), "x", 48*hour)},
			want: map[string]time.Duration{"b": -1}, because: "a",
		},
		"it leaves before": {
			held: []lease.Request{named(want("a", 900), "train", 0)}, queue: []lease.Request{named(want("b", 500), "x", hour)},
			known: map[string]time.Duration{"train": 2 * hour}, want: map[string]time.Duration{"b": -1}, leaves: true,
		},
		"others leave before": {
			held:  []lease.Request{named(want("a", 600), "train", 0)},
			queue: []lease.Request{named(want("b", 900), "x", hour), named(want("c", 300), "x", 48*hour)},
			known: map[string]time.Duration{"train": 2 * hour}, want: map[string]time.Duration{"b": -1, "c": hour}, leaves: true,
		},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.cast = cast{first: runs(1, "a")}
				k := w.start(t)
				k.device(0, 1000)
				for _, r := range test.held {
					k.grant(r)
				}
				if test.measured > 0 {
					k.device(0, 1000, used(first, test.measured))
				}
				for _, r := range test.queue {
					k.queue(t.Context(), r)
				}
				now := time.Now()
				found := k.Foresee(now, byName(test.known), Nobody)
				if len(test.queue) == 1 { // the same request, if it did not wait yet
					next := test.queue[0]
					next.ID = ""
					next.Holder.Name = "next"
					first := found[test.queue[0].Key()]
					got, err := k.ForeseeNew(now, next, byName(test.known), Nobody)
					if err != nil || got.At.Before(first.At) || got.At.IsZero() != first.At.IsZero() && !first.Leaves {
						t.Errorf("behind %+v: %+v, %v", first, got, err)
					}
				}
				for _, r := range test.queue {
					f, is := found[r.Key()]
					switch after := test.want[r.ID]; {
					case !is:
						t.Errorf("nothing is foreseen for %s", r.ID)
					case after >= 0 && !f.At.Equal(now.Add(after)):
						t.Errorf("%s is granted %v from now on, want %v", r.ID, f.At.Sub(now), after)
					case after < 0 && (!f.At.IsZero() || f.Leaves != test.leaves || (f.Because != nil && f.Because.ID != test.because)):
						t.Errorf("%s is never granted: %+v", r.ID, f)
					}
				}
				if waiting := k.View().Waiting; len(waiting) != len(test.queue) {
					t.Errorf("%d requests wait after the look ahead, of %d", len(waiting), len(test.queue))
				}
			})
		})
	}
}

// A request that nobody gave an end is granted at last, however long that takes.
func TestForeseeForThePatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 1000)
		began, limit := time.Now(), 20*24*time.Hour
		k.grant(want("a", 900))
		for _, id := range []string{"b", "c"} {
			r := want(id, 900)
			r.Wait = gpu.Some(lease.MaxWait)
			k.queue(t.Context(), r)
		}
		time.Sleep(time.Minute)
		now := time.Now()
		found := k.Foresee(now, func(_ *lease.Lease, lasted time.Duration) (time.Duration, bool) { return limit - lasted, true }, Nobody)
		for id, at := range map[string]time.Time{"b": began.Add(limit), "c": began.Add(2 * limit)} {
			r := want(id, 900)
			if f := found[r.Key()]; !f.At.Equal(at) || f.Leaves {
				t.Errorf("%s is granted at %v (it leaves: %v), want %v", id, f.At, f.Leaves, at)
			}
		}
	})
}

// A lease that begins in the look ahead, and of which nobody knows the end, is in the way
// of those after it, although nothing was in the way when somebody left before.
func TestForeseeWhatBeginsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 1000)
		train := want("a", 600)
		train.Holder.Name = "train"
		k.grant(train)
		began := time.Now()
		for _, next := range []struct {
			id       string
			memory   gpu.MiB
			patience time.Duration
		}{{"leaves", 900, time.Hour}, {"b", 300, 48 * time.Hour}, {"c", 900, 10 * time.Hour}} {
			k.queue(t.Context(), want(next.id, next.memory, wait(next.patience)))
		}
		found := k.Foresee(began, func(held *lease.Lease, lasted time.Duration) (time.Duration, bool) {
			return 20*time.Hour - lasted, held.Holder.Name == "train"
		}, Nobody)
		of := func(id string) Foreseen {
			r := want(id, 0)
			return found[r.Key()]
		}
		if f := of("leaves"); !f.Leaves || f.Because != nil {
			t.Errorf("who leaves before a ends: %+v", f)
		}
		if f := of("b"); !f.At.Equal(began.Add(time.Hour)) {
			t.Errorf("b, once who was before it has left: %+v", f)
		}
		if f := of("c"); f.Leaves || f.Because == nil || f.Because.ID != "b" {
			t.Errorf("c, behind b: %+v", f)
		}
	})
}

// A look ahead goes on while the ledger changes, and shares nothing with it that changes.
func TestForeseeBesideChanges(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 10000)
	k.grant(want("a", 9000))
	k.queue(t.Context(), want("b", 5000, wait(48*time.Hour)))
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		for range 100 {
			k.Foresee(time.Now(), func(*lease.Lease, time.Duration) (time.Duration, bool) { return time.Hour, true }, Nobody)
		}
	}()
	for n := 2; ; n++ {
		k.grant(want("c", 1, of(n)))
		if _, err := k.Release(t.Context(), lease.Name{ID: "c"}, 0, by(n)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-looked:
			return
		default:
		}
	}
}

// A lease that waits to grow ends in a look ahead, and its request leaves with it.
func TestForeseeALeaseThatEndsBeforeItGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 1000)
		k.grant(want("stays", 500))
		grows := k.grant(want("grows", 500, timed(time.Hour)))
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := k.Resize(ctx, byID("grows"), 0, 900, by(1), nil, 24*time.Hour)
			done <- err
		}()
		synctest.Wait()
		lasts := func(held *lease.Lease, lasted time.Duration) (time.Duration, bool) {
			return held.TimeLimit - lasted, held.TimeLimit > 0
		}
		if f := k.Foresee(time.Now(), lasts, Nobody)[grows.Key()]; !f.At.IsZero() || f.Because == nil || f.Because.ID != "stays" {
			t.Errorf("%+v", f)
		}
		leave()
		<-done
	})
}

// Somebody who comes later may pass whoever holds something, and nobody else of the same
// service; one who holds leases and goes on asking delays those with a larger share.
func TestForeseeWhoMayBePassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 1000)
		k.grant(want("a", 100, of(2)))
		k.grant(want("b", 800, of(3)))
		k.queue(t.Context(), want("c", 800, of(2), wait(48*time.Hour)))
		r := want("c", 800, of(2))
		now, hour := time.Now(), func(held *lease.Lease, lasted time.Duration) (time.Duration, bool) {
			return time.Hour - lasted, held.ID != "a"
		}
		alone, busy := k.Foresee(now, hour, Nobody)[r.Key()], k.Foresee(now, hour, Again)[r.Key()]
		if !alone.Passable || !alone.At.Equal(now.Add(time.Hour)) {
			t.Errorf("nobody comes: %+v", alone)
		}
		if !busy.Passable || !busy.At.IsZero() && !busy.At.After(alone.At) || busy.Because != nil {
			t.Errorf("they ask again: %+v", busy)
		}
	})
}
