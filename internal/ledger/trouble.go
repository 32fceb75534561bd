package ledger

import (
	"errors"
	"sync/atomic"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/journal"
	"github.com/berth-gpu/berth/internal/record"
)

// writer is the journal, and whether it can be written. Only the clerk writes.
type writer struct {
	journal.Journal
	hooks   *Hooks
	trouble atomic.Pointer[error] // read without a lock; nil: there is none
}

// Trouble returns why the journal takes no new grants at present; nil: it does.
func (w *writer) Trouble() error {
	if err := w.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// append writes to the journal, and tells when that stops working and when it
// works again. What may use the last room on a disk proves nothing when it gets
// through.
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
			"The journal cannot be written, so no new lease is granted; those that stand are not affected: %v", err)
	case before != nil && err == nil:
		w.hooks.journal(gpu.Note, "The journal can be written again.")
	}
}

// Trouble returns why the journal takes no new grants at present; nil: it does.
// It takes no lock.
func (l *Ledger) Trouble() error { return l.journal.Trouble() }

// probe finds out whether a journal in trouble takes writes again, with a record
// that says nothing new. Errands find it out themselves.
func (l *Ledger) probe() {
	if l.Trouble() == nil {
		return
	}
	l.mu.RLock()
	mark := record.NewFence(l.book.Fence(), l.boot)
	l.mu.RUnlock()
	_ = l.journal.append([][]byte{mark.Append(nil)}, journal.Care{}) // what comes of it is noted
}
