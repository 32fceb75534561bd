package ledger

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/file/journal"
)

// A clerk that hangs is seen by those who do not wait for it, whatever locks it
// holds; one that has nothing to do, for however long, does not hang.
func TestStuckClerk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 10))
		time.Sleep(time.Hour)
		if err := k.Stuck(time.Now()); err != nil {
			t.Errorf("a clerk with nothing to do: %v", err)
		}
		w.fail(errFull, false)
		k.refused(want("b", 10))
		open := k.gate()
		if err := k.Stuck(time.Now().Add(stuckAfter)); err != nil {
			t.Errorf("at the limit: %v", err)
		}
		time.Sleep(stuckAfter + time.Second)
		if err := k.Stuck(time.Now()); err == nil || !strings.Contains(err.Error(), "has hung for 11s") {
			t.Errorf("beyond the limit: %v", err)
		}
		if err := k.Trouble(); !errors.Is(err, journal.ErrFull) {
			t.Errorf("trouble is %v", err)
		}
		w.fail(nil, false)
		open()
		synctest.Wait()
		if err := k.Stuck(time.Now()); err != nil {
			t.Errorf("when it goes on: %v", err)
		}
	})
}

// hangingJournal hangs in Append until it is let go.
type hangingJournal struct {
	journal.Journal
	entered, free chan struct{}
}

func (j *hangingJournal) Append(group [][]byte, care journal.Care) error {
	if j.entered != nil {
		close(j.entered)
		j.entered = nil
		<-j.free
	}
	return j.Journal.Append(group, care)
}

// A disk that hangs is noticed too.
func TestStuckJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		hanging := &hangingJournal{free: make(chan struct{})}
		w.wrap = func(j journal.Journal) journal.Journal { hanging.Journal = j; return hanging }
		k := w.start(t)
		k.device(0, 100)
		entered := make(chan struct{})
		hanging.entered = entered
		granted := make(chan error, 1)
		go func() {
			_, err := k.Acquire(t.Context(), want("a", 10))
			granted <- err
		}()
		<-entered
		time.Sleep(time.Minute)
		if err := k.Stuck(time.Now()); err == nil {
			t.Error("nothing hangs")
		}
		close(hanging.free)
		if err := <-granted; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := k.Stuck(time.Now()); err != nil {
			t.Errorf("when it goes on: %v", err)
		}
	})
}
