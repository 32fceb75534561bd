package ledger

import (
	"errors"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// The ledger compacts the journal when it has many entries, and far more entries
// than leases.
const (
	compactEntries = 20_000
	compactFactor  = 4
	compactRetry   = time.Minute // after a failure, for example on a full disk
)

// compactIfLong replaces a long journal by the entries of the present leases, in a new
// goroutine; the clerk goes on appending meanwhile. The clerk calls it when the book and
// the journal agree.
func (l *Ledger) compactIfLong() {
	stats := l.journal.Stats()
	if stats.LogEntries < compactEntries || stats.LogEntries < compactFactor*stats.SnapshotEntries || !l.compacting.CompareAndSwap(false, true) {
		return
	}
	l.mu.RLock()
	standing := l.book.Leases() // leases never change, so the list may leave this goroutine
	fence := stored.NewFence(l.book.Fence(), l.boot)
	l.mu.RUnlock()
	go func() {
		defer l.compacting.Store(false)
		err := l.journal.Compact(stats.LastSeq, func(yield func([]byte) bool) {
			var buffer []byte
			var entry stored.Entry
			for entry = range lease.EntriesOf(standing) {
				if buffer = lease.AppendEntry(buffer[:0], &entry); !yield(buffer) {
					return
				}
			}
			yield(lease.AppendEntry(buffer[:0], &fence))
		})
		if err == nil || errors.Is(err, journal.ErrClosed) {
			return
		}
		l.hooks.journal(gpu.Warning, "The daemon cannot compact the journal, which keeps growing: %v", err)
		select {
		case <-time.After(compactRetry):
		case <-l.finished:
		}
	}()
}
