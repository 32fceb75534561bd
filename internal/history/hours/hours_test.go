package hours

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func after(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

// shelf is a book with what a test puts in it.
type shelf struct {
	held    []ledger.Held
	waiting int
}

func (s *shelf) Standing() []ledger.Held { return s.held }

func (s *shelf) Tallies() map[lease.Party]lease.Tally {
	return map[lease.Party]lease.Tally{{User: "ann"}: {Waiting: s.waiting}}
}

func of(fence uint64, granted float64, memory gpu.MiB) *lease.Lease {
	return &lease.Lease{Fence: fence, Holder: lease.Holder{User: "ann"}, Granted: after(granted), Parts: []lease.Part{{GPU: "GPU-a", Memory: memory}}}
}

func standing(l *lease.Lease, used ...gpu.MiB) ledger.Held {
	h := ledger.Held{Lease: l, Measured: make([]gpu.Opt[gpu.MiB], len(l.Parts))}
	for i, u := range used {
		h.Measured[i] = gpu.Some(u)
	}
	return h
}

func check(t *testing.T, h *Hours, want Sum) {
	t.Helper()
	if diff := cmp.Diff(want, h.Users()["ann"]); diff != "" {
		t.Errorf("the sums (-want +got):\n%s", diff)
	}
}

func begun() (*Hours, *shelf) {
	h, book := New(func(p lease.Party) lease.Party { return p }), &shelf{}
	h.Look(noon, book)
	return h, book
}

// A lease counts from its grant to its end, wherever the looks are.
func TestLeasesBetweenLooks(t *testing.T) {
	h, book := begun()
	short, long := of(1, 2, 100), of(2, 4, 1000)
	h.Changed(&lease.Effect{Kind: lease.Granted, Time: after(2), After: short})
	h.Changed(&lease.Effect{Kind: lease.Released, Time: after(5), Before: short})
	book.held = []ledger.Held{standing(long, 600)}
	h.Look(after(10), book)
	check(t, h, Sum{Leases: 3 + 6, Leased: 300 + 6000, Measured: 6000, Used: 3600})
	book.held = nil
	h.Changed(&lease.Effect{Kind: lease.Expired, Time: after(13), Before: long})
	h.Look(after(20), book)
	check(t, h, Sum{Leases: 12, Leased: 9300, Measured: 9000, Used: 5400})
}

// Of a lease that stood before, only the time since the first look counts.
func TestLeaseOfAnEarlierDaemon(t *testing.T) {
	h, book := New(func(p lease.Party) lease.Party { return p }), &shelf{}
	book.held = []ledger.Held{standing(of(1, -7200, 10))}
	h.Look(noon, book)
	h.Look(after(1), book)
	check(t, h, Sum{Leases: 1, Leased: 10})
}

// A daemon that comes after one that was killed counts from the sums in the file what the
// journal says: leases that stood, ended and began meanwhile, each once.
func TestSumsGoOn(t *testing.T) {
	h, book := begun()
	stood, ended, short := of(1, 0, 100), of(2, 5, 10), of(3, 12, 1000)
	pool, child := of(4, 0, 500), of(5, 14, 200)
	pool.Pool, child.From = true, 4
	resized := of(6, 0, 40)
	larger := of(6, 0, 60)
	book.held = []ledger.Held{standing(stood, 50), standing(ended), standing(pool), standing(resized)}
	h.Look(after(10), book)
	kept := h.Keep()
	was := h.Users()["ann"]
	journal := []lease.Effect{
		{Kind: lease.Granted, Time: after(0), After: stood}, {Kind: lease.Granted, Time: after(0), After: pool}, {Kind: lease.Granted, Time: after(0), After: resized},
		{Kind: lease.Granted, Time: after(5), After: ended},
		{Kind: lease.Granted, Time: after(12), After: short}, {Kind: lease.Released, Time: after(13), Before: short},
		{Kind: lease.Granted, Time: after(14), After: child},
		{Kind: lease.Resized, Time: after(15), Before: resized, After: larger},
	}
	taken := standing(pool)
	taken.InPool = &lease.PoolUse{Size: 500, Taken: 200, Leases: 1}
	now := []ledger.Held{standing(stood), taken, standing(child), standing(larger)}
	start := func(kept Kept, began float64) *Hours {
		again := New(func(p lease.Party) lease.Party { return p })
		again.Recall(kept, after(began), after(-7200))
		for _, e := range journal {
			again.Replay(&e)
		}
		again.Changed(&lease.Effect{Kind: lease.Released, Time: after(began + 1), Before: ended}) // as its process has ended
		again.Look(after(began+2), &shelf{held: now})
		return again
	}
	again := start(kept, 20)
	check(t, again, Sum{
		Leases:   was.Leases + 12 + 11 + 1 + 12 + 8 + 12,
		Leased:   was.Leased + 12*100 + 11*10 + 1*1000 + 12*500 + 5*40 + 7*60,
		Measured: was.Measured, Used: was.Used,
	})
	var times []float64
	again.Missed(func(at time.Time, users, services map[string]Sum) {
		times = append(times, at.Sub(noon).Seconds())
		if grown := users["ann"].Leases - was.Leases; grown < 0 || grown > 0.01 || services[""] != users["ann"] {
			t.Errorf("at the time of the file, the sums were %+v and %+v", users, services)
		}
	})
	if diff := cmp.Diff([]float64{10.001}, times); diff != "" {
		t.Errorf("the times (-want +got):\n%s", diff)
	}
	// Killed again before it has written anything.
	check(t, start(kept, 30), Sum{
		Leases:   was.Leases + 22 + 21 + 1 + 22 + 18 + 22,
		Leased:   was.Leased + 22*100 + 21*10 + 1*1000 + 22*500 + 5*40 + 17*60,
		Measured: was.Measured, Used: was.Used,
	})
	// After a week, its hours are spread.
	week := 7 * 24 * 3600.0
	again = start(kept, week)
	last, n := was.Leases, 0
	again.Missed(func(_ time.Time, users, _ map[string]Sum) {
		grown := users["ann"].Leases - last
		if last = users["ann"].Leases; grown < 0 || grown > 5*601 {
			t.Fatalf("in one step, ann held %.0f s", grown)
		}
		n++
	})
	if sum := again.Users()["ann"].Leases - last; n < 7*24*6-1 || sum < 0 || sum > 5*601 {
		t.Errorf("after %d steps %.0f s are left", n, sum)
	}
	// A clock that was set back, or years ahead: nobody knows for how long.
	for _, began := range []float64{-3600, 3 * 365 * 24 * 3600} {
		if got := start(kept, began).Users()["ann"]; got.Leases-was.Leases > 5*2 {
			t.Errorf("%.0f s later, ann held %.0f s more", began, got.Leases-was.Leases)
		}
	}
	// Sums of those who have nothing go on when they do.
	idle := New(func(p lease.Party) lease.Party { return p })
	idle.Recall(kept, after(20), after(-7200))
	idle.Look(after(20), &shelf{})
	if _, there := idle.Services()["chat"]; there || idle.Keep().Users["ann"] != was || idle.Before(false, "ann") != was {
		t.Errorf("%+v are kept", idle.Keep())
	}
}

// Nobody holds anything of a machine that is off: a daemon that comes after a reboot counts
// from that on.
func TestOffMachine(t *testing.T) {
	h, book := begun()
	process, named := of(1, 0, 100), of(2, 0, 10)
	book.held = []ledger.Held{standing(process), standing(named)}
	h.Look(after(10), book)
	was, day := h.Users()["ann"], 24*3600.0
	again := New(func(p lease.Party) lease.Party { return p })
	again.Recall(h.Keep(), after(day+60), after(day))
	again.Replay(&lease.Effect{Kind: lease.Granted, Time: after(0), After: process})
	again.Replay(&lease.Effect{Kind: lease.Granted, Time: after(0), After: named})
	again.Changed(&lease.Effect{Kind: lease.Released, Time: after(day + 61), Before: process})
	again.Look(after(day+65), &shelf{held: []ledger.Held{standing(named)}})
	check(t, again, Sum{Leases: was.Leases + 61 + 65, Leased: was.Leased + 61*100 + 65*10})
	again.Missed(func(at time.Time, users, _ map[string]Sum) {
		if at.Before(after(day)) {
			t.Errorf("at %v, while the machine was off, the sums were %+v", at, users)
		}
	})
}

// A lease has what it had before it was resized or parked up to then.
func TestChangesOfALease(t *testing.T) {
	h, book := begun()
	small, large, parked := of(1, 0, 100), of(1, 0, 300), of(1, 0, 300)
	parked.State = lease.Parked
	book.held = []ledger.Held{standing(small)}
	h.Look(after(10), book)
	h.Changed(&lease.Effect{Kind: lease.Resized, Time: after(14), Before: small, After: large})
	book.held = []ledger.Held{standing(large)}
	h.Look(after(20), book)
	check(t, h, Sum{Leases: 20, Leased: 14*100 + 6*300})
	h.Changed(&lease.Effect{Kind: lease.WasParked, Time: after(25), Before: large, After: parked})
	book.held = []ledger.Held{standing(parked)}
	h.Look(after(30), book)
	check(t, h, Sum{Leases: 30, Leased: 14*100 + 11*300})
	// Between two looks, it comes back, leaves again, and comes back to end.
	h.Changed(&lease.Effect{Kind: lease.Resumed, Time: after(32), Before: parked, After: large})
	h.Changed(&lease.Effect{Kind: lease.WasParked, Time: after(34), Before: large, After: parked})
	h.Changed(&lease.Effect{Kind: lease.Resumed, Time: after(37), Before: parked, After: large})
	h.Changed(&lease.Effect{Kind: lease.Released, Time: after(38), Before: large})
	book.held = nil
	h.Look(after(40), book)
	check(t, h, Sum{Leases: 38, Leased: 14*100 + 11*300 + 3*300})
}

// A look finds a lease that is parked before it is told, and the lease ends before the next.
func TestALookFindsAChangeFirst(t *testing.T) {
	h, book := begun()
	active, parked := of(1, 0, 300), of(1, 0, 300)
	parked.State = lease.Parked
	book.held = []ledger.Held{standing(active)}
	h.Look(after(10), book)
	book.held = []ledger.Held{standing(parked)}
	h.Look(after(20), book)
	h.Changed(&lease.Effect{Kind: lease.WasParked, Time: after(20), Before: active, After: parked})
	h.Changed(&lease.Effect{Kind: lease.Released, Time: after(28), Before: parked})
	book.held = nil
	h.Look(after(30), book)
	check(t, h, Sum{Leases: 28, Leased: 10 * 300})
}

// What a lease uses is not known of the time in which it is parked.
func TestUseOfAParkedLease(t *testing.T) {
	h, book := begun()
	active, parked := of(1, 0, 300), of(1, 0, 300)
	parked.State = lease.Parked
	book.held = []ledger.Held{standing(active, 200)}
	h.Look(after(10), book)
	h.Changed(&lease.Effect{Kind: lease.WasParked, Time: after(12), Before: active, After: parked})
	h.Changed(&lease.Effect{Kind: lease.Released, Time: after(18), Before: parked})
	book.held = nil
	h.Look(after(20), book)
	check(t, h, Sum{Leases: 18, Leased: 12 * 300, Measured: 12 * 300, Used: 12 * 200})
}

// A lease of an earlier daemon ends while this one looks for the first time: the look does
// not find it any more, and its end is told afterwards.
func TestAnEndAroundTheFirstLook(t *testing.T) {
	for kept, want := range map[float64]float64{0: 1, 10: 8} { // 0: nothing was kept, so it counts from the start of the daemon
		h := New(func(p lease.Party) lease.Party { return p })
		k := Kept{}
		if kept > 0 {
			k.At = after(kept)
		}
		h.Recall(k, after(17), time.Time{})
		h.Replay(&lease.Effect{Kind: lease.Granted, Time: after(5), After: of(1, 5, 100)})
		h.Look(after(20), &shelf{})
		h.Changed(&lease.Effect{Kind: lease.Released, Time: after(18), Before: of(1, 5, 100)})
		h.Look(after(30), &shelf{})
		check(t, h, Sum{Leases: want, Leased: 100 * want})
	}
}

// A pool and the leases from it together have what the pool has.
func TestPoolOverTime(t *testing.T) {
	h, book := begun()
	pool, child := of(1, 0, 1000), of(2, 12, 400)
	pool.Pool, child.From = true, 1
	whole, taken := standing(pool), standing(pool)
	whole.InPool, taken.InPool = &lease.PoolUse{Size: 1000}, &lease.PoolUse{Size: 1000, Taken: 400, Leases: 1}
	book.held = []ledger.Held{whole}
	h.Look(after(10), book)
	h.Changed(&lease.Effect{Kind: lease.Granted, Time: after(12), After: child})
	book.held = []ledger.Held{taken, standing(child)}
	h.Look(after(20), book)
	check(t, h, Sum{Leases: 20 + 8, Leased: 20_000})
	h.Changed(&lease.Effect{Kind: lease.Released, Time: after(27), Before: child})
	book.held = []ledger.Held{whole}
	h.Look(after(30), book)
	check(t, h, Sum{Leases: 30 + 15, Leased: 30_000})
}

// A request waits from when it was made until it is answered; no sum ever gets smaller.
func TestWaiting(t *testing.T) {
	h, book := begun()
	r := &lease.Request{Holder: lease.Holder{User: "ann"}}
	h.Changed(&lease.Effect{Kind: lease.Asked, Time: after(4), Request: r})
	book.waiting = 1
	h.Look(after(10), book)
	check(t, h, Sum{Waiting: 6})
	h.Changed(&lease.Effect{Kind: lease.Granted, Time: after(13), Request: r, After: of(1, 13, 0)})
	h.Changed(&lease.Effect{Kind: lease.Asked, Time: after(15), Request: r})
	book.waiting = 0 // it was withdrawn, and nobody has told yet
	h.Look(after(20), book)
	check(t, h, Sum{Waiting: 6})
	h.Changed(&lease.Effect{Kind: lease.Withdrawn, Time: after(17), Request: r})
	h.Look(after(30), book)
	check(t, h, Sum{Waiting: 6 + 3 + 2})
}

// The longest interval of the monitor is an hour.
func TestLooksThatAreFarApart(t *testing.T) {
	h, book := begun()
	book.held = []ledger.Held{standing(of(1, 600, 1))}
	h.Look(after(3600), book)
	h.Look(after(7201), book)
	check(t, h, Sum{Leases: 6601, Leased: 6601})
}

// Nobody held anything for the time by which somebody has set the clock.
func TestSetClock(t *testing.T) {
	h, book := begun()
	book.held = []ledger.Held{standing(of(1, 0, 1))}
	for _, seconds := range []float64{10, 100_000, 100_010, 20, 30} {
		h.Look(after(seconds), book)
	}
	check(t, h, Sum{Leases: 30, Leased: 30})
}
