package ledger

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
)

// A request for more GPUs than a service leaves waits for the service, which has no end.
// Until that can be known, the GPUs are not idle for it.
func TestARequestWhoseStartIsUnknownIdlesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Pass = true
		slotsOf(w, 4)
		k := w.start(t)
		for i := range 4 {
			k.device(i, 139)
		}
		k.grant(want("embedder", 1, service("embedder"), of(2)))
		big := k.queue(t.Context(), want("big", 139, gpus(4), timed(time.Hour), wait(lease.MaxWait), of(3)))
		time.Sleep(time.Second)

		k.grant(want("endless", 10, ttl(24*time.Hour)))
		k.grant(want("limited", 10, timed(time.Hour)))
		k.give("embedder", 2)
		// Nothing that stood when it came stands any more. It waits for what came meanwhile,
		// and nothing else without an end goes before it.
		k.refused(want("later", 10, ttl(24*time.Hour)))
		k.grant(want("soon over", 10, timed(time.Minute)))
		k.give("endless", 1)
		k.refused(want("late", 10, timed(time.Minute))) // its start is known: when the limits are over
		k.give("limited", 1)
		k.give("soon over", 1)
		if d := <-big; d.err != nil {
			t.Fatal(d.err)
		}
	})
}

// A parked lease with a time limit returns past a request whose start is unknown, as a new
// request with one would be granted.
func TestAParkedLeaseWithATimeLimitReturnsAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Pass = true
		slotsOf(w, 4)
		k := w.start(t)
		for i := range 4 {
			k.device(i, 139)
		}
		k.grant(want("parked", 10, timed(time.Hour), of(6)))
		k.park("parked")
		k.grant(want("embedder", 1, service("embedder"), of(2)))
		k.queue(t.Context(), want("big", 139, gpus(4), timed(time.Hour), wait(lease.MaxWait), of(3)))
		time.Sleep(time.Second)
		k.grant(want("endless", 10, ttl(24*time.Hour)))
		k.give("embedder", 2)
		k.refused(want("later", 10, ttl(24*time.Hour)))
		if d := <-k.returns(t.Context(), "parked", still); d.err != nil {
			t.Error(d.err)
		}
	})
}

// Somebody who waits behind one whose start is unknown does not hold up those who may pass it.
func TestWhoeverIsBehindAnUnknownStartIdlesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Pass = true
		slotsOf(w, 4)
		k := w.start(t)
		for i := range 4 {
			k.device(i, 139)
		}
		k.grant(want("first", 1, ttl(24*time.Hour), of(2)))
		k.queue(t.Context(), want("big", 139, gpus(4), timed(time.Hour), wait(lease.MaxWait), of(3)))
		time.Sleep(time.Second)
		k.grant(want("program", 1, ttl(24*time.Hour), of(4)))
		k.give("first", 2)
		k.queue(t.Context(), want("second", 139, gpus(2), ttl(24*time.Hour), wait(lease.MaxWait), of(5))) // behind big
		k.grant(want("soon over", 10, timed(time.Minute), of(6)))
	})
}

// What processes under no lease use has no end either.
func TestMemoryUnderNoLeaseIdlesNoOtherGPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Pass = true
		slotsOf(w, 4)
		k := w.start(t)
		k.device(0, 139, used(70, 1))
		k.device(1, 139)
		k.queue(t.Context(), want("big", 139, gpus(2), wait(lease.MaxWait), of(3)))
		k.grant(want("small", 10, ttl(24*time.Hour)))
	})
}

// Somebody in the same lane whose start is known is not passed, although that of the one ahead
// is not.
func TestAKnownStartBehindAnUnknownOneIsProtected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Pass = true
		slotsOf(w, 4)
		k := w.start(t)
		k.device(0, 139)
		k.device(1, 139)
		k.grant(want("embedder", 1, service("embedder"), at(dev(0)), of(2)))
		k.grant(want("limited", 100, timed(time.Hour), at(dev(1)), of(2)))
		k.queue(t.Context(), want("big", 139, gpus(2), wait(lease.MaxWait), of(3)))
		k.queue(t.Context(), want("known", 139, wait(lease.MaxWait), of(3)))
		k.refused(want("late", 30, timed(2*time.Hour), at(dev(1))))
	})
}

