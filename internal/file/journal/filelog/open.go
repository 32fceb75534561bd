package filelog

import (
	"errors"
	"fmt"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
)

// Open reads the journal on disk, passes every entry to replay, removes what a crash
// left half written, and makes the rest durable, so that no replayed entry can still be
// lost. It refuses damage other than a cut-off write (*journal.CorruptError), files of a
// later version of berth (*journal.VersionError) and a directory in use
// (*file.LockedError).
func Open(disk file.Folder, opt Options, replay func(journal.Entry) error) (*Log, journal.Recovery, error) {
	lock, err := disk.Lock()
	if err != nil {
		return nil, journal.Recovery{}, fmt.Errorf("journal: %w", err)
	}
	l := &Log{disk: disk, opt: opt.withDefaults(), lock: lock, boot: disk.Boot()}
	l.zeros = make([]byte, min(l.opt.Step, zeroChunk))
	rec, err := l.open(replay)
	if err != nil {
		if l.file != nil {
			l.file.Close()
		}
		return nil, journal.Recovery{}, errors.Join(err, lock.Close())
	}
	return l, rec, nil
}

func (l *Log) open(replay func(journal.Entry) error) (journal.Recovery, error) {
	h, err := load(l.disk, replay)
	if err != nil {
		return journal.Recovery{}, err
	}
	// The last process may have been killed between a rename and the sync of the
	// directory. The names of the files that were read must be on disk before anything is
	// appended to them, and before the files that they replace are removed.
	if err := l.disk.Sync(); err != nil {
		return journal.Recovery{}, journal.Failed("sync directory of", "the journal", err)
	}
	l.removeFiles(h.temporary, h.gone, h.snapshots[:max(0, len(h.snapshots)-1)])
	h.snapshots = h.snapshots[max(0, len(h.snapshots)-1):]

	rec := journal.Recovery{SnapshotEntries: h.snapshotEntries, LogEntries: h.logEntries, LastSeq: h.next - 1}
	l.last = h.next - 1
	l.contents = h.contents
	if len(h.segments) == 0 || h.last.next < h.next {
		// There is no segment to append to, or only the snapshot still has the last
		// entries because the disk lost what it had promised. Begin a segment that goes
		// on after the snapshot.
		l.durable = l.last
		l.sizes = h.segmentBytes
		if err := l.rotate(0); err != nil {
			return rec, err
		}
	} else {
		rec.Torn = h.last.torn(segmentName(h.segments[len(h.segments)-1]))
		l.torn = rec.Torn != nil
		if err := l.resume(h); err != nil {
			return rec, err
		}
	}
	l.snapshotEntries, l.snapshotBytes = h.snapshotEntries, h.snapshotBytes
	l.publish()
	return rec, nil
}

// resume continues in the last segment. A journal opens even if the disk takes no writes
// now: the entries stay known, and Append says why it cannot write.
func (l *Log) resume(h history) error {
	name := segmentName(h.segments[len(h.segments)-1])
	file, err := l.disk.Open(name)
	if err != nil {
		return journal.Failed("open", name, err)
	}
	end := h.last
	l.file = file
	l.sizes = h.segmentBytes[:len(h.segmentBytes)-1]
	l.durable = end.durable
	l.tail = append(l.tail, end.unproven...)
	l.synced = int64(end.end - len(end.unproven))
	l.dirty = int64(end.dirty)
	l.alloc = int64(end.size)
	if len(l.tail) > 0 || end.dirty > end.end {
		l.suspect = true
		if l.heal() != nil {
			return nil
		}
	}
	if end.durable < l.last || end.boot != l.boot {
		l.mark()
	}
	return nil
}
