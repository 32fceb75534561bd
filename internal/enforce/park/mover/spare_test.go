package mover_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/lease"
)

// become gives a process to another user.
func (w *world) become(p *proc, uid int) { w.with(func() { p.uid = uid }) }

// A lease with a process of another user on the device is not parked in the name of
// its user, by hand or because its request allows it, and nothing is touched. An
// operator parks it.
func TestOthersAreNotParked(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		w.beginAs(0, "a", a.Fence, 5*gib)
		w.now.Read(t.Context(), w.uuid)
		w.plan(func(step move.Step) string {
			t.Errorf("the step %s is taken", step)
			return ""
		})
		refused := (*move.RefusedError)(nil)
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); !errors.As(err, &refused) || refused.Code != move.Unparkable || !strings.Contains(refused.Why, "belongs to another user") {
			t.Errorf("it is refused with %v", err)
		}
		waiting := w.queue("b", 60*gib)
		time.Sleep(20 * time.Minute)
		w.active(a)
		if told := w.now.told(gpu.EventParked, "a"); len(told) == 0 || !strings.Contains(told[0].Text, "belongs to another user") {
			t.Errorf("people are told %v", told)
		}
		w.plan(func(move.Step) string { return "" })
		operator := access.Actor{User: "olga", UID: 7, Door: access.Socket, Role: access.Operator}
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, operator, "", true); err != nil {
			t.Fatal(err)
		}
		w.parked(a)
		if l := <-waiting; l == nil {
			t.Error("b was not granted")
		}
	})
}

// A process that becomes another user's while its lease is parked on the way is let
// go again with the others.
func TestBecomesAnothersOnTheWay(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		first := w.of(a.Fence)[0]
		w.plan(func(step move.Step) string {
			if step == move.Lock {
				w.become(first, 0)
			}
			return ""
		})
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
			t.Errorf("it is refused with %v", err)
		}
		time.Sleep(time.Minute)
		w.become(first, 1000)
		w.active(a)
	})
}

// A process of another user that does not use the device is left alone, and told.
func TestOthersBesideTheDevice(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		a := w.grant("a", 60*gib)
		beside := w.beginAs(0, "a", a.Fence, 0)
		w.now.Read(t.Context(), w.uuid)
		if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); err != nil {
			t.Fatal(err)
		}
		if beside.state != move.Running || w.state(a) != lease.Parked {
			t.Errorf("it is %s, and the lease is %s", beside.state, w.state(a))
		}
		told := w.now.told(gpu.EventParking, "a")
		if spared, _ := told[len(told)-1].Data["spared"].([]string); len(spared) != 1 {
			t.Errorf("the event is %+v", told)
		}
	})
}
