package journaltest

import (
	"errors"
	"testing"

	"github.com/berth-gpu/berth/internal/file/journal"
)

// damaged makes a journal with a snapshot, several files and groups of both
// kinds.
func damaged(t *testing.T, w World) *model {
	t.Helper()
	m := newModel(t, w)
	for i := range 8 {
		m.mustAppend(1+i%2, 30, journal.Care{Durable: i%3 == 0})
	}
	if err := m.compact(len(m.history) - 2); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		m.mustAppend(1+i%3, 30, journal.Care{Durable: i%3 == 0})
	}
	return m
}

// eachFlip damages one byte at a time and opens the journal. A refusal must be typed.
func eachFlip(t *testing.T, newWorld func() World, end func(*model), least func(*model) int) {
	t.Helper()
	refused := 0
	for i, n := 0, 1; i < n; i += 3 { // every third byte reaches every field
		m := damaged(t, newWorld())
		end(m)
		n = m.world.Bytes()
		m.world.Flip(i, 1<<(i%8))
		_, err := m.tryOpen(least(m))
		corrupt, version := (*journal.CorruptError)(nil), (*journal.VersionError)(nil)
		if err != nil && !errors.As(err, &corrupt) && !errors.As(err, &version) {
			t.Fatalf("byte %d: %v", i, err)
		}
		if corrupt != nil && (corrupt.File == "" || corrupt.Seq == 0 || corrupt.Reason == "") {
			t.Fatalf("byte %d: it does not say enough: %+v", i, corrupt)
		}
		if err != nil {
			refused++
		}
	}
	if refused == 0 {
		t.Fatal("no damage was ever noticed")
	}
}

// After a journal was closed, and even after the machine was restarted, no flipped bit
// changes or loses an entry: the journal opens with all entries or not at all.
func testDamageAfterClose(t *testing.T, newWorld func() World) {
	eachFlip(t, newWorld, func(m *model) {
		if err := m.close(); err != nil {
			t.Fatal(err)
		}
		m.world.PowerCut(lost)
	}, func(m *model) int { return len(m.history) })
}

// After a kill, damage to the last write looks like one that was cut off;
// anything before it is noticed, durable or not.
func testDamageAfterKill(t *testing.T, newWorld func() World) {
	eachFlip(t, newWorld,
		func(m *model) { m.mustAppend(1, 30, quick); m.world.Kill() },
		func(m *model) int { return len(m.history) - 1 })
}
