// Package journal is the seam between the ledger and its storage.
//
// An implementation (package filelog) keeps entries in order through kill -9, power loss
// and a full disk. The ledger writes to it before it answers and reads it back when it
// starts. Package journaltest has the suite that every implementation passes.
package journal

import (
	"errors"
	"iter"
	"sync/atomic"
)

// Entry is one entry that was read back. The journal does not interpret Data, which is
// valid only during the call that hands it over.
type Entry struct {
	// Seq numbers the entries from 1, without gaps. The entries of a snapshot
	// all carry the number of the last entry that the snapshot replaces.
	Seq      uint64
	Snapshot bool
	Data     []byte
}

// Journal is an open journal. Each implementation has its own function to open one, which
// passes every entry to its caller, in order, the snapshot first.
//
// There is one writer: Append is not called from two goroutines at once. Other
// goroutines may call Compact and Stats meanwhile.
type Journal interface {
	// Append adds a group of entries. After any crash, either all of them are there or
	// none. When Append returns nil, the group survives kill -9, and with care.Durable
	// also a power loss, together with everything appended before it.
	//
	// When Append returns an error, nothing of the group is in the journal, earlier
	// entries still are, and the next call tries again: after a *WriteError the journal
	// goes on by itself as soon as the disk takes writes again. There is one exception:
	// if the disk does not even let the journal take the group back (Stats shows a Fault)
	// and the process dies before it does, the next start may find the group, complete
	// and last, and groups that were not durable may be lost if the file system has
	// dropped them.
	//
	// Append does not retain group.
	Append(group [][]byte, care Care) error

	// Compact replaces the entries up to and including number upTo by those of snapshot,
	// in one step that a crash leaves either undone or done. Entries after upTo stay,
	// also those appended meanwhile: the writer notes the last number and what snapshot
	// needs, and may let another goroutine call Compact while it goes on appending. After
	// an error the journal is as it was, only not smaller.
	//
	// Compact does not retain the slices that snapshot yields.
	Compact(upTo uint64, snapshot iter.Seq[[]byte]) error

	// Stats returns at once, also while another call waits for the disk.
	Stats() Stats

	// Close makes everything durable and closes the files. Append returns
	// ErrClosed after that; a second Close does nothing.
	Close() error
}

// Care says how to write a group. The zero value asks for the least: the group survives
// the end of the process, but not a crash of the machine.
type Care struct {
	// Durable means that the group is on disk before Append returns.
	Durable bool

	// Reserve lets the group use the room that is reserved for entries that free
	// something, so that releases succeed on a full disk.
	Reserve bool
}

// Stats are the numbers behind metrics and behind the decision to compact. The
// journal never compacts by itself.
type Stats struct {
	LastSeq     uint64 // number of the last entry; 0 if there is none
	SnapshotSeq uint64 // number of the last entry that the snapshot replaces; 0 if there is no snapshot

	SnapshotEntries int
	SnapshotBytes   int64
	LogEntries      int   // entries after the snapshot, which a start has to replay too
	DiskBytes       int64 // size of all files, with the room allocated ahead
	Segments        int   // files that hold the entries after the snapshot

	Syncs uint64 // number of waits for the disk since the start

	// Torn means that opening the journal removed a write that was cut off, see Recovery.
	Torn bool

	// Fault says why the journal does not trust its last bytes and refuses to append
	// until it has written them again. Nil means that all is well.
	Fault error
}

// Recovery says what Open found.
type Recovery struct {
	SnapshotEntries int
	LogEntries      int
	LastSeq         uint64

	// Torn is the write that was cut off when the process or the machine died. It was
	// never acknowledged, or not as durable, and has been removed. It is nil if the
	// journal ended with a complete entry.
	Torn *Torn
}

// Torn says where a journal was cut.
type Torn struct {
	File   string
	Offset int64
	Bytes  int64  // how much was removed, up to the last byte that is not zero
	Seq    uint64 // the number that the first removed entry would have had
}

// Forgetful returns a journal that keeps nothing, for a ledger that is used only once.
func Forgetful() Journal { return forgetful{} }

type forgetful struct{}

func (forgetful) Append([][]byte, Care) error            { return nil }
func (forgetful) Compact(uint64, iter.Seq[[]byte]) error { return nil }
func (forgetful) Stats() Stats                           { return Stats{} }
func (forgetful) Close() error                           { return nil }

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
// reserve does not prove that the journal works again, nor does one of nothing.
func (w *Writer) Write(group [][]byte, care Care) error {
	err := w.Append(group, care)
	failed := (*WriteError)(nil)
	switch {
	case errors.As(err, &failed):
		w.Note(err)
	case err == nil && len(group) > 0 && !care.Reserve && w.Trouble() != nil:
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
