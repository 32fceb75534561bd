package ledger

import (
	"errors"
	"sync/atomic"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/journal"
	"github.com/berth-gpu/berth/internal/record"
)

// writer writes the journal and keeps whether that works. Only the clerk writes.
type writer struct {
	journal.Journal
	hooks   *Hooks
	trouble atomic.Pointer[error] // read without a lock; nil: there is none
}

// Trouble returns why the journal takes no new grants now; nil if it does.
func (w *writer) Trouble() error {
	if err := w.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// append writes to the journal, and sends an event when that stops working and
// when it works again. A write from the reserve of the disk does not prove that
// the journal works again.
func (w *writer) append(group [][]byte, care journal.Care) error {
	err := w.Append(group, care)
	failed := (*journal.WriteError)(nil)
	switch {
	case errors.As(err, &failed):
		w.noteTrouble(err)
	case err == nil && !care.Reserve && w.Trouble() != nil:
		w.noteTrouble(nil)
	}
	return err
}

func (w *writer) noteTrouble(err error) {
	before := w.Trouble()
	if err == nil {
		w.trouble.Store(nil)
	} else {
		w.trouble.Store(&err)
	}
	switch {
	case before == nil && err != nil:
		w.hooks.journal(gpu.Serious,
			"The daemon cannot write the journal, so it grants no new leases; present leases are not affected: %v", err)
	case before != nil && err == nil:
		w.hooks.journal(gpu.Note, "The daemon can write the journal again.")
	}
}

// Trouble returns why the journal takes no new grants now; nil if it does. It
// takes no lock.
func (l *Ledger) Trouble() error { return l.journal.Trouble() }

// probe tries a write to a journal in trouble, with a record that changes
// nothing. The clerk calls it when it has no errand that would try.
func (l *Ledger) probe() {
	if l.Trouble() == nil {
		return
	}
	l.mu.RLock()
	mark := record.NewFence(l.book.Fence(), l.boot)
	l.mu.RUnlock()
	_ = l.journal.append([][]byte{mark.Append(nil)}, journal.Care{}) // append notes the result
}
