package ledger

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
	"github.com/berth-gpu/berth/internal/lease/stored"
	"github.com/berth-gpu/berth/internal/process"
)

func TestRestartKeepsTheLivingAndReleasesTheDead(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	alive, dead := child(t), child(t)
	k.grant(want("named", 10))
	k.grant(want("ttl", 10, ttl(time.Hour)))
	k.grant(want("alive", 10, k.bound(alive.Process.Pid)))
	k.grant(want("dead", 10, k.bound(dead.Process.Pid)))
	k.grant(want("ended", 10))
	last := k.grant(want("last", 10))
	k.give("ended", 1)
	k.give("last", 1)
	before := k.View().Leases
	k.die(w.disk.Kill)
	kill(t, dead)

	again := w.start(t)
	again.device(0, 100)
	fresh := again.grant(want("fresh", 10)) // answered after the dead were released
	if got, want := again.leases(), []string{"named", "ttl", "alive", "fresh"}; !slices.Equal(got, want) {
		t.Errorf("leases are %v, want %v", got, want)
	}
	for i, held := range again.View().Leases[:3] {
		if was := before[i].Lease; held.Fence != was.Fence || held.Holder != was.Holder || !held.Granted.Equal(was.Granted) ||
			!held.Expires.Equal(was.Expires) || !slices.Equal(held.Parts, was.Parts) {
			t.Errorf("%+v came back as %+v", was, held.Lease)
		}
	}
	if fresh.Fence != last.Fence+1 {
		t.Errorf("fence %d came after %d", fresh.Fence, last.Fence)
	}
	kill(t, alive) // is watched again
	again.told(gpu.EventReleased, "alive")
	if sum := again.Sum(dev(0)); sum.Available() != 70 {
		t.Errorf("%s are left", sum.Available())
	}
}

func TestAfterARebootProcessesAreGone(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	k.grant(want("process", 10, k.bound(os.Getpid()))) // the pid runs, but it is not that process any more
	k.grant(want("named", 10))
	k.grant(want("ttl", 10, ttl(time.Hour)))
	k.stop()
	w.entries = anotherBoot(t)

	k = w.start(t)
	k.device(0, 100)
	fresh := k.grant(want("fresh", 10))
	if got, want := k.leases(), []string{"named", "ttl", "fresh"}; !slices.Equal(got, want) {
		t.Errorf("leases are %v, want %v", got, want)
	}
	if e := k.told(gpu.EventReleased, "process"); !strings.Contains(e.Text, "while the daemon was not running") {
		t.Errorf("its end was told as %q", e.Text)
	}
	if fresh.Fence <= LostFences {
		t.Errorf("the fences did not jump: %d", fresh.Fence)
	}
	k.stop()
	w.entries = nil // the same boot again: no jump

	k = w.start(t)
	k.device(0, 100)
	if next := k.grant(want("next", 10)); next.Fence != fresh.Fence+1 {
		t.Errorf("fence %d came after %d", next.Fence, fresh.Fence)
	}
}

// A power loss may forget what was granted to processes, for they are gone
// too. It forgets nothing else, and no fence is given twice.
func TestPowerLoss(t *testing.T) {
	for seed := range 20 {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("named", 10))
		k.grant(want("p1", 10, k.bound(os.Getpid())))
		k.give("p1", 1)
		k.grant(want("ttl", 10, ttl(time.Hour)))
		last := k.grant(want("p2", 10, k.bound(os.Getpid())))
		chance := uint32(seed)
		k.die(func() {
			w.disk.PowerCut(func(n int) int {
				chance = chance*1664525 + 1013904223
				return int(chance>>16) % n
			})
		})
		w.entries = anotherBoot(t)

		again := w.start(t)
		again.device(0, 100)
		fresh := again.grant(want("fresh", 10))
		if got, want := again.leases(), []string{"named", "ttl", "fresh"}; !slices.Equal(got, want) {
			t.Errorf("leases are %v, want %v", got, want)
		}
		if fresh.Fence <= last.Fence {
			t.Errorf("fence %d came after %d", fresh.Fence, last.Fence)
		}
	}
}

func TestWhatExpiredMeanwhileIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		k := w.start(t)
		k.device(0, 100)
		k.grant(want("short", 10, ttl(time.Minute)))
		k.grant(want("long", 10, ttl(time.Hour)))
		k.stop()
		time.Sleep(10 * time.Minute)
		k = w.start(t)
		k.device(0, 100)
		k.told(gpu.EventExpired, "short")
		if got := k.leases(); !slices.Equal(got, []string{"long"}) {
			t.Errorf("leases are %v", got)
		}
	})
}

