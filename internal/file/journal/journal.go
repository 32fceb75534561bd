// Package journal is the seam between the ledger and its storage.
//
// An implementation (package filelog) keeps records in order through kill -9,
// power loss and a full disk; the ledger writes to it before it answers and
// reads it back when it starts; journaltest holds the suite that every
// implementation passes.
package journal

import "iter"

// Entry is one entry, read back. Data means nothing to the journal and is
// valid only during the call that hands it over.
type Entry struct {
	// Seq numbers the records from 1, without gaps. The records of a snapshot
	// all carry the number of the last record the snapshot stands for.
	Seq      uint64
	Snapshot bool
	Data     []byte
}

// Journal is an open journal. Each implementation has its own way to open one,
// and passes every record to the opener, in order, the snapshot first.
//
// There is one writer: Append is not called from two goroutines at once. Other
// goroutines may call Compact and Stats meanwhile.
type Journal interface {
	// Append adds a group of records. They are there together or not at all,
	// after any crash. When it returns nil, the group survives kill -9, and
	// with care.Durable power loss too, with everything appended before it.
	//
	// When it returns an error, nothing of the group is in the journal, what
	// was there before still is, and the next call tries afresh: after a
	// *WriteError the journal goes on by itself as soon as the disk takes
	// writes again. Only if the disk would not even let the group be taken
	// back (Stats shows a Fault) and the process dies before it does, the
	// group may be found, whole and last, at the next start, and groups that
	// were not durable may be lost if the file system has dropped them.
	//
	// Append keeps nothing of group.
	Append(group [][]byte, care Care) error

	// Compact replaces the records up to and including number upTo by those of
	// snapshot, in one step that a crash leaves either undone or done. Records
	// after upTo stay, also those appended meanwhile: the writer notes the
	// last number and what snapshot needs, and may let another goroutine call
	// Compact while it goes on appending. After an error the journal is as it
	// was, only not smaller.
	//
	// A slice that snapshot yields is not kept.
	Compact(upTo uint64, snapshot iter.Seq[[]byte]) error

	// Stats answers from memory, also while another call is stuck in the disk.
	Stats() Stats

	// Close makes everything durable and closes the files. Append returns
	// ErrClosed after that; a second Close does nothing.
	Close() error
}

// Care says how to write a group. The zero value asks for the least: the group
// survives the end of the process, and not that of the machine.
type Care struct {
	// Durable means that the group is on disk before Append returns.
	Durable bool

	// Reserve lets the group use the room that is kept back for records that
	// free something, so that releases succeed on a full disk.
	Reserve bool
}

// Stats are the numbers behind metrics and behind the decision to compact. The
// journal never compacts by itself.
type Stats struct {
	LastSeq     uint64 // number of the last record; 0: none yet
	SnapshotSeq uint64 // number of the last record the snapshot stands for; 0: no snapshot

	SnapshotRecords int
	SnapshotBytes   int64
	LogRecords      int   // records after the snapshot: what a start has to replay beside it
	LogBytes        int64 // what they take in the files (after a compaction: all since it began)
	DiskBytes       int64 // size of all files, with the room allocated ahead
	Segments        int   // files that hold the records after the snapshot

	Syncs uint64 // how often the disk was waited for, since the start

	// Fault says why the journal does not trust its last bytes and refuses to
	// append until it has written them again. Nil means that all is well.
	Fault error
}

// Recovery says what was found when a journal was opened.
type Recovery struct {
	SnapshotRecords int
	LogRecords      int
	LastSeq         uint64

	// Torn is the write that was cut off in the middle when the process or the
	// machine died. It was never acknowledged, or not as durable, and has been
	// removed. Nil: the journal ended with a whole record.
	Torn *Torn
}

// Torn says where a journal was cut.
type Torn struct {
	File   string
	Offset int64
	Bytes  int64  // how much was removed, up to the last byte that is not zero
	Seq    uint64 // the number the first removed record would have had
}
