package mover_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
)

// A lease that its owner parked keeps no place in the queue: it waits since somebody
// wants it back.
func TestParkedByHandKeepsNoPlace(t *testing.T) {
	for _, wake := range []bool{false, true} {
		t.Run(fmt.Sprint(wake), func(t *testing.T) {
			inWorld(t, 100*gib, func(t *testing.T, w *world) {
				a := w.grant("a", 60*gib)
				if err := w.now.Park(t.Context(), a.Key(), a.Fence, byU, "", false); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				b := w.grant("b", 60*gib)
				c := w.queue("c", 60*gib)
				time.Sleep(time.Minute)
				resumed := make(chan error, 1)
				go func() {
					if wake {
						resumed <- w.now.Wake(t.Context(), a.Key(), a.Fence)
					} else {
						resumed <- w.now.Resume(t.Context(), a.Key(), a.Fence, byU, "", forever)
					}
				}()
				time.Sleep(time.Minute)
				synctest.Wait()
				release := func(l *lease.Lease) {
					w.End(w.of(l.Fence)[0].PID)
					if _, err := w.now.book.Release(t.Context(), lease.Name{ID: l.ID}, 0, byU); err != nil {
						t.Fatal(err)
					}
				}
				release(b)
				time.Sleep(time.Minute) // until it is measured
				select {
				case l := <-c:
					release(l)
				default:
					t.Fatal("what was parked by hand goes before one who has waited for longer")
				}
				if err := <-resumed; err != nil {
					t.Error(err)
				}
				w.active(a)
			})
		})
	}
}

// Who wants a parked lease back, and gives up before its wait for a turn has ended, has an
// answer at once. The lease waits for its turn again.
func TestGivesUpWhileTheTurnIsAwaited(t *testing.T) {
	inWorld(t, 100*gib, func(t *testing.T, w *world) {
		asked, answers := make(chan struct{}, 1), make(chan struct{})
		w.set(func() {
			w.point = func(name string) {
				if name == "before Return" {
					asked <- struct{}{}
					<-answers
				}
			}
		})
		a := w.grant("a", 60*gib)
		b := <-w.queue("b", 60*gib, func(r *lease.Request) { r.Parkable = false }) // a is parked for it
		<-asked
		w.parked(a)
		ctx, giveUp := context.WithCancel(t.Context())
		resumed := make(chan error, 1)
		go func() { resumed <- w.now.Resume(ctx, a.Key(), a.Fence, byU, "", forever) }()
		synctest.Wait()
		giveUp()
		synctest.Wait()
		select {
		case err := <-resumed:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		default:
			t.Error("it has no answer")
		}
		close(answers)
		<-asked // it waits for its turn again
		w.End(w.of(b.Fence)[0].PID)
		if _, err := w.now.book.Release(t.Context(), lease.Name{ID: "b"}, 0, byU); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.active(a)
	})
}
