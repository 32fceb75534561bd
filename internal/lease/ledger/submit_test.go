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
	"github.com/berth-gpu/berth/internal/lease/fair"
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

// Holders of tokens, which have no user id, are limited one by one.
func TestCallsAreLimitedPerToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		k.seat <- struct{}{} // so that nothing ends
		done := make(chan error)
		for _, name := range []string{"token:a", "token:a", "token:b"} {
			by := access.Actor{User: name, UID: access.NoUID, Door: access.TCP, Role: access.User}
			go func() { done <- k.submitFor(t.Context(), by, func(time.Time) error { return nil }) }()
		}
		synctest.Wait()
		if n := k.limiter.Len(); n != 2 {
			t.Errorf("the calls of two tokens count for %d users", n)
		}
		<-k.seat
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// A user with more calls than may stand before the clerk waits for one of
// their own to end, and nobody else does.
func TestCallsAreLimitedPerUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newWorld().start(t)
		by := func(uid int) access.Actor { return actor(lease.Holder{UID: uid}) }
		nothing := func(time.Time) error { return nil }
		var others []*fair.Calls // who has as many calls under way as one user may
		for range mostCalls {
			begun, err := k.limiter.Begin(t.Context(), 2)
			if err != nil {
				t.Fatal(err)
			}
			others = append(others, begun)
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
			t.Errorf("who left before it began: %v", err)
		}
		others[0].End()
		if err := <-served; err != nil {
			t.Errorf("when another one had ended: %v", err)
		}
		for _, begun := range others[1:] {
			begun.End()
		}
		if k.limiter.Len() != 0 {
			t.Errorf("users are kept who want nothing: %d", k.limiter.Len())
		}
	})
}
