package ledger

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/when"
)

// wall is a clock that can be set, and a machine that can sleep.
type wall struct{ off, slept atomic.Int64 }

func (w *wall) clock() when.Clock {
	start := time.Now()
	return when.Clock{
		Wall:   func() time.Time { return time.Now().Add(time.Duration(w.slept.Load() + w.off.Load())) },
		Passed: func() time.Duration { return time.Since(start) + time.Duration(w.slept.Load()) },
	}
}

func (w *wall) set(by time.Duration) { w.off.Add(int64(by)) }

// history does the same things at the same moments, whatever becomes of the clock, and
// returns what came of them, and when.
func history(t *testing.T, seed uint64, clock *wall, steps bool) (happened []string) {
	w := newWorld()
	w.clock = clock.clock()
	began := time.Now()
	w.changed = func(e *lease.Effect) {
		id := ""
		if e.Request != nil {
			id = e.Request.ID
		} else {
			id = e.Lease().ID
		}
		happened = append(happened, fmt.Sprint(time.Since(began).Round(time.Millisecond), " ", e.Kind, " ", id))
	}
	k := w.start(t)
	for i := range 2 {
		k.device(i, 100)
	}
	random := rand.New(rand.NewPCG(seed, 48))
	for n := range 40 {
		id := fmt.Sprint("l", random.IntN(12))
		change := []func(*lease.Request){of(random.IntN(3)), wait(time.Duration(random.IntN(4)) * 20 * time.Minute)}
		if random.IntN(2) == 0 {
			change = append(change, ttl(time.Duration(1+random.IntN(60))*time.Minute))
		}
		if random.IntN(3) == 0 {
			change = append(change, timed(time.Duration(1+random.IntN(120))*time.Minute))
		}
		if random.IntN(4) == 0 { // it began to wait at an earlier daemon
			since := w.clock.Now().Add(-time.Duration(random.IntN(60)) * time.Minute)
			change = append(change, func(r *lease.Request) { r.Since = since })
		}
		do, memory, pause, step := random.IntN(8), gpu.MiB(10+random.IntN(90)), time.Duration(random.Int64N(int64(15*time.Minute))), random.IntN(3)
		switch key, err := k.Seek(access.Daemon(), access.Look, byID(id)); {
		case do < 5:
			go func() { _, _ = k.Acquire(t.Context(), want(id, memory, change...)) }()
		case err != nil:
		case do == 5:
			_, _ = k.Release(t.Context(), byID(id), 0, access.Daemon())
		case do == 6:
			_, _ = k.Renew(t.Context(), byID(id), 0, 0, access.Daemon(), nil)
		default:
			if _, err := k.Park(t.Context(), key, 0, access.Daemon(), ""); err != nil {
				go func() { _, _ = k.Return(t.Context(), key, 0, access.Daemon(), "", time.Time{}, gpu.Some(time.Hour)) }()
			}
		}
		synctest.Wait()
		if steps && step == 0 {
			clock.set([]time.Duration{-time.Hour, time.Hour, -25 * time.Hour, 90 * time.Second}[n%4])
		}
		time.Sleep(pause)
	}
	time.Sleep(4 * time.Hour)
	synctest.Wait()
	k.stop()
	return happened
}

// Nothing comes sooner or later, and nobody before or after others, because somebody sets
// the clock.
func TestHistoriesWithAClockThatIsSet(t *testing.T) {
	for seed := range uint64(60) {
		var as, with []string
		synctest.Test(t, func(t *testing.T) { as = history(t, seed, &wall{}, false) })
		synctest.Test(t, func(t *testing.T) { with = history(t, seed, &wall{}, true) })
		if !slices.Equal(as, with) {
			t.Fatalf("seed %d: it was\n%q\nand with a clock that is set\n%q", seed, as, with)
		}
	}
}