// What is said to be in the way is what is.
func TestWhatAnUnknownStartWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.settings.Pass = true
		k := w.start(t)
		k.device(0, 139)
		k.device(1, 139)
		k.grant(want("elsewhere", 100, at(dev(0)), of(2)))
		k.grant(want("here", 100, at(dev(1)), of(2)))
		r := want("waits", 100, at(dev(1)), wait(lease.MaxWait), of(3))
		if unknown, because := k.StartUnknown(r); !unknown || because.ID != "here" {
			t.Errorf("it would wait for %+v", because)
		}
		k.queue(t.Context(), r)
		none := func(*lease.Lease, time.Duration) (time.Duration, bool) { return 0, false }
		if found := k.Foresee(time.Now(), none, Nobody)[r.Key()]; found.Because == nil || found.Because.ID != "here" {
			t.Errorf("it waits for %+v", found.Because)
		}
	})
}

func TestAHeldQueueWaitsForWhatHasNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		slotsOf(w, 4)
		k := w.start(t)
		k.device(0, 139)
		k.device(1, 139)
		k.grant(want("embedder", 1, service("embedder"), of(2)))
		k.queue(t.Context(), want("big", 139, gpus(2), wait(lease.MaxWait), of(3)))
		k.refused(want("small", 10, timed(time.Minute)))
	})
}

