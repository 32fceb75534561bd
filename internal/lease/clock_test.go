package lease_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// read returns what time.Now returns at a moment if the clock was set by off before. The
// second word of a Time from there is its monotonic reading, which stays.
func read(now time.Time, off time.Duration) time.Time {
	t := now.Add(off)
	(*[2]int64)(unsafe.Pointer(&t))[1] -= int64(off)
	return t
}

// The queue stays an order whatever clocks its times are of: with a monotonic reading or
// without, before and after somebody sets the clock.
func TestQueueWithTimesOfAllClocks(t *testing.T) {
	start := time.Now()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 4))
		b, off := lease.New(), time.Duration(0)
		var waits []string
		for n := range 60 {
			if random.IntN(10) == 0 {
				off = time.Duration(random.IntN(7)-3) * 30 * time.Minute
			}
			now := start.Add(time.Duration(n) * time.Minute)
			requested := read(now, off)
			if random.IntN(2) == 0 {
				requested = requested.Round(0).Add(-time.Duration(random.IntN(60)) * time.Minute)
			}
			if random.IntN(3) == 0 && len(waits) > 0 {
				i := random.IntN(len(waits))
				k := lease.Key{Owner: lease.Owner{UID: 1}, ID: waits[i]}
				if _, err := b.Apply(lease.Withdraw{Key: k, By: access.Daemon()}, now); err != nil {
					t.Fatal(err)
				}
				waits = slices.Delete(waits, i, i+1)
				continue
			}
			r := &lease.Request{
				ID: fmt.Sprint("r", n), Holder: lease.Holder{User: "u", UID: 1}, By: access.Daemon(), Binding: lease.ByName, GPUs: 1, Memory: gpu.MiB(n + 1),
				Terms: lease.Terms{EnforcedBy: "none"}, Requested: requested, Deadline: requested.Add(time.Hour),
			}
			if _, err := b.Apply(lease.Ask{Request: r}, now); err != nil {
				t.Fatal(err)
			}
			waits = append(waits, r.ID)
			if random.IntN(10) == 0 {
				b.Shift(off)
			}
		}
		for place, r := range b.Waiting() {
			if got := b.Position(r); got != place+1 {
				t.Fatalf("seed %d: %s is at %d, and stands at %d", seed, r.ID, got, place+1)
			}
		}
		if got := len(b.Waiting()); got != len(waits) {
			t.Fatalf("seed %d: %d wait, want %d", seed, got, len(waits))
		}
	}
}