// What is shown goes by the clock as it is now.
func TestTimesMoveWithTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, clock := newWorld(), &wall{}
		w.clock = clock.clock()
		k := w.start(t)
		k.device(0, 100)
		shifted := time.Duration(0)
		k.hooks.Shifted = func(by time.Duration) { shifted += by }
		k.grant(want("full", 100, ttl(time.Hour), timed(2*time.Hour)))
		waits := k.queue(t.Context(), want("waits", 50, wait(30*time.Minute)))
		time.Sleep(10 * time.Minute)
		clock.set(-time.Hour)
		time.Sleep(clockAgain) // nothing happens, and the clerk looks at the clock
		synctest.Wait()
		if shifted != -time.Hour {
			t.Errorf("others move their times by %v", shifted)
		}
		now := w.clock.Now()
		full, _ := k.Find(k.only("full"))
		if got := now.Sub(full.Granted); got != 11*time.Minute {
			t.Errorf("it was granted %v ago", got)
		}
		if got := full.Expires.Sub(now); got != 49*time.Minute {
			t.Errorf("it expires in %v", got)
		}
		r, _, _ := k.FindWaiting(k.only("waits"))
		if got := now.Sub(r.Requested); got != 11*time.Minute {
			t.Errorf("the other has waited for %v", got)
		}
		asked := time.Now()
		if d := <-waits; d.err == nil || time.Since(asked) != 19*time.Minute {
			t.Errorf("the other got %+v, %v after %v", d.lease, d.err, time.Since(asked))
		}
	})
}

// Time that the machine sleeps counts, and what came due meanwhile is done soon after.
func TestWhatComesDueWhileTheMachineSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, clock := newWorld(), &wall{}
		w.clock = clock.clock()
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 100, ttl(time.Hour)))
		clock.slept.Add(int64(2 * time.Hour))
		time.Sleep(clockAgain)
		synctest.Wait()
		if got := k.leases(); len(got) > 0 {
			t.Errorf("%q stand", got)
		}
	})
}

// A lease lasts as long as it would have, and a place in the queue is kept, whether the
// clock is set before a daemon ends or while none runs.
func TestClockIsSetAroundARestart(t *testing.T) {
	for _, c := range []struct{ before, between, lasts time.Duration }{
		{before: -time.Hour, lasts: 50 * time.Minute},
		{before: time.Hour, lasts: 50 * time.Minute},
		{between: -time.Hour, lasts: time.Hour}, // nobody knows better than after a renewal
		{between: -1000 * time.Hour, lasts: time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, clock := newWorld(), &wall{}
			w.clock = clock.clock()
			k := w.start(t)
			k.device(0, 100)
			k.grant(want("a", 100, ttl(time.Hour)))
			answer := k.queue(t.Context(), want("b", 50, wait(30*time.Minute)))
			clock.set(c.before)
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			k.stop()
			<-answer
			clock.set(c.between)
			k = w.start(t)
			k.device(0, 100)
			began := time.Now()
			again := k.queue(t.Context(), want("b", 50, wait(2*time.Hour), func(r *lease.Request) { r.Repeated = true }))
			if r, _, waits := k.FindWaiting(k.only("b")); !waits || r.Deadline.Sub(w.clock.Now()) > 30*time.Minute || r.Requested.After(w.clock.Now()) {
				t.Errorf("%+v: it waits for %v from %v", c, r.Deadline.Sub(w.clock.Now()), r.Requested)
			}
			<-again
			k.told(gpu.EventExpired, "a")
			if got := time.Since(began); got != c.lasts {
				t.Errorf("%+v: the lease lasts for %v", c, got)
			}
			if held, stands := k.Find(lease.Key{Owner: lease.Owner{UID: 1}, ID: "a"}); stands {
				t.Errorf("%+v: %+v", c, held)
			}
		})
	}
}

// The times in the journal follow a clock that is set as soon as the disk takes them.
func TestJournalFollowsTheClockWhenTheDiskHasRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, clock := newWorld(), &wall{}
		w.clock = clock.clock()
		full := &fullOnce{}
		w.wrap = func(j journal.Journal) journal.Journal { full.Journal = j; return full }
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 10))
		clock.set(time.Hour)
		k.grant(want("b", 10))
		time.Sleep(2 * compactRetry)
		k.grant(want("c", 10))
		synctest.Wait()
		if tries := full.tries.Load(); tries != 2 {
			t.Errorf("it was tried %d times, want 2", tries)
		}
	})
}

// fullOnce is a journal that cannot be made shorter the first time.
type fullOnce struct {
	journal.Journal
	tries atomic.Int32
}

func (f *fullOnce) Compact(upTo uint64, entries iter.Seq[[]byte]) error {
	if f.tries.Add(1) == 1 {
		return errFull
	}
	return f.Journal.Compact(upTo, entries)
}
