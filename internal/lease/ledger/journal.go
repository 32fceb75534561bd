package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// LostFences is more than the number of grants that a machine can lose with its
// power. The ledger answers only grants to processes before they are on disk, and
// the journal syncs by itself long before there are that many.
const LostFences = 1 << 16

// recover reads the book from the journal. If the machine was rebooted since, or a write
// was cut off, recover skips LostFences fences: the last grants before that may be lost,
// and the ledger must not use their fences twice.
func (l *Ledger) recover(o *Options) error {
	var boot string
	log, err := o.Open(func(r journal.Entry) error {
		read, effect, err := l.book.Follow(r.Data)
		if newer := (*stored.VersionError)(nil); err != nil && !errors.As(err, &newer) {
			err = fmt.Errorf("%w: %w", journal.ErrContradiction, err)
		}
		if err != nil {
			return err
		}
		if read.Kind == stored.Fence {
			boot = read.Why
		}
		if o.Replayed != nil && effect.Lease() != nil {
			o.Replayed(&effect)
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.journal.Journal = log
	torn := log.Stats().Torn
	if boot == l.boot && !torn {
		return nil
	}
	fence := l.book.Fence()
	if boot != "" || torn {
		fence += LostFences
	}
	mark := stored.NewFence(fence, l.boot)
	if err := l.book.Replay(&mark); err != nil {
		return errors.Join(err, log.Close())
	}
	failed := (*journal.WriteError)(nil)
	err = log.Append([][]byte{lease.AppendEntry(nil, &mark)}, journal.Care{Durable: true, Reserve: true})
	if errors.As(err, &failed) {
		l.journal.Note(err)
		return nil // the daemon starts on a full disk too: the next start skips fences again
	}
	if err != nil {
		return errors.Join(err, log.Close())
	}
	return nil
}

// noteTrouble sends an event when the journal stops working, and when it works
// again.
func (h *Hooks) noteTrouble(err error) {
	if err == nil {
		h.journal(gpu.Note, "The daemon can write the journal again.")
		return
	}
	h.journal(gpu.Serious, "The daemon cannot write the journal, so it grants no new leases; present leases are not affected: %v", err)
}

// Trouble returns why the journal takes no new grants now, or nil if it does. It takes no
// lock.
func (l *Ledger) Trouble() error { return l.journal.Trouble() }

// probe tries a write to a journal in trouble, with an entry that changes nothing. The
// clerk calls it when it has no call that would try one.
func (l *Ledger) probe() {
	if l.Trouble() == nil {
		return
	}
	l.mu.RLock()
	mark := stored.NewFence(l.book.Fence(), l.boot)
	l.mu.RUnlock()
	_ = l.journal.Write([][]byte{lease.AppendEntry(nil, &mark)}, journal.Care{}) // append notes the result
}

// The ledger compacts the journal when it has many entries, and far more entries
// than leases.
const (
	compactEntries = 20_000
	compactFactor  = 4
	compactRetry   = time.Minute // after a failure, for example on a full disk
)

// compactIfLong replaces a long journal by the entries of the present leases, in a new
// goroutine, and any journal if the clock was set; the clerk goes on appending meanwhile. The clerk calls it when the book and
// the journal agree.
func (l *Ledger) compactIfLong() {
	stats := l.journal.Stats()
	if !l.rewrite.Load() && (stats.LogEntries < compactEntries || stats.LogEntries < compactFactor*stats.SnapshotEntries) || !l.compacting.CompareAndSwap(false, true) {
		return
	}
	l.rewrite.Store(false)
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
			// Twice: the newest lease may have ended, and then nothing else says how far
			// fences have got if a byte of the file is damaged.
			if buffer = lease.AppendEntry(buffer[:0], &fence); yield(buffer) {
				yield(buffer)
			}
		})
		if err == nil || errors.Is(err, journal.ErrClosed) {
			return
		}
		l.rewrite.Store(true) // it has to be done
		l.hooks.journal(gpu.Warning, "The daemon cannot compact the journal, which keeps growing: %v", err)
		select {
		case <-time.After(compactRetry):
		case <-l.finished:
		}
	}()
}
