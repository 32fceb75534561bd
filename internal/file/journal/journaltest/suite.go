package journaltest

import (
	"errors"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
)

var (
	durable = journal.Care{Durable: true}
	quick   = journal.Care{}
)

// Run runs the whole suite on the journals of new worlds.
func Run(t *testing.T, newWorld func() World) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, func() World)
	}{
		{"Replay", testReplay},
		{"PowerCut", testPowerCut},
		{"Compaction", testCompaction},
		{"EmptySnapshot", testEmptySnapshot},
		{"OddSizes", testOddSizes},
		{"ReplayError", testReplayError},
		{"Locked", testLocked},
		{"Closed", testClosed},
		{"FullDisk", testFullDisk},
		{"CompactionOnFullDisk", testCompactionOnFullDisk},
		{"DamageAfterClose", testDamageAfterClose},
		{"DamageAfterKill", testDamageAfterKill},
		{"CrashPoints", testCrashPoints},
		{"CrashInRecovery", testCrashInRecovery},
		{"FaultPoints", testFaultPoints},
		{"RandomHistories", testRandomHistories},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newWorld) })
	}
}

func testReplay(t *testing.T, newWorld func() World) {
	m := newModel(t, newWorld())
	for i := range 40 {
		m.mustAppend(1+i%3, 20+i, journal.Care{Durable: i%4 == 0})
	}
	if rec := m.kill(); rec.Torn != nil {
		t.Fatalf("nothing was cut off, and this was found: %+v", rec.Torn)
	}
	m.mustAppend(1, 30, quick)
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	m.powerCut(lost)
}

func testPowerCut(t *testing.T, newWorld func() World) {
	m := newModel(t, newWorld())
	m.mustAppend(3, 30, quick)
	m.mustAppend(1, 30, durable)
	m.mustAppend(2, 30, quick)
	m.powerCut(lost)
	if len(m.history) != 4 {
		t.Fatalf("%d entries came back of 4 durable ones and 2 that the disk lost", len(m.history))
	}
	m.mustAppend(2, 30, quick)
	m.powerCut(kept)
	if len(m.history) != 6 {
		t.Fatalf("%d entries came back of 4 and 2 that the disk kept", len(m.history))
	}
}

func testCompaction(t *testing.T, newWorld func() World) {
	m := newModel(t, newWorld())
	for range 30 {
		m.mustAppend(2, 50, quick)
	}
	before := m.j.Stats()
	upTo := len(m.history) - 7 // noted; then the writer goes on
	if err := m.compact(upTo); err != nil {
		t.Fatal(err)
	}
	after := m.j.Stats()
	if after.SnapshotSeq != uint64(upTo) || after.LogEntries != 7 || after.Segments >= before.Segments {
		t.Fatalf("before: %+v\nafter: %+v", before, after)
	}
	m.mustAppend(3, 50, quick)
	m.kill()
	if err := m.compact(len(m.history)); err != nil {
		t.Fatal(err)
	}
	if err := m.compact(len(m.history)); err != nil {
		t.Fatalf("again: %v", err)
	}
	m.powerCut(lost)
	for _, wrong := range []int{0, len(m.history) - 1, len(m.history) + 1} {
		if err := m.j.Compact(uint64(wrong), values(nil)); err == nil {
			t.Fatalf("compaction up to %d was not refused: the snapshot is at %d", wrong, len(m.history))
		}
	}
	m.mustAppend(1, 50, durable)
	m.powerCut(lost)
}

func testEmptySnapshot(t *testing.T, newWorld func() World) {
	w := newWorld()
	m := newModel(t, w)
	m.mustAppend(5, 20, durable)
	if err := m.j.Compact(5, values(nil)); err != nil {
		t.Fatal(err)
	}
	if err := m.j.Append([][]byte{[]byte("six")}, durable); err != nil {
		t.Fatal(err)
	}
	w.PowerCut(lost)
	var found []journal.Entry
	_, _, err := w.Open(func(r journal.Entry) error {
		found = append(found, journal.Entry{Seq: r.Seq, Snapshot: r.Snapshot, Data: slices.Clone(r.Data)})
		return nil
	})
	if err != nil || len(found) != 1 || found[0].Seq != 6 || found[0].Snapshot || string(found[0].Data) != "six" {
		t.Fatalf("found %+v, %v", found, err)
	}
}

func testOddSizes(t *testing.T, newWorld func() World) {
	m := newModel(t, newWorld())
	if err := m.j.Append(nil, durable); err != nil {
		t.Fatalf("no entries: %v", err)
	}
	if err := m.j.Append([][]byte{{}, {}}, durable); err != nil {
		t.Fatalf("entries without bytes: %v", err)
	}
	m.history = append(m.history, "", "")
	m.mustAppend(1, 100_000, durable)
	m.mustAppend(500, 9, quick)
	if err := m.j.Append([][]byte{make([]byte, 9<<20), make([]byte, 9<<20)}, quick); !errors.Is(err, journal.ErrTooLarge) {
		t.Fatalf("18 MiB at once: %v", err)
	}
	m.mustAppend(1, 8, quick)
	m.kill()
}

func testReplayError(t *testing.T, newWorld func() World) {
	m := newModel(t, newWorld())
	m.mustAppend(3, 20, durable)
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	refusal := errors.New("not this one")
	_, _, err := m.world.Open(func(r journal.Entry) error {
		if r.Seq == 2 {
			return refusal
		}
		return nil
	})
	if !errors.Is(err, refusal) {
		t.Fatalf("open: %v", err)
	}
	m.open(3) // the refused opening has released the lock
}

func testLocked(t *testing.T, newWorld func() World) {
	m := newModel(t, newWorld())
	_, _, err := m.world.Open(func(journal.Entry) error { return nil })
	if e := (*file.LockedError)(nil); !errors.As(err, &e) {
		t.Fatalf("a second one: %v", err)
	}
	m.mustAppend(1, 20, durable)
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	m.open(1)
}

func testClosed(t *testing.T, newWorld func() World) {
	m := newModel(t, newWorld())
	m.mustAppend(1, 20, quick)
	if err := errors.Join(m.close(), m.j.Close()); err != nil {
		t.Fatal(err)
	}
	if err := m.j.Append([][]byte{{1}}, quick); !errors.Is(err, journal.ErrClosed) {
		t.Fatalf("append: %v", err)
	}
	if err := m.j.Compact(1, values(nil)); !errors.Is(err, journal.ErrClosed) {
		t.Fatalf("compact: %v", err)
	}
	m.open(1)
}