// Over random histories, what delays a request that waits for a service stays finite: the
// service ends at a random moment, programs end some time after they begin, and others come
// without a pause.
func TestAWaitForWhatHasNoEndIsFinite(t *testing.T) {
	for range *finiteWaits {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { finiteWait(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

var finiteWaits = flag.Int("ledger.endless", 25, "how many random histories of waits for what has no end are played")

func finiteWait(t *testing.T, r *rand.Rand) {
	const longest, patience = 10 * time.Minute, 5 * time.Minute // of a program, and of whoever waits for a GPU
	w := newWorld()
	w.settings.Pass = true
	slotsOf(w, 3)
	k := w.start(t)
	devices := 2 + r.IntN(3)
	for i := range devices {
		k.device(i, 100)
	}
	ends, whose := map[string]time.Time{}, map[string]int{}
	number := 0
	come := func() {
		number++
		id := fmt.Sprint("p-", number)
		q := want(id, gpu.MiB(1+r.IntN(60)), of(1+r.IntN(3)), ttl(24*time.Hour))
		if r.IntN(2) == 0 {
			q.TimeLimit = longest
		}
		whose[id] = q.Holder.UID
		ends[id] = time.Now().Add(time.Duration(r.Int64N(int64(longest))))
		if r.IntN(4) == 0 {
			q.GPUs, q.Memory = 1+r.IntN(devices), gpu.MiB(1+r.IntN(100))
			ends[id] = ends[id].Add(patience)
			wait(patience)(&q)
			go func() { _, _ = k.Acquire(t.Context(), q) }()
			synctest.Wait()
			return
		}
		_, _ = k.Acquire(t.Context(), q) // some find no room
	}
	k.grant(want("service", 10, service("embedder"), of(4), at(dev(r.IntN(devices)))))
	for range r.IntN(8) {
		come()
	}
	over := time.Now().Add(time.Duration(r.Int64N(int64(time.Hour))))
	big := k.queue(t.Context(), want("big", 95, gpus(devices), wait(lease.MaxWait), of(5)))

	// After the service, what stood when it came ends, then what came beside it, and then
	// what has a limit.
	last := over.Add(3 * (longest + patience))
	for {
		select {
		case d := <-big:
			if d.err != nil {
				t.Fatal(d.err)
			}
			return
		default:
		}
		if time.Now().After(last) {
			t.Fatalf("it still waits %v after the service has ended, beside %v", time.Since(over), k.leases())
		}
		time.Sleep(time.Duration(r.Int64N(int64(30 * time.Second))))
		now := time.Now()
		if !over.IsZero() && !now.Before(over) && slices.Contains(k.leases(), "service") {
			k.give("service", 4)
		}
		for _, id := range slices.Sorted(maps.Keys(ends)) {
			at := ends[id]
			if now.Before(at) {
				continue
			}
			if slices.Contains(k.leases(), id) { // else its limit has ended it
				k.give(id, whose[id])
			}
			delete(ends, id)
		}
		for range r.IntN(4) {
			come()
		}
		synctest.Wait()
	}
}

// The work of a decision grows with the number of requests ahead whose start is unknown, and
// no faster, although they close no device.
func TestWorkBehindUnknownStarts(t *testing.T) {
	work := func(n int) int {
		w := newWorld()
		w.settings.Pass = true
		slotsOf(w, 5000)
		k := w.start(t)
		defer k.die(func() {}) // what waits is not in the journal
		k.device(0, 143_771)
		k.grant(want("endless", 50_000, ttl(24*time.Hour), of(60)))
		defer k.sit()()
		before := time.Now().Add(-time.Hour) // it came later than all who wait
		for i := range n {
			r := want(fmt.Sprint("w-", i), gpu.MiB(130_000-i), of(i%8))
			r.GPUs, r.Requested, r.Deadline = 1, before.Add(time.Duration(i)), before.Add(24*time.Hour)
			if _, err := k.apply(lease.Ask{Request: &r}, before); err != nil {
				t.Fatal(err)
			}
		}
		k.effects = k.effects[:0]
		small := want("small", 1, of(70), timed(time.Minute))
		small.GPUs = 1
		from := k.book.Work() + k.ahead.Looked()
		if len(k.aheadOf(&small).Unknown()) == 0 {
			t.Fatal("all starts are known")
		}
		return k.book.Work() + k.ahead.Looked() - from
	}
	if few, many := work(500), work(4000); many > 16*few {
		t.Errorf("with 4,000 ahead it takes %d, and with 500 %d", many, few)
	}
}

// Of very many requests of one user whose start is unknown, a decision looks at a few.
func TestLooksBehindUnknownStartsOfOneUser(t *testing.T) {
	w := newWorld()
	w.settings.Pass = true
	k := w.start(t)
	defer k.die(func() {}) // what waits is not in the journal
	k.device(0, 143_771)
	k.device(1, 143_771)
	k.grant(want("embedder", 1024, service("embedder"), of(2)))
	defer k.sit()()
	now := time.Now()
	for i := range 2000 {
		r := want(fmt.Sprint("w-", i), gpu.MiB(143_771-i%1000), gpus(2), of(1))
		r.Requested, r.Deadline = now.Add(time.Duration(i)), now.Add(24*time.Hour)
		if _, err := k.apply(lease.Ask{Request: &r}, now); err != nil {
			t.Fatal(err)
		}
	}
	k.effects = k.effects[:0]
	for _, r := range []lease.Request{want("small", 1, of(3)), want("limited", 1, timed(time.Minute), of(3))} {
		from := k.ahead.Looked()
		if k.aheadOf(&r); k.ahead.Looked()-from > 100 {
			t.Errorf("%s: it looks at %d", r.ID, k.ahead.Looked()-from)
		}
	}
}

// Behind many requests whose start is unknown each grant takes many looks. So one round
// grants some of those that fit, and the next ones the others. While the journal refuses
// the grants, the clerk tries them again now and then, and not all the time.
func TestManyGrantsBehindUnknownStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const unknown, small = 300, 60
		w := newWorld()
		w.settings.Pass = true
		slotsOf(w, 5000)
		var tries atomic.Int64
		w.wrap = func(j journal.Journal) journal.Journal {
			return &seen{&fragile{j, w}, func() {
				if tries.Add(1) > 1000 { // no time passes any more
					w.fail(nil, false)
				}
			}}
		}
		k := w.start(t)
		k.device(0, 143_771)
		k.grant(want("endless", 50_000, of(60)))
		k.grant(want("full", 80_000, of(61)))
		leave := k.sit()
		now := time.Now()
		ask := func(id string, memory gpu.MiB, i int) {
			r := want(id, memory, of(i%8))
			r.GPUs, r.Requested, r.Deadline = 1, now.Add(time.Duration(i)), now.Add(24*time.Hour)
			if _, err := k.apply(lease.Ask{Request: &r}, now); err != nil {
				t.Fatal(err)
			}
		}
		for i := range unknown {
			ask(fmt.Sprint("w-", i), gpu.MiB(100_000-i), i)
		}
		for i := range small {
			ask(fmt.Sprint("s-", i), 30_000/small, unknown+i)
		}
		k.effects = k.effects[:0]
		for more := true; more; {
			from := k.ahead.Looked()
			if more = k.serve(now); k.ahead.Looked()-from > mostLooked+2*(unknown+small) {
				t.Errorf("one round takes %d looks", k.ahead.Looked()-from)
			}
		}
		k.undo(0)
		leave()
		w.fail(errFull, true)
		k.give("full", 61)
		time.Sleep(10 * retry)
		synctest.Wait() // for a try of this moment
		if tries.Load() > 100 || len(k.leases()) != 1 {
			t.Errorf("the journal refused %d times, and %q stand", tries.Load(), k.leases())
		}
		w.fail(nil, false)
		time.Sleep(2 * retry)
		synctest.Wait()
		if stand := len(k.leases()); stand != 1+small {
			t.Errorf("%d leases stand, want %d", stand, 1+small)
		}
		k.die(func() {})
	})
}
