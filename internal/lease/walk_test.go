package lease

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// sortedSlowly is the order of the queue by its definition: all requests, sorted.
func sortedSlowly(b *Book) []*Request {
	var all []*waiter
	for w := range b.waiting.all {
		all = append(all, w)
	}
	share := func(r *Request) float64 {
		if set, is := b.shares[r.Key()]; is {
			return set
		}
		return userShare(b, r.Holder.Owner())
	}
	slices.SortFunc(all, func(x, y *waiter) int {
		p, q := x.request, y.request
		return cmp.Or(
			cmp.Compare(q.Priority, p.Priority),
			cmp.Compare(share(p), share(q)),
			cmp.Compare(b.share(b.ServiceUsage(p.Holder.Service)), b.share(b.ServiceUsage(q.Holder.Service))),
			p.Requested.Compare(q.Requested),
			cmp.Compare(x.request.Arrival, y.request.Arrival),
		)
	})
	var requests []*Request
	for _, w := range all {
		requests = append(requests, w.request)
	}
	return requests
}

// Over random histories, the queue is always in the order of a plain sort, and
// every request knows its position in it.
func TestQueueIsSorted(t *testing.T) {
	check(t, func(h *history) {
		h.after = func(h *history, e Effect, _ map[string]gpu.MiB) {
			want := sortedSlowly(h.book)
			if got := h.book.Waiting(); !slices.Equal(got, want) {
				h.Fatalf("after %s the queue is %v, want %v", e.Kind, ids(got), ids(want))
			}
			for i, r := range want {
				if got := h.book.Position(r); got != i+1 {
					h.Fatalf("%s is number %d in the queue, want %d", r.ID, got, i+1)
				}
			}
		}
		h.run(60)
	})
}

func ids(requests []*Request) (list []string) {
	for _, r := range requests {
		list = append(list, r.ID)
	}
	return list
}

// A walk with a bound leaves out exactly those beyond it, and one that leaves a
// lane leaves out exactly the rest of that lane.
func TestWalkLeavesOut(t *testing.T) {
	check(t, func(h *history) {
		for range 40 {
			h.ask(h.drawRequest())
		}
		h.run(20)
		most := Load{Memory: gpu.MiB(h.draw("most", 0, 6)), Slots: h.draw("most", 0, 2)}
		other := h.draw("other", 0, 1) == 1
		lanes := map[lane]bool{} // whether the walk goes on in it
		last := map[lane]Load{}
		var want []*Request
		for _, r := range h.book.Waiting() {
			goesOn, known := lanes[h.book.lane(r)]
			if !known {
				goesOn = h.draw("leave", 0, 3) > 0
				lanes[h.book.lane(r)] = goesOn
			}
			if !known || goesOn && r.Load().Within(most) && !(other && last[h.book.lane(r)] == r.Load()) {
				want = append(want, r)
				last[h.book.lane(r)] = r.Load()
			}
		}
		var w Walk
		h.book.Walk(&w)
		var got []*Request
		for r := w.Request(); r != nil; r = w.Request() {
			for _, other := range h.book.Waiting() {
				if before := h.book.Position(r) < h.book.Position(other); h.book.Compare(r, other) < 0 != before {
					h.Fatalf("%s is before %s: %v", r.ID, other.ID, !before)
				}
			}
			got = append(got, r)
			switch {
			case !lanes[h.book.lane(r)]:
				w.Leave()
			case other:
				w.NextOther(most)
			default:
				w.Next(most)
			}
		}
		if !slices.Equal(got, want) {
			h.Fatalf("the walk went to %v, want %v", ids(got), ids(want))
		}
		if h.book.Walk(&w); w.Request() != nil && h.book.Compare(w.Request(), &Request{ID: "nobody"}) >= 0 {
			h.Fatal("a request that does not wait is in the queue")
		}
	})
}

// The work of a queue in which each of n requests comes, is looked at and leaves
// while shares change grows at most with n log n, however many users wait.
// Comparisons are counted, and so is everybody whom a walk looks at.
func TestWorkOfTheQueue(t *testing.T) {
	for _, users := range []int{1, 48} {
		t.Run(fmt.Sprintf("%d users", users), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			work := func(n int) float64 {
				b := newBook(t, Capacity{Total: 1 << 24, MaxPipelines: 1 << 15, Usable: 1 << 15})
				for i := range n {
					r := ask(fmt.Sprint("w-", i))
					r.Holder.User, r.Holder.UID = fmt.Sprint("user", i%users), i%users
					r.Memory, r.Requested = gpu.MiB(1+random.IntN(1000)), noon.Add(time.Duration(i))
					apply(t, b, Ask{r}, noon)
				}
				before := b.Work()
				var w Walk
				for range n {
					b.Walk(&w)
					first := w.Request()
					apply(t, b, Grant{Lease: first.Lease(dev(0))}, noon)
				}
				if err := b.Check(); err != nil {
					t.Fatal(err)
				}
				return float64(b.Work()-before) + float64(n)
			}
			least := math.Inf(1) // work per n log n
			for _, n := range []int{256, 1024, 4096, 12288} {
				per := work(n) / (float64(n) * math.Log2(float64(n)))
				if least = min(least, per); per > 2*least {
					t.Errorf("%d requests took %.1f n log n, and fewer took %.1f", n, per, least)
				}
			}
		})
	}
}
