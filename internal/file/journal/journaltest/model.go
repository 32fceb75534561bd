package journaltest

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/internal/file/journal"
)

// TB is the part of a test that the suite uses; rapid has its own.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

var _ TB = (*testing.T)(nil)

// model is a journal beside the real one that remembers what was promised. Its snapshots
// are as long as the entries that they replace: entry i is history[i] in both, which
// makes every loss and every duplicate visible.
type model struct {
	t     TB
	world World
	j     journal.Journal

	history []string   // acknowledged, in order; entry number i+1 at i
	durable int        // this many of them must survive a power cut
	doubt   [][]string // groups that failed, one of which may be found anyway
	made    int        // entries ever made, so that no two are equal
}

func newModel(t TB, w World) *model {
	t.Helper()
	m := &model{t: t, world: w}
	m.open(0)
	return m
}

// open opens the journal and checks what comes back: at least the first least entries,
// nothing out of order, nothing twice, nothing that was never appended, and of a group in
// doubt all or nothing.
func (m *model) open(least int) journal.Recovery {
	m.t.Helper()
	rec, err := m.tryOpen(least)
	if err != nil {
		m.t.Fatalf("open: %v", err)
	}
	return rec
}

func (m *model) tryOpen(least int) (journal.Recovery, error) {
	m.t.Helper()
	var found []string
	var snapshot, next uint64
	j, rec, err := m.world.Open(func(r journal.Entry) error {
		if r.Snapshot {
			snapshot, next = r.Seq, r.Seq
		} else if next++; r.Seq != next {
			m.t.Fatalf("entry %d comes after entry %d", r.Seq, next-1)
		}
		found = append(found, string(r.Data))
		return nil
	})
	if err != nil {
		return rec, err
	}
	m.j = j
	m.check(found, least)
	m.checkNumbers(rec, j.Stats(), int(snapshot))
	m.doubt = nil
	if j.Stats().Fault == nil {
		m.durable = len(m.history) // what was read back is durable
	}
	return rec, nil
}

func (m *model) check(found []string, least int) {
	m.t.Helper()
	if len(found) < least {
		m.t.Fatalf("%d entries came back, %d were promised", len(found), least)
	}
	common := min(len(found), len(m.history))
	for i := range common {
		if found[i] != m.history[i] {
			m.t.Fatalf("entry %d is %.20q, and was %.20q", i+1, found[i], m.history[i])
		}
	}
	extra := found[common:]
	if len(extra) > 0 && !slices.ContainsFunc(m.doubt, func(group []string) bool { return slices.Equal(group, extra) }) {
		m.t.Fatalf("%d entries came back that nobody was promised, the first is %.20q", len(extra), extra[0])
	}
	m.history = found
}

func (m *model) checkNumbers(rec journal.Recovery, s journal.Stats, snapshot int) {
	m.t.Helper()
	n := len(m.history)
	if rec.SnapshotEntries != snapshot || rec.SnapshotEntries+rec.LogEntries != n || rec.LastSeq != uint64(n) {
		m.t.Fatalf("recovery says %+v: there are %d entries, %d of them in a snapshot", rec, n, snapshot)
	}
	if s.LastSeq != uint64(n) || s.SnapshotSeq != uint64(snapshot) || s.SnapshotEntries != snapshot || s.LogEntries != n-snapshot {
		m.t.Fatalf("stats say %+v: there are %d entries, %d of them in a snapshot", s, n, snapshot)
	}
}

// append adds n new entries of about size bytes.
func (m *model) append(n, size int, care journal.Care) error {
	m.t.Helper()
	var names []string
	var group [][]byte
	for range n {
		m.made++
		r := slices.Grow([]byte(fmt.Sprintf("%d.", m.made)), size)
		for len(r) < size {
			r = append(r, byte(m.made))
		}
		group = append(group, r)
		names = append(names, string(r))
	}
	err := m.j.Append(group, care)
	if err != nil {
		if m.j.Stats().Fault != nil {
			m.doubt = append(m.doubt, names)
		} else {
			m.doubt = nil
		}
		return err
	}
	m.history = append(m.history, names...)
	m.doubt = nil
	if care.Durable {
		m.durable = len(m.history)
	}
	return nil
}

func (m *model) mustAppend(n, size int, care journal.Care) {
	m.t.Helper()
	if err := m.append(n, size, care); err != nil {
		m.t.Fatalf("append: %v", err)
	}
	if got := m.j.Stats().LastSeq; got != uint64(len(m.history)) {
		m.t.Fatalf("the last number is %d after %d entries", got, len(m.history))
	}
}

// compact replaces the entries up to number upTo by themselves.
func (m *model) compact(upTo int) error {
	return m.j.Compact(uint64(upTo), values(slices.Clone(m.history[:upTo])))
}

func values(entries []string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var reused []byte
		for _, r := range entries {
			reused = append(reused[:0], r...)
			if !yield(reused) {
				return
			}
		}
	}
}

// close ends this life in good order.
func (m *model) close() error {
	err := m.j.Close()
	if err == nil {
		m.durable = len(m.history)
	}
	return err
}

// kill ends this life as kill -9 does, and begins the next one.
func (m *model) kill() journal.Recovery {
	m.t.Helper()
	m.world.Kill()
	return m.open(len(m.history))
}

// powerCut ends this life and that of the machine, and begins the next one.
func (m *model) powerCut(chance func(int) int) journal.Recovery {
	m.t.Helper()
	m.world.PowerCut(chance)
	return m.open(m.durable)
}

func lost(int) int { return 0 }

func kept(n int) int { return min(1, n-1) }
