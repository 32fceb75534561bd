package ledger

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
)

// repeated makes a request one whose answer never came.
func repeated(r *lease.Request) { r.Repeated = true }

// endings are the ways in which a ledger ends.
var endings = map[string]func(*world, *keeper){
	"stopped": func(_ *world, k *keeper) { k.stop() },
	"killed":  func(w *world, k *keeper) { k.die(w.disk.Kill) },
}

// Whoever waits has the same place and age after a restart. A place that nobody comes
// back for holds back those behind it for ten seconds, as the rules say, and no longer.
func TestPlacesSurviveTheLedger(t *testing.T) {
	for how, end := range endings {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				k := w.start(t)
				k.device(0, 100)
				k.grant(want("holder", 60))
				asked := time.Now()
				waits := map[string]<-chan decision{
					"big":   k.queue(t.Context(), want("big", 90, wait(time.Hour), timed(time.Hour), of(2))),
					"small": k.queue(t.Context(), want("small", 30, wait(time.Hour), of(2))),
				}
				time.Sleep(time.Minute)
				end(w, k)
				for id, answer := range waits {
					if d := <-answer; !errors.Is(d.err, ErrStopped) {
						t.Errorf("%s was told %v", id, d.err)
					}
				}
				time.Sleep(5 * time.Second) // no daemon

				k = w.start(t)
				k.device(0, 100)
				small := k.queue(t.Context(), want("small", 30, wait(time.Hour), of(2), repeated))
				if got, order := k.waiting(), []string{"big", "small"}; !slices.Equal(got, order) {
					t.Errorf("the queue is %v, want %v", got, order)
				}
				for _, r := range k.View().Waiting {
					if !r.Requested.Equal(asked) || r.Endless() != (r.ID != "big") {
						t.Errorf("%s waits since %s, want %s, for a lease that is endless: %v", r.ID, r.Requested, asked, r.Endless())
					}
				}
				back := time.Now()
				if d := <-small; d.err != nil || time.Since(back) != returnLimit {
					t.Errorf("small got %v, %v after %s", d.lease, d.err, time.Since(back))
				}
				if _, told := k.events[string(gpu.EventTimedOut)+"big"]; told {
					t.Error("a place that was given up was told as a timeout")
				}
			})
		})
	}
}

// A request for a unit is known by its id and its unit after a restart, to whoever may
// speak for its holder: what runs in the unit by then may be another user's, or nothing.
func TestAbsentInUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("holder", 60))
		inUnit := func(r *lease.Request) { r.Unit = "embed.service" }
		k.queue(t.Context(), want("embed", 90, wait(time.Hour), of(2), inUnit))
		if _, waits := k.AbsentInUnit("embed", "embed.service", access.Daemon()); waits {
			t.Error("a request whose client is there is absent")
		}
		k.die(w.disk.Kill)
		k = w.start(t)
		synctest.Wait() // until the places are back
		for _, c := range []struct {
			id, unit string
			by       access.Actor
			waits    bool
		}{
			{"embed", "embed.service", access.Actor{UID: 2, Door: access.Socket, Role: access.User}, true},
			{"embed", "embed.service", access.Actor{UID: 0, Door: access.Socket, Role: access.Admin}, true},
			{"embed", "embed.service", access.Actor{UID: 3, Door: access.Socket, Role: access.User}, false},
			{"embed", "other.service", access.Actor{UID: 2, Door: access.Socket, Role: access.User}, false},
			{"holder", "embed.service", access.Actor{UID: 2, Door: access.Socket, Role: access.User}, false},
		} {
			holder, waits := k.AbsentInUnit(c.id, c.unit, c.by)
			if waits != c.waits || waits && holder.UID != 2 {
				t.Errorf("%s in %s is %+v, %t for user %d", c.id, c.unit, holder, waits, c.by.UID)
			}
		}
	})
}

