package ledger

import (
	"github.com/berth-gpu/berth/internal/lease"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Events are rationed and shown by whose lease or request they are about.
func TestEventsSayWhoseLeaseItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		of := func(user string) func(*lease.Request) { return func(r *lease.Request) { r.Holder.User = user } }
		k.grant(want("a", 60, of("ada")))
		<-k.queue(t.Context(), want("b", 60, of("bob"), func(r *lease.Request) { r.Wait = gpu.Some(time.Second) }))
		for _, c := range []struct {
			code     gpu.EventCode
			id, user string
		}{{gpu.EventGranted, "a", "ada"}, {gpu.EventWaiting, "b", "bob"}, {gpu.EventTimedOut, "b", "bob"}} {
			if e := k.told(c.code, c.id); e.User != c.user {
				t.Errorf("%s of %s is about %q", c.code, c.id, e.User)
			}
		}
	})
}

// Events say who did it, and nothing where the ledger did it by itself.
func TestEventsSayWhoDidIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.device(0, 100)
		user1, root := gpu.By{User: "user1", UID: gpu.Some(1), Door: "socket"}, gpu.By{User: "root", UID: gpu.Some(0), Door: "socket"}
		k.grant(want("a", 60))
		<-k.queue(t.Context(), want("b", 60, func(r *lease.Request) { r.Wait = gpu.Some(time.Second) }))
		if _, err := k.Release(t.Context(), byID("a"), 0, admin(0)); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			code gpu.EventCode
			id   string
			by   gpu.By
		}{{gpu.EventGranted, "a", user1}, {gpu.EventWaiting, "b", user1}, {gpu.EventTimedOut, "b", gpu.By{}}, {gpu.EventReleased, "a", root}} {
			if e := k.told(c.code, c.id); e.By != c.by {
				t.Errorf("%s of %s is by %+v, want %+v", c.code, c.id, e.By, c.by)
			}
		}
	})
}
