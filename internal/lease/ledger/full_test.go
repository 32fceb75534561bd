package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file/journal"
)

func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 10_000)
		k.device(1, 100)
		ended := k.grant(want("ends", 1, at(dev(0))))
		lasting := k.grant(want("lasts", 1, ttl(time.Minute)))
		k.grant(want("full", 100, at(dev(1))))
		waits := k.queue(t.Context(), want("waits", 100, at(dev(1)), wait(time.Hour)))
		short := k.queue(t.Context(), want("short", 100, at(dev(1)), wait(time.Minute)))
		w.disk.Fill()
		var err error
		for n := 0; err == nil; n++ { // what is allocated already is still used
			_, err = k.Acquire(t.Context(), want(fmt.Sprintf("fill-%d", n), 1, at(dev(0))))
		}
		if !errors.Is(err, journal.ErrFull) {
			t.Fatalf("the disk is full, and the grant failed with %v", err)
		}
		before, sum := k.leases(), k.Sum(dev(0))
		for range 10 {
			if err := k.refused(want("more", 1, at(dev(0)))); !errors.Is(err, journal.ErrFull) {
				t.Fatalf("refused with %v", err)
			}
		}
		if got := k.leases(); !slices.Equal(got, before) || k.Sum(dev(0)).Sum != sum.Sum {
			t.Errorf("what was refused changed the leases from %v to %v, the sum from %+v to %+v", before, got, sum.Sum, k.Sum(dev(0)).Sum)
		}

		// What stands, stands; renewals and releases get through.
		time.Sleep(50 * time.Second)
		if _, err := k.Renew(t.Context(), byID("lasts"), lasting.Fence, 0, by(1), nil); err != nil {
			t.Errorf("renewal: %v", err)
		}
		if _, err := k.Release(t.Context(), byID("ends"), ended.Fence, by(1)); err != nil {
			t.Errorf("release: %v", err)
		}
		// The one who waits has room now, but it cannot be written down; whoever
		// waited long enough is told so.
		k.give("full", 1)
		if d := <-short; status(d.err) != "timeout" {
			t.Errorf("short got %v", d.err)
		}
		time.Sleep(50 * time.Second)
		k.told(gpu.EventExpired, "lasts")
		if got := k.waiting(); !slices.Equal(got, []string{"waits"}) {
			t.Errorf("%v wait", got)
		}

		w.disk.Mend()
		mended := time.Now()
		if d := <-waits; d.err != nil || time.Since(mended) > retry {
			t.Errorf("after the disk had room it took %v: %v", time.Since(mended), d.err)
		}
		k.grant(want("more", 1, at(dev(0))))
	})
}

// A journal that takes nothing is told of once, and so is its end, also where
// nobody asks for anything.
func TestTroubleIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 10))
		if err := k.Trouble(); err != nil {
			t.Fatal(err)
		}
		w.fail(errFull, true)
		for range 3 {
			k.refused(want("b", 10))
		}
		k.give("a", 1) // gets through, and proves nothing
		time.Sleep(time.Minute)
		synctest.Wait()
		if e := k.told(gpu.EventJournal, ""); !errors.Is(k.Trouble(), journal.ErrFull) || e.Severity != gpu.Serious || k.count(gpu.EventJournal) != 1 {
			t.Errorf("trouble is %v, told as %+v, %d times", k.Trouble(), e, k.count(gpu.EventJournal))
		}
		w.fail(nil, false)
		time.Sleep(retry)
		synctest.Wait()
		if e := k.told(gpu.EventJournal, ""); k.Trouble() != nil || e.Severity != gpu.Note || k.count(gpu.EventJournal) != 2 {
			t.Errorf("trouble is %v, told as %+v, %d times", k.Trouble(), e, k.count(gpu.EventJournal))
		}
	})
}

func TestTroubleFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.start(t).stop()
		w.entries = anotherBoot(t) // so that the start has something to write
		w.fail(errFull, false)
		k := w.start(t)
		if !errors.Is(k.Trouble(), journal.ErrFull) {
			t.Errorf("trouble is %v", k.Trouble())
		}
		w.fail(nil, false)
		time.Sleep(retry)
		synctest.Wait()
		if k.Trouble() != nil || k.count(gpu.EventJournal) != 2 {
			t.Errorf("trouble is %v, told %d times", k.Trouble(), k.count(gpu.EventJournal))
		}
	})
}