// One that comes back gets its turn before younger ones, and waits no longer than it
// would have.
func TestComingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("holder", 100))
		old := want("old", 100, wait(time.Hour))
		k.queue(t.Context(), old)
		brief := want("brief", 100, wait(30*time.Second))
		k.queue(t.Context(), brief)
		time.Sleep(20 * time.Second)
		k.die(w.disk.Kill)

		k = w.start(t)
		k.device(0, 100)
		began := time.Now()
		young := k.queue(t.Context(), want("young", 100, wait(time.Hour)))
		repeated(&brief)
		late := k.queue(t.Context(), brief)
		repeated(&old)
		oldest := k.queue(t.Context(), old)
		if got, order := k.waiting(), []string{"old", "brief", "young"}; !slices.Equal(got, order) {
			t.Errorf("the queue is %v, want %v", got, order)
		}
		if d := <-late; d.err == nil || time.Since(began) != 10*time.Second {
			t.Errorf("brief was answered with %v after %s, want a refusal after 10 s", d.err, time.Since(began))
		}
		k.give("holder", 1)
		if d := <-oldest; d.err != nil {
			t.Errorf("old was refused: %v", d.err)
		}
		k.give("old", 1)
		if d := <-young; d.err != nil {
			t.Errorf("young was refused: %v", d.err)
		}
	})
}

// The place belongs to the process that asked: another one of the same user does not get
// it, and it is given up when that process has ended, before the start or after it.
func TestPlacesOfProcesses(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	k.grant(want("holder", 100))
	long := wait(time.Hour)
	gone, dies, lives, other := child(t), child(t), child(t), child(t)
	k.queue(t.Context(), want("gone", 100, long, k.bound(gone.Process.Pid)))
	k.queue(t.Context(), want("dies", 100, long, k.bound(dies.Process.Pid)))
	k.queue(t.Context(), want("lives", 100, long, k.bound(lives.Process.Pid)))
	k.die(w.disk.Kill)
	kill(t, gone)

	k = w.start(t)
	k.device(0, 100)
	if err := k.refused(want("lives", 100, wait(time.Second), repeated, k.bound(other.Process.Pid))); !errors.Is(err, lease.ErrWaiting) {
		t.Errorf("another process was refused with %v", err)
	}
	if got, order := k.waiting(), []string{"dies", "lives"}; !slices.Equal(got, order) {
		t.Errorf("the queue is %v, want %v", got, order)
	}
	lived := k.queue(t.Context(), want("lives", 100, long, k.bound(lives.Process.Pid)))
	kill(t, dies)
	k.give("holder", 1)
	if d := <-lived; d.err != nil {
		t.Errorf("lives was refused: %v", d.err)
	}
}

// An answer that never arrived comes with the next one, for the same process only and
// only if the client says that it asks again.
func TestTheAnswerThatNeverArrived(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	holder, other := child(t), child(t)
	bound, named := k.grant(want("bound", 10, k.bound(holder.Process.Pid))), k.grant(want("named", 10))
	k.die(w.disk.Kill)

	k = w.start(t)
	k.device(0, 100)
	if got := k.grant(want("bound", 10, repeated, k.bound(holder.Process.Pid))); got.Fence != bound.Fence {
		t.Errorf("the process got fence %d, and had %d", got.Fence, bound.Fence)
	}
	if got := k.grant(want("named", 10, repeated)); got.Fence != named.Fence {
		t.Errorf("the named lease has fence %d, and had %d", got.Fence, named.Fence)
	}
	for _, r := range []lease.Request{
		want("bound", 10, repeated, k.bound(other.Process.Pid)),
		want("bound", 10, k.bound(holder.Process.Pid)),
		want("named", 10),
		want("named", 10, repeated, slots(1)),
	} {
		if err := k.refused(r); !errors.Is(err, lease.ErrDuplicate) {
			t.Errorf("%+v was refused with %v", r, err)
		}
	}
	if got := k.grant(want("bound", 10, repeated, of(2), k.bound(holder.Process.Pid))); got.Fence == bound.Fence {
		t.Error("another user got the lease")
	}
}

// The log stays short, whatever waited before.
func TestTheLogOfWaitingRequestsIsCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("holder", 100))
		k.queue(t.Context(), want("stays", 100, wait(100*time.Hour)))
		for i := range compactEntries/2 + 10 {
			if err := k.refused(want(fmt.Sprint("passes-", i), 100, wait(time.Millisecond))); err == nil {
				t.Fatal("granted")
			}
		}
		synctest.Wait()
		if n := k.waits.journal.Stats().LogEntries; n > compactEntries/2 {
			t.Errorf("the log has %d entries", n)
		}
		k.die(w.disk.Kill)
		k = w.start(t)
		synctest.Wait()
		if got := k.waiting(); !slices.Equal(got, []string{"stays"}) {
			t.Errorf("after a restart %v wait", got)
		}
	})
}
