package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
	"github.com/berth-gpu/berth/internal/file/journal/journaltest"
)

// markedWorld is a marked journal on a disk that can crash.
type markedWorld struct {
	*disktest.Disk
	marked  *Marked
	entries []string // as they were read last
}

var smallJournal = filelog.Options{Segment: 700, Reserve: 200, Step: 256, Unsynced: 400}

func (w *markedWorld) Open(replay func(journal.Entry) error) (journal.Journal, journal.Recovery, error) {
	w.marked = &Marked{}
	l, rec, err := filelog.Open(w.Disk, smallJournal, w.marked.Reading(replay))
	if err != nil {
		return nil, rec, err
	}
	return w.marked.Over(l), rec, nil
}

func (w *markedWorld) FailAt(op int, f journaltest.Fault) {
	w.Disk.FailAt(op, disktest.Fault{Err: f.Err, Partial: f.Partial, Revert: f.Revert, Stay: f.Stay})
}

func (w *markedWorld) PowerCut(chance func(int) int) { w.Disk.PowerCut(chance) }

func (w *markedWorld) Bytes() (n int) {
	names, _ := w.List()
	for _, name := range names {
		data, _ := w.ReadFile(name)
		n += len(data)
	}
	return n
}

func (w *markedWorld) Flip(i int, mask byte) {
	names, _ := w.List()
	for _, name := range names {
		data, _ := w.ReadFile(name)
		if i < len(data) {
			data[i] ^= mask
			w.WriteFile(name, data)
			return
		}
		i -= len(data)
	}
}

// A journal without a mark is what it was.
func TestMarkedIsAJournal(t *testing.T) {
	journaltest.Run(t, func() journaltest.World { return &markedWorld{Disk: disktest.New()} })
}

// open opens the journal of a test, and notes its entries.
func (w *markedWorld) open(t *testing.T) journal.Journal {
	t.Helper()
	w.entries = nil
	j, _, err := w.Open(func(r journal.Entry) error {
		w.entries = append(w.entries, string(r.Data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// The mark goes with the next group, or by itself after a moment, and a
// compaction keeps the newest.
func TestMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &markedWorld{Disk: disktest.New()}
		j := w.open(t)
		group := func(n int) {
			t.Helper()
			if err := j.Append([][]byte{fmt.Append(nil, "lease ", n)}, journal.Care{}); err != nil {
				t.Fatal(err)
			}
		}
		again := func(seq uint64, want ...string) {
			t.Helper()
			w.Kill()
			j = w.open(t)
			var kinds []string
			for _, r := range w.entries {
				if strings.HasPrefix(r, "{") {
					r = "mark"
				}
				kinds = append(kinds, r)
			}
			if !slices.Equal(kinds, want) || w.marked.Newest().Seq != seq {
				t.Errorf("the journal has %q and names %v, want %q and %d", kinds, w.marked.Newest(), want, seq)
			}
		}
		group(1)
		again(0, "lease 1")
		w.marked.Set(Mark{Seq: 7, Hash: strings.Repeat("a", 64)})
		group(2)
		group(3)
		again(7, "lease 1", "lease 2", "mark", "lease 3")
		w.marked.Set(Mark{Seq: 8, Hash: strings.Repeat("b", 64)})
		w.marked.Set(Mark{Seq: 9, Hash: strings.Repeat("c", 64)})
		time.Sleep(2 * markDelay) // simulated
		synctest.Wait()
		again(9, "lease 1", "lease 2", "mark", "lease 3", "mark")
		if err := j.Compact(j.Stats().LastSeq, slices.Values([][]byte{[]byte("lease 2")})); err != nil {
			t.Fatal(err)
		}
		again(9, "mark", "lease 2")
		w.marked.Set(Mark{Seq: 10, Hash: strings.Repeat("d", 64)})
		w.Fill()
		w.marked.flush() // a full disk refuses it,
		w.Mend()
		if err := j.Close(); err != nil { // and the end takes it along
			t.Fatal(err)
		}
		again(10, "mark", "lease 2", "mark")
		time.Sleep(2 * markDelay) // simulated: nothing is left behind
	})
}

func BenchmarkMarkedAppend(b *testing.B) {
	for name, j := range map[string]journal.Journal{"bare": journal.Forgetful(), "marked": new(Marked).Over(journal.Forgetful())} {
		b.Run(name, func(b *testing.B) {
			group := [][]byte{[]byte("lease")}
			for b.Loop() {
				if err := j.Append(group, journal.Care{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
