package journaltest

import (
	"errors"
	"testing"

	"github.com/berth-gpu/berth/internal/file/journal"
)

// fill appends until the disk is full, and returns the number of groups that it appended.
func fill(t *testing.T, m *model, care journal.Care) (n int) {
	t.Helper()
	for {
		err := m.append(2, 40, care)
		if err == nil {
			n++
			continue
		}
		if e := (*journal.WriteError)(nil); !errors.Is(err, journal.ErrFull) || !errors.As(err, &e) {
			t.Fatalf("on a full disk: %v", err)
		}
		return n
	}
}

func testFullDisk(t *testing.T, newWorld func() World) {
	m := newModel(t, newWorld())
	for range 5 { // several times over
		m.mustAppend(1, 40, durable)
		m.world.Fill()
		fill(t, m, durable)
		fill(t, m, quick)
		m.kill() // it opens, and is still full
		fill(t, m, durable)
		if n := fill(t, m, journal.Care{Durable: true, Reserve: true}); n == 0 {
			t.Fatal("there is no room for a release")
		}
		m.powerCut(lost)
		fill(t, m, journal.Care{Reserve: true})
		m.world.Mend()
		m.mustAppend(1, 40, quick)
		if fault := m.j.Stats().Fault; fault != nil {
			t.Fatalf("there is room again: %v", fault)
		}
	}
	m.powerCut(lost)
}

func testCompactionOnFullDisk(t *testing.T, newWorld func() World) {
	m := newModel(t, newWorld())
	for range 20 {
		m.mustAppend(2, 60, durable)
	}
	m.world.Fill()
	if err := m.compact(len(m.history)); !errors.Is(err, journal.ErrFull) {
		t.Fatalf("compact: %v", err)
	}
	m.kill()
	m.world.Mend()
	if err := m.compact(len(m.history)); err != nil {
		t.Fatal(err)
	}
	// The entries of a snapshot are on disk in the log too: a log that has to go on after
	// a gap would need a new file, and there is no room for one.
	m.mustAppend(2, 60, quick)
	if err := m.compact(len(m.history)); err != nil {
		t.Fatal(err)
	}
	m.world.Fill()
	m.powerCut(lost)
	fill(t, m, journal.Care{Durable: true, Reserve: true})
	m.powerCut(lost)
}
