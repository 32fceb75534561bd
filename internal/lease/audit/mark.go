package audit

import (
	"bytes"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// markDelay is how long the newest line waits for a group of entries to go with. After
// that, flush writes it by itself.
const markDelay = time.Second

// Marked is a journal that also names the newest line of the audit log, so that
// berth notices a log whose end was cut off. That costs leases nothing: the name
// goes with the next group of entries. Its zero value names no line; Over gives
// it the journal to write to.
type Marked struct {
	journal.Journal
	newest atomic.Pointer[stored.AuditLine] // nil if there is none
	armed  atomic.Bool                      // a call of flush is scheduled
	log    *Log                             // nil if there is none

	mu      sync.Mutex        // a journal has one writer at a time; guards what follows
	written *stored.AuditLine // what the journal names; nil if nothing
	stored  []byte
	group   [][]byte
}

// Reading returns a function that looks for the newest line in the entries of the
// journal, and passes each entry to replay.
func (m *Marked) Reading(replay func(journal.Entry) error) func(journal.Entry) error {
	begins := []byte(`{"v":4,"kind":"audit",`) // decoding every entry twice would make starts slow
	return func(r journal.Entry) error {
		if bytes.HasPrefix(r.Data, begins) {
			if read, err := stored.Decode(r.Data); err == nil {
				m.written = &read.AuditLine
				m.newest.Store(m.written)
			}
		}
		return replay(r)
	}
}

// Over makes m write to j from now on, and returns m.
func (m *Marked) Over(j journal.Journal) journal.Journal {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Journal = j
	return m
}

// Newest returns the newest line that the journal names or is about to name; the zero
// Mark if there is none.
func (m *Marked) Newest() Mark {
	if line := m.newest.Load(); line != nil {
		return Mark(*line)
	}
	return Mark{}
}

// Set names the newest line. It does not wait: the journal has it after a
// moment.
func (m *Marked) Set(newest Mark) {
	line := stored.AuditLine(newest)
	m.newest.Store(&line)
	if m.armed.CompareAndSwap(false, true) {
		time.AfterFunc(markDelay, func() {
			m.armed.Store(false)
			m.flush()
		})
	}
}

// flush writes the newest line by itself, unless it is written already. If the journal
// refuses it, the next group takes it along.
func (m *Marked) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if line := m.newest.Load(); line != m.written && m.Journal.Append(append(m.group[:0], m.store(line)), journal.Care{}) == nil {
		m.written = line
	}
}

// store returns the entry of a line. The caller holds mu.
func (m *Marked) store(line *stored.AuditLine) []byte {
	r := stored.NewAudit(*line)
	m.stored = lease.AppendEntry(m.stored[:0], &r)
	return m.stored
}

// Append implements journal.Journal.
func (m *Marked) Append(group [][]byte, care journal.Care) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	line := m.newest.Load()
	if line == m.written {
		return m.Journal.Append(group, care)
	}
	m.group = append(append(m.group[:0], group...), m.store(line))
	err := m.Journal.Append(m.group, care)
	clear(m.group)
	if err == nil {
		m.written = line
	}
	return err
}

// Compact implements journal.Journal. The snapshot names the newest line too.
func (m *Marked) Compact(upTo uint64, snapshot iter.Seq[[]byte]) error {
	m.mu.Lock()
	line := m.written
	m.mu.Unlock()
	return m.Journal.Compact(upTo, func(yield func([]byte) bool) {
		if line != nil {
			if r := stored.NewAudit(*line); !yield(lease.AppendEntry(nil, &r)) {
				return
			}
		}
		snapshot(yield)
	})
}

// Close implements journal.Journal. Afterwards the journal names the newest line of all.
func (m *Marked) Close() error {
	if m.log != nil {
		m.log.Sync()
	}
	m.flush()
	return m.Journal.Close()
}
