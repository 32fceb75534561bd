package ledger

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// sizes are the ways in which the sizes of waiting requests can follow each
// other. All of them are from 7,843 to 143,000 MiB.
var sizes = map[string]func(i, n int) gpu.MiB{
	"falling": func(i, n int) gpu.MiB { return gpu.MiB(143_000 - i*135_157/n) },
	"rising":  func(i, n int) gpu.MiB { return gpu.MiB(7_843 + i*135_157/n) },
	"equal":   func(int, int) gpu.MiB { return 50_000 },
	"random":  func(i, n int) gpu.MiB { return gpu.MiB(7_843 + rand.New(rand.NewPCG(uint64(i), 7)).IntN(135_157)) },
}

// sit keeps everybody else from the book until the function that it returns is called.
func (k *keeper) sit() (leave func()) {
	k.seat <- struct{}{}
	k.Ledger.mu.Lock()
	return func() { k.Ledger.mu.Unlock(); <-k.seat }
}

// longQueue is a ledger with four devices, of which a part is leased, and n
// requests of as many users that wait for the rest.
func longQueue(t tester, n, users int, size func(i, n int) gpu.MiB) *keeper {
	w := newWorld()
	w.settings.Device = func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 1000} }
	k := w.start(t)
	for i := range 4 {
		k.device(i, 143_771)
		k.grant(want(fmt.Sprint("holder-", i), 50_000, at(dev(i)), of(60)))
	}
	defer k.sit()()
	now := time.Now()
	for i := range n {
		r := want(fmt.Sprint("w-", i), size(i, n), of(i%users))
		r.GPUs, r.Requested, r.Deadline = 1, now.Add(time.Duration(i)), now.Add(time.Hour)
		k.waiters[&r] = &waiter{request: &r, done: make(chan outcome, 1)}
		if _, err := k.apply(lease.Ask{Request: &r}, now); err != nil {
			t.Fatal(err)
		}
	}
	k.effects = k.effects[:0]
	return k
}

// inLanes puts every request into a lane of its own, and a tiny one behind them, so
// that it takes long until nobody can pass any more.
func inLanes(k *keeper) {
	defer k.sit()()
	now := time.Now()
	for i, r := range slices.Clone(k.book.Waiting()) {
		_, _ = k.apply(lease.Withdraw{Key: r.Key(), By: access.Daemon()}, now)
		alone := *r
		if alone.Priority = -i; i == len(k.waiters)-1 {
			alone.Memory = 1
		}
		_, _ = k.apply(lease.Ask{Request: &alone}, now)
	}
	k.effects = k.effects[:0]
}

// BenchmarkLongQueue measures what root's acquire and release cost while many
// wait.
func BenchmarkLongQueue(b *testing.B) {
	for _, how := range []string{"falling", "rising", "equal", "random", "lanes"} {
		for _, n := range []int{0, 192, 768, 3072, 12_288} {
			b.Run(fmt.Sprintf("%s/%d-waiting", how, n), func(b *testing.B) {
				size := sizes[how]
				if how == "lanes" {
					size = sizes["falling"]
				}
				k := longQueue(b, n, 48, size)
				if how == "lanes" {
					inLanes(k)
				}
				k.grant(want("first", 1, of(70), priority(1)))
				k.give("first", 70)
				for b.Loop() {
					k.grant(want("root", 1, of(70), priority(1)))
					k.give("root", 70)
				}
			})
		}
	}
}

// longest is how many wait in the longest queue whose work TestWorkOfALongQueue
// counts.
var longest = flag.Int("ledger.waiting", 4096, "requests that wait in the longest queue")

// The work of a queue grows at most with n log n: while n requests wait, n changes
// take so much work in all. The work is counted, not timed: requests that the
// ledger looks at, comparisons between them, and steps to find out who may pass.
func TestWorkOfALongQueue(t *testing.T) {
	for how, size := range sizes {
		for _, users := range []int{1, 48} {
			t.Run(fmt.Sprintf("%s, %d users", how, users), func(t *testing.T) {
				t.Parallel()
				first := 0.0 // work for a change
				for _, n := range []int{192, 1536, *longest} {
					per := workOfChanges(t, n, users, size) / math.Log2(float64(n))
					if first == 0 {
						first = per
					}
					if per > 3*max(first, float64(users)) {
						t.Errorf("with %d waiting a change takes %.0f log n, and with fewer %.0f", n, per, first)
					}
				}
			})
		}
	}
}

