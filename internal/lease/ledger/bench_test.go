package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease"
)

// onDisk makes a world whose journal is in real files.
func onDisk(b *testing.B) *world {
	w := newWorld()
	w.real = file.PrivateDir(b.TempDir())
	return w
}

// percentiles reports how long something took.
func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	for _, p := range []struct {
		name  string
		share float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"max", 1}} {
		at := min(int(p.share*float64(len(took))), len(took)-1)
		b.ReportMetric(float64(took[at].Microseconds()), p.name+"-µs")
	}
}

// What it takes from a release until the next one in the queue knows, with so
// many waiting for different amounts, and the disk waited for.
func BenchmarkHandOver(b *testing.B) {
	for _, waiting := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("%d-waiting", waiting), func(b *testing.B) {
			k := onDisk(b).start(b)
			for i := range 8 {
				k.device(i, 100)
			}
			ctx, leave := context.WithCancel(b.Context())
			defer leave()
			k.grant(want("first", 100, at(dev(0))))
			for i := 1; i < 8; i++ { // room that is held back for those at the front
				k.grant(want(fmt.Sprintf("other-%d", i), 30, at(dev(i))))
			}
			granted := make(chan string, waiting+b.N)
			random := rand.New(rand.NewPCG(1, 2))
			ask := func(n int) {
				r := want(fmt.Sprintf("w-%d", n), gpu.MiB(71+random.IntN(29)), wait(time.Hour), of(n%5))
				go func() {
					if l, err := k.Acquire(ctx, r); err == nil {
						granted <- l.ID
					}
				}()
				k.told(gpu.EventWaiting, r.ID)
			}
			for n := range waiting {
				ask(n)
			}
			var took []time.Duration
			holder, n := "first", waiting
			for b.Loop() {
				begun := time.Now()
				if _, err := k.Release(ctx, byID(holder), 0, access.Daemon()); err != nil {
					b.Fatal(err)
				}
				holder = <-granted
				took = append(took, time.Since(begun))
				ask(n)
				n++
			}
			percentiles(b, took)
		})
	}
}

// What it takes from the end of a holder until its lease is with the next one.
func BenchmarkHolderKilled(b *testing.B) {
	k := onDisk(b).start(b)
	k.device(0, 100)
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		holder := child(b)
		k.grant(want(fmt.Sprintf("a-%d", n), 100, k.bound(holder.Process.Pid)))
		next := fmt.Sprintf("b-%d", n)
		waits := k.queue(b.Context(), want(next, 100, wait(time.Hour)))
		b.StartTimer()
		begun := time.Now()
		if err := holder.Process.Kill(); err != nil {
			b.Fatal(err)
		}
		if d := <-waits; d.err != nil {
			b.Fatal(d.err)
		}
		took = append(took, time.Since(begun))
		b.StopTimer()
		k.give(next, 1)
		b.StartTimer()
	}
	percentiles(b, took)
}

// A grant and its release, by one client and by many.
func BenchmarkGrantAndRelease(b *testing.B) {
	for _, binding := range []string{"process", "named"} {
		b.Run(binding, func(b *testing.B) {
			k := onDisk(b).start(b)
			for i := range 8 {
				k.device(i, 1<<20)
			}
			hold := func(*lease.Request) {}
			if binding == "process" {
				hold = k.bound(os.Getpid())
			}
			var clients atomic.Int64
			b.SetParallelism(32)
			b.RunParallel(func(p *testing.PB) {
				r := want(fmt.Sprintf("c-%d", clients.Add(1)), 64, hold)
				for p.Next() {
					k.grant(r)
					k.give(r.ID, 1)
				}
			})
		})
	}
}

// One look at a queue of which nobody can be served: most would fit, and would
// delay the first.
func BenchmarkServeHeldBack(b *testing.B) {
	for _, waiting := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("%d-waiting", waiting), func(b *testing.B) {
			k := newWorld().start(b)
			for i := range 8 {
				k.device(i, 100)
				k.grant(want(fmt.Sprintf("holder-%d", i), 30, at(dev(i))))
			}
			ctx, leave := context.WithCancel(b.Context())
			defer leave()
			random := rand.New(rand.NewPCG(1, 2))
			begun := time.Now()
			for n := range waiting {
				memory := gpu.MiB(1 + random.IntN(70))
				if n == 0 {
					memory = 100
				}
				k.queue(ctx, want(fmt.Sprintf("w-%d", n), memory, wait(time.Hour), of(n%5), priority(-n)))
			}
			b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms-to-queue")
			for b.Loop() {
				k.Ledger.mu.Lock()
				k.dirty = true
				k.serve(time.Now())
				k.Ledger.mu.Unlock()
			}
		})
	}
}

// What a look ahead takes with so many leases that end and so many requests that wait.
func BenchmarkForesee(b *testing.B) {
	k := newWorld().start(b)
	for i := range 16 {
		k.device(i, 1000)
	}
	ctx, leave := context.WithCancel(b.Context())
	defer leave()
	for i := range 200 {
		k.grant(want(fmt.Sprintf("held-%d", i), 60, at(dev(i%16))))
	}
	for i := range 50 {
		k.queue(ctx, want(fmt.Sprintf("waits-%d", i), 900, wait(time.Hour)))
	}
	now := time.Now()
	for name, come := range map[string]Demand{"nobody comes": Nobody, "they ask again": Again} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				k.Foresee(now, func(_ *lease.Lease, lasted time.Duration) (time.Duration, bool) { return 2*time.Hour - lasted, true }, come)
			}
		})
	}
}
