package ledger

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// atRest takes a look at all that waits, and fails if that changes anything or wants another
// look.
func (k *keeper) atRest(when string) {
	k.t.Helper()
	defer k.sit()()
	k.effects, k.dirty = k.effects[:0], true
	before := k.ahead.Looked()
	_, waiting := k.book.Len()
	more := k.serve(time.Now())
	if looks := k.ahead.Looked() - before; more || k.stale || len(k.effects) > 0 || looks > 2*waiting {
		k.t.Fatalf("%s: %d requests that wait cost %d looks and %d effects; to be charged again: %v, another round: %v",
			when, waiting, looks, len(k.effects), k.stale, more)
	}
}

// What waits and cannot be granted costs a look with each change, and nothing in between.
func TestABookAtRestDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.cast = cast{first: runs(1, "python")}
		w.changed = func(*lease.Effect) {} // somebody else ends leases
		w.settings.Device = func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 4} }
		k := w.start(t)
		k.device(0, 100)
		held := func(r *lease.Request) { r.Holder.PID, r.Holder.Start, r.Holder.Boot = first, 1, k.boot }
		k.grant(want("parent", 50, slots(1), timed(2*time.Second), held))
		k.grant(want("grows", 10, of(2)))
		k.device(0, 100, used(first, 45))
		k.queue(t.Context(), want("large", 90, of(3), wait(time.Hour)))
		k.queue(t.Context(), want("child", 10, under("parent"), wait(time.Hour)))
		go func() { _, _ = k.Resize(t.Context(), byID("grows"), 0, 95, by(2), nil, time.Hour) }()
		synctest.Wait()
		k.atRest("the parent uses its memory")
		time.Sleep(1500 * time.Millisecond)
		k.device(0, 100, used(first, 5))
		k.atRest("the parent is in its last second")
		time.Sleep(time.Second)
		k.atRest("the time of the parent is over")
		k.give("parent", 1)
		synctest.Wait()
		k.atRest("the parent has ended")
		k.die(func() {})
	})
}

// When a lease takes over what its process used, that frees what was taken for foreign: for
// the next one that waits, too, and without another change.
func TestWhatALeaseTakesOverLetsTheNextOneIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.cast = cast{first: runs(1, "python")}
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("full", 50, of(2)))
		k.device(0, 100, used(first, 50))
		held := func(r *lease.Request) { r.Holder.PID, r.Holder.Start, r.Holder.Boot = first, 1, k.boot }
		k.queue(t.Context(), want("first", 50, held, wait(time.Hour)))
		k.queue(t.Context(), want("second", 50, of(3), wait(time.Hour)))
		k.give("full", 2)
		synctest.Wait()
		if waiting := k.waiting(); len(waiting) > 0 {
			t.Errorf("%v wait, and %s are available", waiting, k.Sum(dev(0)).Available())
		}
	})
}
