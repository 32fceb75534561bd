package ledger

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// alone makes the request one for devices alone.
func alone(r *lease.Request) { r.Exclusive, r.Slots = true, max(r.Slots, 1) }

// slotsOf gives every device this many slots.
func slotsOf(w *world, n int) {
	w.settings.Device = func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: n} }
}

// An exclusive lease has all that can be leased of an empty device. Until it ends, nobody
// else gets anything there, even if more memory appears; its children do.
func TestExclusive(t *testing.T) {
	w := newWorld()
	slotsOf(w, 4)
	k := w.start(t)
	k.device(0, 100, used(70, 30))
	k.device(1, 100)
	k.grant(want("small", 1, at(dev(1)), of(2)))
	held := k.grant(want("whole", 0, alone))
	if p := held.Parts[0]; p != (lease.Part{GPU: dev(0), Memory: 70, Slots: 1}) || !held.Exclusive {
		t.Fatalf("it has %+v", held)
	}
	k.device(0, 100) // the foreign process has ended
	noFit := (*placement.NoFitError)(nil)
	for _, r := range []lease.Request{
		want("memory", 1, at(dev(0)), of(2)), want("slot", 0, slots(1), at(dev(0))), want("other", 0, alone, at(dev(0))), want("elsewhere", 0, alone, at(dev(1))),
	} {
		if err := k.refused(r); !errors.As(err, &noFit) || noFit.Reasons[len(noFit.Reasons)-1].Code != placement.Alone && noFit.Reasons[0].Code != placement.Alone {
			t.Errorf("%s: %v", r.ID, err)
		}
	}
	exact := want("pod", 0, of(2))
	exact.Exact, exact.By = []lease.Part{{GPU: dev(0), Memory: 1}}, access.Daemon()
	if err := k.refused(exact); !strings.Contains(err.Error(), "has it alone") {
		t.Errorf("an admitted request: %v", err)
	}
	if _, err := k.Resize(t.Context(), byID("whole"), 0, 10, by(1), nil, 0); !errors.Is(err, lease.ErrState) {
		t.Errorf("resize: %v", err)
	}
	for id, memory := range map[string]gpu.MiB{"child": 0, "child with memory": 20} {
		if got := k.grant(want(id, memory, under("whole"))); got.Parts[0] != (lease.Part{GPU: dev(0), Memory: memory}) {
			t.Errorf("%s has %+v", id, got.Parts)
		}
	}
	k.refused(want("child of another", 0, under("whole"), of(2)))
	k.give("whole", 1)
	if err := k.refused(want("other", 0, alone, at(dev(0)))); !errors.As(err, &noFit) {
		t.Errorf("beside what is left of the children: %v", err)
	}
	k.give("child", 1)
	k.give("child with memory", 1)
	if got := k.grant(want("other", 0, alone)); got.Parts[0] != (lease.Part{GPU: dev(0), Memory: 100, Slots: 1}) {
		t.Errorf("the next one has %+v", got.Parts)
	}
}

// An exclusive request that waits is not passed on the devices that it could have, and
// passes nobody itself. It survives a restart of the daemon with its lease.
func TestExclusiveWaitsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		slotsOf(w, 4)
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("first", 10, of(2)))
		waits := k.queue(t.Context(), want("whole", 0, alone, wait(time.Hour)))
		k.refused(want("passes", 1, of(3)))
		behind := k.queue(t.Context(), want("behind", 1, of(3), wait(time.Hour)))
		k.give("first", 2)
		if d := <-waits; d.err != nil || d.lease.Parts[0].Memory != 100 {
			t.Fatalf("%+v, %v", d.lease, d.err)
		}
		k.device(0, 100, inState(gpu.Normal)) // a slower state changes nothing
		k.device(0, 100)
		synctest.Wait()
		select {
		case d := <-behind:
			t.Fatalf("%+v was granted beside it, %v", d.lease, d.err)
		default:
		}
		k.give("whole", 1)
		if d := <-behind; d.err != nil {
			t.Fatal(d.err)
		}
		next := k.queue(t.Context(), want("whole", 0, alone, wait(time.Hour)))
		k.give("behind", 3)
		<-next
		k.stop()
		k = w.start(t)
		defer k.stop()
		k.device(0, 100)
		if held, found := k.Find(k.only("whole")); !found || !held.Exclusive || held.Parts[0].Memory != 100 {
			t.Errorf("after a restart it is %+v", held)
		}
		k.refused(want("late", 0, slots(1), of(3)))
	})
}

