package run

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/when"
)

// Timers in some time and timers at a time of the clock are not compared: a clock that is
// set changes their order. Either kind comes when it is due, after what was sent before.
func TestTimersOfTwoClocks(t *testing.T) {
	l := newLoop(nil)
	l.Send("first")
	l.After(time.Second, "soon")
	taken := l.After(time.Second, "taken back")
	var date, dated *Timer
	l.Set(&date, when.Now().Add(2*time.Second), "at that time")
	l.Set(&dated, when.Now().Add(time.Second), "moved")
	l.Set(&dated, time.Now().Add(2500*time.Millisecond), "moved")
	l.Stop(taken)
	l.Stop(taken)
	l.Stop(nil)
	if n := l.Timers(); n != 3 || len(l.dates) != 1 {
		t.Errorf("%d timers are to come, %d of them at a time", n, len(l.dates))
	}
	var came []any
	for {
		message, some, left := l.next(time.Now())
		if !some {
			if left <= 0 || left > time.Second {
				t.Errorf("the next is in %v", left)
			}
			break
		}
		came = append(came, message)
	}
	for {
		message, some, left := l.next(time.Now().Add(3 * time.Second))
		if !some {
			if left != 0 {
				t.Errorf("the next is in %v", left)
			}
			break
		}
		came = append(came, message)
	}
	if !slices.Equal(came, []any{"first", "soon", "moved", "at that time"}) {
		t.Errorf("these came: %q", came)
	}
}

// A loop that waits for nothing wakes up for a message, and for a timer.
func TestALoopWakesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var came []any
		l := newLoop(func(message any) { came = append(came, message) })
		ctx, stop := context.WithCancel(t.Context())
		go l.run(ctx)
		synctest.Wait()
		l.Send("sent")
		synctest.Wait()
		if !slices.Equal(came, []any{"sent"}) {
			t.Errorf("these came: %q", came)
		}
		due := l.After(time.Second, "due")
		l.After(2*time.Second, "later")
		time.Sleep(time.Second)
		synctest.Wait()
		l.Stop(due) // nothing happens: it has come
		time.Sleep(time.Second)
		if synctest.Wait(); !slices.Equal(came, []any{"sent", "due", "later"}) {
			t.Errorf("these came: %q", came)
		}
		stop()
	})
}
