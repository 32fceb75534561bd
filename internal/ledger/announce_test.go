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
