// Package filelog is a journal in plain files: an append-only log in segments
// and a snapshot, as docs/reference/journal.md specifies them.
//
// Files are filled with zeros ahead of the entries. Overwriting blocks that are allocated
// and written costs one disk write per sync; growing a file costs another one for the
// file system's own journal. The same room lets the journal write releases while the
// disk is full.
package filelog

import (
	"cmp"
	"errors"
	"io"
	"sync"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
)

// Options holds sizes in bytes; zero means the default.
type Options struct {
	Segment  int64 // size from which on a new file begins; default 4 MiB
	Reserve  int64 // room for entries that free something; default 256 KiB
	Step     int64 // room to allocate ahead at a time; default 256 KiB
	Unsynced int64 // bytes of entries that may wait for the disk; default 1 MiB
}

func (o Options) withDefaults() Options {
	o.Segment = cmp.Or(o.Segment, 4<<20)
	o.Reserve = cmp.Or(o.Reserve, 256<<10)
	o.Step = cmp.Or(o.Step, 256<<10)
	o.Unsynced = cmp.Or(o.Unsynced, 1<<20)
	return o
}

// Log is an open journal.
type Log struct {
	disk  file.Folder
	opt   Options
	lock  io.Closer
	boot  file.BootID // the present boot
	zeros []byte      // never written to

	// Compact holds compacting, and takes it before mu.
	compacting sync.Mutex

	// mu guards what follows. It may be held while waiting for the disk.
	mu       sync.Mutex
	closed   bool
	contents           // the files; the last segment is the one written to
	sizes    []int64   // of the segments, without the last
	file     file.File // the last segment
	last     uint64    // number of the last entry
	durable  uint64    // number of the last entry known to be on disk

	// These describe the last segment by offset. Everything up to synced is on disk. tail
	// is what follows, byte for byte, and is written too. Writes have reached dirty,
	// which is beyond the tail if one of them failed. From there to alloc there are
	// zeros.
	synced int64
	tail   []byte
	dirty  int64
	alloc  int64

	// suspect means that the contents of the file after synced are unknown. unnamed means
	// that the names in the directory may not be on disk. Nothing is appended until heal
	// has cleared both.
	suspect bool
	unnamed bool

	torn bool // opening it removed a write that was cut off

	snapshotEntries int
	snapshotBytes   int64
	syncs           uint64
	fault           error

	// statsMu guards stats. It is held only for moments, and taken last.
	statsMu sync.Mutex
	stats   journal.Stats
}

var _ journal.Journal = (*Log)(nil)

// Close implements journal.Journal.
func (l *Log) Close() error {
	l.compacting.Lock()
	defer l.compacting.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	err := l.settle()
	if err == nil {
		// After a mark, damage to the very last entries does not look like a write that
		// was cut off.
		l.mark()
		err = l.settle()
	}
	l.publish()
	return errors.Join(err, l.file.Close(), l.lock.Close())
}

// removeFiles removes old files. It ignores errors, because the next Open finds the
// remaining files.
func (l *Log) removeFiles(names []string, segments, snapshots []uint64) {
	for _, name := range names {
		l.disk.Remove(name)
	}
	for _, n := range segments {
		l.disk.Remove(segmentName(n))
	}
	for _, n := range snapshots {
		l.disk.Remove(snapshotName(n))
	}
}

// Stats implements journal.Journal.
func (l *Log) Stats() journal.Stats {
	l.statsMu.Lock()
	defer l.statsMu.Unlock()
	return l.stats
}

// publish updates the stats. The caller holds mu, or is opening.
func (l *Log) publish() {
	disk := l.alloc + l.snapshotBytes
	for _, n := range l.sizes {
		disk += n
	}
	if !l.suspect && !l.unnamed {
		l.fault = nil
	}
	l.statsMu.Lock()
	defer l.statsMu.Unlock()
	l.stats = journal.Stats{
		LastSeq:         l.last,
		SnapshotSeq:     l.base(),
		SnapshotEntries: l.snapshotEntries,
		SnapshotBytes:   l.snapshotBytes,
		LogEntries:      int(l.last - l.base()),
		DiskBytes:       disk,
		Segments:        len(l.segments),
		Syncs:           l.syncs,
		Fault:           l.fault,
		Torn:            l.torn,
	}
}