// A parked exclusive lease leaves its device to others, and returns when it has the
// device alone again.
func TestExclusiveIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		slotsOf(w, 4)
		k := w.start(t)
		defer k.stop()
		k.device(0, 100)
		key := k.grant(want("whole", 0, alone)).Key()
		if _, err := k.Park(t.Context(), key, 0, access.Daemon(), ""); err != nil {
			t.Fatal(err)
		}
		k.grant(want("slot", 0, slots(1), of(2)))
		k.refused(want("another", 0, alone, of(3)))
		back := make(chan error, 1)
		go func() {
			_, err := k.Return(t.Context(), key, 0, by(1), "", time.Now(), gpu.Some(time.Hour))
			back <- err
		}()
		synctest.Wait()
		k.refused(want("passes", 1, of(3)))
		k.give("slot", 2)
		if err := <-back; err != nil {
			t.Fatal(err)
		}
		k.refused(want("late", 0, slots(1), of(3)))
	})
}

// Whoever may not have a whole device hears what to say instead; a device below what the
// request needs does not do.
func TestExclusiveAndLimits(t *testing.T) {
	w := newWorld()
	slotsOf(w, 4)
	w.settings.Services = map[string]quota.Served{
		"most":  {Service: quota.Service{Name: "most", MaxMemory: 99}},
		"quota": {Service: quota.Service{Name: "quota", Quota: lease.Usage{Memory: 99}}},
		"least": {Service: quota.Service{Name: "least", MinMemory: 60}},
	}
	w.settings.Limits = limited(1, func(l *lease.Limits) {
		if l.Subject.UID == 2 {
			memoryLimit(99)(l)
		}
	})
	k := w.start(t)
	defer k.stop()
	k.device(0, 100, used(70, 50))
	for name, change := range map[string]func(*lease.Request){"max": service("most"), "quota": service("quota"), "user": of(2)} {
		if err := k.refused(want(name, 0, alone, change)); !strings.Contains(err.Error(), "--memory") {
			t.Errorf("%s: %v", name, err)
		}
	}
	k.refused(want("too little is left", 0, alone, service("least")))
	k.refused(want("so here", 51, alone))
	if got := k.grant(want("enough", 50, alone)); got.Parts[0].Memory != 50 {
		t.Errorf("it has %+v", got.Parts)
	}
	none := want("no slot", 0, alone)
	none.Slots = 0
	fields := lease.FieldErrors(nil)
	if err := k.refused(none); !errors.As(err, &fields) {
		t.Errorf("without a slot: %v", err)
	}
}

// A lease that has its device alone returns to it when it is alone there, also if the
// driver, or what is parked there, leaves a little less of it than before.
func TestExclusiveReturnsToALittleLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 8000)
		held := k.grant(want("whole", 0, alone))
		k.park("whole")
		other := k.grant(want("other", 10, of(2)))
		k.device(0, 8000, used(70, 1))
		if d := <-k.returns(t.Context(), "whole", still); d.err == nil {
			t.Errorf("it returned beside another: %+v", d.lease)
		}
		k.give(other.ID, 2)
		back := <-k.returns(t.Context(), "whole", still)
		if back.err != nil || back.lease.State != lease.Active || back.lease.Parts[0].Memory != 7999 || held.Parts[0].Memory != 8000 {
			t.Fatalf("it returned as %+v, %v", back.lease, back.err)
		}
		k.expect(0, 7999, 0, 1)
		k.park("whole")
		k.device(0, 8000, used(70, 1000))
		if d := <-k.returns(t.Context(), "whole", still); d.err == nil {
			t.Errorf("it returned to much less: %+v", d.lease)
		}
	})
}
