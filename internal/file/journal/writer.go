package journal

import (
	"errors"
	"sync/atomic"
)

// Writer writes a journal and remembers whether that works. Only one goroutine may write.
type Writer struct {
	Journal
	// Notify is called with the error when writing stops working, and with nil when
	// it works again.
	Notify func(error)

	trouble atomic.Pointer[error] // read without a lock; nil if there is none
}

// Trouble returns why the journal takes no new entries now, or nil if it does. Any
// goroutine may call it.
func (w *Writer) Trouble() error {
	if err := w.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Write appends a group to the journal, and notes whether that works. A write into the
// reserve does not prove that the journal works again.
func (w *Writer) Write(group [][]byte, care Care) error {
	err := w.Append(group, care)
	failed := (*WriteError)(nil)
	switch {
	case errors.As(err, &failed):
		w.Note(err)
	case err == nil && !care.Reserve && w.Trouble() != nil:
		w.Note(nil)
	}
	return err
}

// Note remembers that writing fails with err, or works again if err is nil.
func (w *Writer) Note(err error) {
	before := w.Trouble()
	if err == nil {
		w.trouble.Store(nil)
	} else {
		w.trouble.Store(&err)
	}
	if (before == nil) != (err == nil) {
		w.Notify(err)
	}
}
