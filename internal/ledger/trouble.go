package ledger

import (
	"errors"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/journal"
	"github.com/berth-gpu/berth/internal/record"
)

// Trouble is why the journal takes no new grants at present; nil: it does.
func (l *Ledger) Trouble() error {
	if err := l.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// append writes to the journal, and tells when that stops working and when it
// works again. What may use the last room on a disk proves nothing when it gets
// through.
func (l *Ledger) append(group [][]byte, care journal.Care) error {
	err := l.journal.Append(group, care)
	failed := (*journal.WriteError)(nil)
	switch {
	case errors.As(err, &failed):
		l.noteTrouble(err)
	case err == nil && !care.Reserve && l.Trouble() != nil:
		l.noteTrouble(nil)
	}
	return err
}

func (l *Ledger) noteTrouble(err error) {
	before := l.Trouble() // only the clerk changes it
	if err == nil {
		l.trouble.Store(nil)
	} else {
		l.trouble.Store(&err)
	}
	switch {
	case before == nil && err != nil:
		l.emit(gpu.EventJournal, gpu.Serious, time.Now(), "", "", nil,
			"The journal cannot be written, so no new lease is granted; those that stand are not affected: %v", err)
	case before != nil && err == nil:
		l.emit(gpu.EventJournal, gpu.Note, time.Now(), "", "", nil, "The journal can be written again.")
	}
}

// probe finds out whether a journal in trouble takes writes again, with a record
// that says nothing new. Errands find it out themselves.
func (l *Ledger) probe() {
	if l.Trouble() == nil {
		return
	}
	l.mu.RLock()
	mark := record.NewFence(l.book.Fence(), l.boot)
	l.mu.RUnlock()
	_ = l.append([][]byte{mark.Append(nil)}, journal.Care{}) // what comes of it is noted
}