func TestDamagedJournalIsNotGuessedAt(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	for i := range 9 {
		k.grant(want(fmt.Sprintf("lease-%d", i), 1))
	}
	k.stop()
	sound, name := journalFile(t, w.disk)
	open := func() error {
		_, err := Open(Options{Settings: w.settings, Processes: process.Proc(), Open: w.open})
		return err
	}

	rotten := slices.Clone(sound)
	rotten[strings.Index(string(sound), `"lease-4"`)] ^= 1
	w.disk.WriteFile(name, rotten)
	damage := (*journal.CorruptError)(nil)
	if err := open(); !errors.As(err, &damage) || damage.File != name || damage.Seq < 5 ||
		!strings.Contains(err.Error(), "berth journal repair") {
		t.Errorf("a rotten record: %v", err)
	}

	// Entries that are sound by themselves, and cannot be true.
	w.disk.WriteFile(name, sound)
	w.entries = func(entry []byte) []byte {
		return []byte(strings.ReplaceAll(string(entry), `"lease-4"`, `"lease-3"`))
	}
	if err := open(); !errors.As(err, &damage) || damage.File != name || damage.Offset < 48 || damage.Seq != 6 || strings.Count(err.Error(), "entry 6") != 1 ||
		!strings.Contains(err.Error(), "the id is in use") || !strings.Contains(err.Error(), "berth journal repair") {
		t.Errorf("a record that contradicts another: %v", err)
	}
	w.entries = func(entry []byte) []byte { return []byte(strings.Replace(string(entry), `{"v":1`, `{"v":9`, 1)) }
	if err := open(); !errors.As(err, new(*stored.VersionError)) {
		t.Errorf("a record of a later berth: %v", err)
	}
	w.entries = nil
	if err := open(); err != nil {
		t.Errorf("the sound journal: %v", err)
	}
}

// journalFile is the only segment of a small journal.
func journalFile(t *testing.T, d *disktest.Disk) (data []byte, name string) {
	t.Helper()
	names, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(names, func(n string) bool { b, _ := d.ReadFile(n); return len(b) > 1000 })
	data, err = d.ReadFile(names[at])
	if err != nil {
		t.Fatal(err)
	}
	return data, names[at]
}

// A journal that has grown long is made shorter, and still describes the book.
func TestLongJournalIsMadeShorter(t *testing.T) {
	w := newWorld()
	w.wrap = func(j journal.Journal) journal.Journal { return &longer{j} }
	k := w.start(t)
	k.device(0, 1000)
	k.grant(want("stays", 1, ttl(time.Hour)))
	hold := k.bound(os.Getpid()) // such leases are not waited for on disk
	var clients sync.WaitGroup
	for c := range 8 {
		clients.Go(func() {
			for n := 0; n < 1000 && k.Journal().SnapshotSeq < 200; n++ {
				id := fmt.Sprintf("%d-%d", c, n)
				k.grant(want(id, 1, hold))
				k.give(id, 1)
			}
		})
	}
	clients.Wait()
	if stats := k.Journal(); stats.SnapshotSeq < 200 {
		t.Errorf("after all this the journal is %+v", stats)
	}
	k.stop() // holds the book against the journal
}

// longer is a journal that seems a thousand times longer than it is.
type longer struct{ journal.Journal }

func (l *longer) Stats() journal.Stats {
	s := l.Journal.Stats()
	s.LogEntries *= 1000
	return s
}

func TestCompactionThatFailsIsToldOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.wrap = func(j journal.Journal) journal.Journal { return &long{j} }
		k := w.start(t)
		k.device(0, 1000)
		k.grant(want("a", 1, ttl(time.Hour)))
		for range 100 {
			k.give("a", 1)
			k.grant(want("a", 1, ttl(time.Hour)))
			time.Sleep(time.Second)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if told := k.counts[gpu.EventJournal]; told != 2 {
			t.Errorf("in 100 seconds it was told %d times, want 2", told)
		}
	})
}

// long is a journal that seems long, and cannot be made shorter.
type long struct{ journal.Journal }

func (l *long) Stats() journal.Stats                   { return journal.Stats{LogEntries: compactEntries} }
func (l *long) Compact(uint64, iter.Seq[[]byte]) error { return errFull }

// What looks like a write that was cut off may be a grant that somebody has, damaged: its
// fence is not given again.
func TestFencesPassADamagedEnd(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	last := k.grant(want("a", 10))
	k.stop()
	again, err := Open(Options{
		Settings: w.settings, Processes: process.Proc().With(w.cast), OpenWaiting: w.openWaiting,
		Open: func(replay func(journal.Entry) error) (journal.Journal, error) {
			log, err := w.open(replay)
			return cutOff{log}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if fence := again.book.Fence(); fence < last.Fence+LostFences {
		t.Errorf("fence %d comes after %d", fence+1, last.Fence)
	}
}

// cutOff is a journal whose last write was cut off.
type cutOff struct{ journal.Journal }

func (c cutOff) Stats() journal.Stats {
	s := c.Journal.Stats()
	s.Torn = true
	return s
}