// count is how often an event was told.
func (k *keeper) count(code gpu.EventCode) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.counts[code]
}

// gate holds the clerk up until what follows has gathered in one batch.
func (k *keeper) gate() (open func()) {
	entered, opened, passed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(passed)
		_ = k.submit(k.t.Context(), func(time.Time) error {
			select {
			case <-entered: // tried a second time
			default:
				close(entered)
				<-opened
			}
			return nil
		})
	}()
	<-entered
	return func() { close(opened); <-passed }
}

// Of a batch that does not fit into the journal as a whole, what frees
// something gets through.
func TestMixedBatchOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("a", 50))
		k.grant(want("b", 50, ttl(time.Hour)))
		// One gets what it waits for with the release, but for the disk.
		waits := k.queue(t.Context(), want("waits", 50, wait(time.Hour)))
		w.fail(errFull, true)
		open := k.gate()
		answers := make(chan string)
		ask := func(what string, do func() error) {
			go func() { answers <- fmt.Sprintf("%s: %v", what, errors.Is(do(), journal.ErrFull)) }()
			synctest.Wait() // it stands in the batch
		}
		ask("grant", func() error { _, err := k.Acquire(t.Context(), want("c", 50, priority(9))); return err })
		ask("release", func() error { _, err := k.Release(t.Context(), byID("a"), 0, by(1)); return err })
		ask("grant after", func() error { _, err := k.Acquire(t.Context(), want("d", 50, priority(9))); return err })
		ask("renew", func() error { _, err := k.Renew(t.Context(), byID("b"), 0, 0, by(1), nil); return err })
		open()
		got := []string{<-answers, <-answers, <-answers, <-answers}
		slices.Sort(got)
		// The first has no room at all; the second only lacks the disk.
		if want := []string{"grant after: true", "grant: false", "release: false", "renew: false"}; !slices.Equal(got, want) {
			t.Errorf("full: %v", got)
		}
		if got := k.leases(); !slices.Equal(got, []string{"b"}) {
			t.Errorf("leases are %v", got)
		}
		w.fail(nil, false)
		if d := <-waits; d.err != nil {
			t.Error(d.err)
		}
	})
}

// Nothing at all can be written: everything stands as it is, nobody is left
// without an answer, and the clerk does not spin.
func TestBrokenDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		pid := child(t).Process.Pid
		k.grant(want("a", 50, ttl(time.Minute), k.held(pid)))
		k.device(0, 100, used(pid, 70))
		short := k.queue(t.Context(), want("short", 50, wait(30*time.Second)))
		w.fail(errBroken, false)
		if _, err := k.Release(t.Context(), byID("a"), 0, by(1)); !errors.Is(err, errBroken) {
			t.Errorf("release: %v", err)
		}
		k.expect(30, 50, 20, 0) // what was measured is not forgotten either
		if d := <-short; status(d.err) != "timeout" {
			t.Errorf("short got %v", d.err)
		}
		time.Sleep(10*time.Minute + retry/2) // between two tries
		synctest.Wait()
		if got := k.leases(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("leases are %v", got)
		}
		if tries := w.refusals(); tries > 2*640 {
			t.Errorf("the journal was tried %d times in less than eleven minutes", tries)
		}
		w.fail(nil, false)
		k.told(gpu.EventExpired, "a")
		k.expect(30, 0, 0, 70)
	})
}

// Whoever leaves while the disk takes nothing does not wait for it, and leaves
// nothing behind.
func TestLeavingWhileTheDiskIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		granted := k.grant(want("a", 100))
		w.fail(errBroken, false)
		for range 100 {
			if err := k.GiveBack(granted.Key(), granted.Fence, "for a test"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait() // it is tried again at this very moment
		if got := k.leases(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("leases are %v", got)
		}
		w.fail(nil, false)
		if e := k.told(gpu.EventReleased, "a"); !strings.Contains(e.Text, "for a test") || len(k.leases()) != 0 {
			t.Errorf("it was told that %s, and %v stand", e.Text, k.leases())
		}
	})
}