// Why one request times out is found without sorting all others.
func TestTimeOutSortsNobodyElse(t *testing.T) {
	for _, users := range []int{1, 48} {
		work := func(n int) int {
			k := longQueue(t, n, users, sizes["equal"])
			defer k.die(func() {}) // what waits is not in the journal
			defer k.sit()()
			k.dirty = true
			k.serve(time.Now()) // some fit
			before := k.book.Work() + k.ahead.Looked()
			for i := range 16 {
				at := 8 + i*n/16
				w := want(fmt.Sprint("w-", at), 0, of(at%users))
				late := k.waiters[k.book.Request(w.Key())]
				k.explainTimeOuts([]lease.Change{lease.TimeOut{Key: late.request.Key()}})
				if late.refusal == nil {
					t.Fatalf("nothing is in the way of %s", late.request.ID)
				}
			}
			return k.book.Work() + k.ahead.Looked() - before
		}
		if few, many := work(500), work(4000); many > 2*few {
			t.Errorf("%d users: with 4,000 waiting it takes %d, and with 500 %d", users, many, few)
		}
	}
}

// When there is room for many at once, others have the book in between.
func TestManyAreGrantedInTurns(t *testing.T) {
	for _, users := range []int{1, 48, 3000} {
		k := longQueue(t, 3000, users, func(int, int) gpu.MiB { return 1 })
		defer k.die(func() {}) // the grants are not in the journal
		defer k.sit()()
		k.dirty = true
		granted, turns, one := 0, 0, 3*users // what it takes at most to order the users for a grant
		for more := true; more; turns++ {
			k.effects = k.effects[:0]
			before := k.book.Work() + k.ahead.Looked()
			more = k.serve(time.Now())
			granted += len(k.effects)
			if work := k.book.Work() + k.ahead.Looked() - before; len(k.effects) > mostLooked+1 || work > mostLooked*comparedInALook+one {
				t.Errorf("%d users: %d are granted at a time, with %d comparisons", users, len(k.effects), work)
			}
		}
		if granted <= mostLooked {
			t.Errorf("%d users: %d are granted in %d turns", users, granted, turns)
		}
	}
}

// workOfChanges returns the work that a change takes on average while n requests
// wait: one asks, one withdraws, somebody who need not wait comes and goes, a lease
// ends, and a device is measured.
func workOfChanges(t *testing.T, n, users int, size func(i, n int) gpu.MiB) float64 {
	k := longQueue(t, n, users, size)
	defer k.die(func() {}) // the changes are not in the journal
	defer k.sit()()
	now := time.Now()
	k.dirty = true
	k.serve(now)
	before, changes := k.book.Work()+k.ahead.Looked(), 0
	change := func(c lease.Change) {
		k.effects = k.effects[:0]
		if _, err := k.apply(c, now); err != nil {
			t.Fatal(err)
		}
		k.serve(now)
		changes++
	}
	for i := range 32 {
		late := want(fmt.Sprint("late-", i), size(i, 32), of(i%users))
		late.GPUs, late.Requested, late.Deadline = 1, now, now.Add(time.Hour)
		change(lease.Ask{Request: &late})
		from := k.book.Work()
		waiting := k.book.Waiting()
		before += k.book.Work() - from // all are sorted for this test alone
		change(lease.Withdraw{Key: waiting[(i*7919)%len(waiting)].Key(), By: access.Daemon()})
		root := want("root", 1, of(70))
		root.GPUs, root.Priority, root.Requested, root.Deadline = 1, 1, now, now.Add(time.Hour)
		change(lease.Ask{Request: &root})
		if k.book.Lease(root.Key()) == nil {
			t.Fatal("root waits")
		}
		change(lease.Release{Key: root.Key(), By: access.Daemon()})
		leases := k.book.Leases()
		change(lease.Release{Key: leases[i%len(leases)].Key(), By: access.Daemon()})
		k.dirty = true // as after a measurement
		k.serve(now)
		changes++
	}
	return float64(k.book.Work()+k.ahead.Looked()-before) / float64(changes)
}
