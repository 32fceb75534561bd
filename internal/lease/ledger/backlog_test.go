package ledger

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// However long the disk refuses, leases of dead holders cost no goroutines, and
// the journal is not tried more often for them. They end when it works again.
func TestDeadHoldersOnABrokenDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const holders = 20
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		synctest.Wait()
		before := runtime.NumGoroutine()
		var all []*exec.Cmd
		for i := range holders {
			holder := child(t)
			k.grant(want(fmt.Sprintf("a%d", i), 1, k.bound(holder.Process.Pid)))
			all = append(all, holder)
		}
		w.fail(errBroken, false)
		for _, holder := range all {
			kill(t, holder)
		}
		synctest.Wait()
		for range 10 {
			for range 500 {
				k.device(0, 100)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if now := runtime.NumGoroutine(); now > before {
				t.Fatalf("there are %d goroutines, and there were %d without holders", now, before)
			}
		}
		if got := k.leases(); len(got) != holders {
			t.Errorf("leases are %v", got)
		}
		if tries := w.refusals(); tries > 10*holders+4*600 {
			t.Errorf("the journal was tried %d times in ten minutes", tries)
		}
		w.fail(nil, false)
		time.Sleep(retry)
		synctest.Wait()
		if got := k.leases(); len(got) != 0 || k.watched() != 0 {
			t.Errorf("%v stand, and %d processes are watched", got, k.watched())
		}
		k.expect(100, 0, 0, 0)
	})
}

// A lease whose remaining processes have left the devices is noted once for the
// clerk, and not at every sample.
func TestRemainingProcessThatLeavesTheDeviceOnABrokenDisk(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	parent, offspring := family(t)
	id := identify(t, parent.Process.Pid)
	k.grant(want("a", 80, k.bound(parent.Process.Pid)))
	k.device(0, 100, used(offspring, 30))
	kill(t, parent)
	until(t, "the end of the holder", func() bool { return k.isOutlived(id) })
	w.fail(errBroken, false)
	before := runtime.NumGoroutine()
	most := 0
	for range 3000 {
		k.device(0, 100)
		most = max(most, runtime.NumGoroutine())
	}
	if most > before+10 { // the watch over the child may begin meanwhile
		t.Errorf("there were up to %d goroutines, and %d before", most, before)
	}
	waits := k.queue(t.Context(), want("next", 100, wait(time.Hour), of(2)))
	w.fail(nil, false)
	k.told(gpu.EventReleased, "a")
	if d := <-waits; d.err != nil {
		t.Errorf("the one who waited got %v", d.err)
	}
}

// A request can be withdrawn while the disk takes nothing: there is nothing to
// write.
func TestWithdrawnOnABrokenDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 100))
		ctx, leave := context.WithCancel(t.Context())
		answer := k.queue(ctx, want("b", 100, wait(time.Hour)))
		w.fail(errBroken, false)
		asked := time.Now()
		leave()
		if d := <-answer; status(d.err) != "withdrawn" || time.Since(asked) != 0 || len(k.waiting()) != 0 {
			t.Errorf("after %v it got %v, and %v wait", time.Since(asked), d.err, k.waiting())
		}
		w.fail(nil, false)
	})
}
