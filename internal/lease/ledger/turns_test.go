package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// One user may have only so many requests in the queue, and that is no concern
// of anybody else's.
func TestWaitingIsLimitedPerUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		builtin := lease.Builtin()
		most := builtin.Waiting.Or(0)
		k := newWorld().start(t)
		k.device(0, 100)
		k.grant(want("full", 100, of(9)))
		for i := range most {
			k.queue(t.Context(), want(fmt.Sprint("w", i), 100, of(2), wait(time.Hour)))
		}
		if _, err := k.Acquire(t.Context(), want("over", 100, of(2), wait(time.Hour))); !errors.Is(err, quota.ErrCrowded) {
			t.Errorf("one more of the same user: %v", err)
		}
		if n := len(k.waiting()); n != most {
			t.Errorf("%d wait", n)
		}
		k.queue(t.Context(), want("other", 100, of(3), wait(time.Hour)))
		root := want("root", 100, of(2), wait(time.Hour))
		root.By.Role = access.Admin
		k.queue(t.Context(), root)
		if n := len(k.waiting()); n != most+2 {
			t.Errorf("%d wait", n)
		}
	})
}

// A user with more errands than may stand before the clerk waits for a turn of
// their own, and nobody else does.
func TestErrandsAreLimitedPerUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		by := func(uid int) access.Actor { return actor(lease.Holder{UID: uid}) }
		nothing := func(time.Time) error { return nil }
		u := k.turns.Of(2) // who has as many errands under way as one user may
		for range mostErrands {
			u.Free <- struct{}{}
		}
		ctx, cancel := context.WithCancel(t.Context())
		left, served := make(chan error, 1), make(chan error, 1)
		go func() { left <- k.submitFor(ctx, by(2), nothing) }()
		go func() { served <- k.submitFor(context.Background(), by(2), nothing) }()
		synctest.Wait()
		for _, who := range []access.Actor{by(3), access.Daemon()} {
			if err := k.submitFor(t.Context(), who, nothing); err != nil {
				t.Errorf("%+v: %v", who, err)
			}
		}
		select {
		case err := <-served:
			t.Errorf("one too many was served: %v", err)
		default:
		}
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who left without a turn: %v", err)
		}
		<-u.Free
		if err := <-served; err != nil {
			t.Errorf("when it was their turn: %v", err)
		}
		k.turns.Done(2, u)
		if k.turns.Len() != 0 {
			t.Errorf("turns are kept of users who want nothing: %d", k.turns.Len())
		}
	})
}
