package filelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
)

// snapshotPacket is the number of bytes of entries in one packet of a snapshot.
const snapshotPacket = 64 << 10

// Compact implements journal.Journal. It delays appends only for one sync at the
// beginning.
//
// A crash before the renaming leaves the old snapshot and all segments. A crash after it
// leaves the new snapshot and segments of which reading skips the first few, or the
// beginning of one. Compact removes segments only when the name of the new snapshot is on
// disk.
func (l *Log) Compact(upTo uint64, snapshot iter.Seq[[]byte]) error {
	l.compacting.Lock()
	defer l.compacting.Unlock()
	if err := l.beginCompaction(upTo); err != nil {
		return err
	}
	name := snapshotName(upTo)
	entries, size, err := l.writeSnapshot(name+temporary, upTo, snapshot)
	if err == nil {
		err = l.disk.Rename(name+temporary, name)
	}
	if err != nil {
		l.disk.Remove(name + temporary)
		if errors.Is(err, journal.ErrTooLarge) {
			return err
		}
		return journal.Failed("write", name, err)
	}
	if err := l.disk.Sync(); err != nil {
		// Both snapshots are there now, and after a power loss either may be; both have
		// the same contents. The next compaction or opening tidies up.
		return journal.Failed("sync directory of", name, err)
	}
	l.finishCompaction(upTo, entries, size)
	return nil
}

// beginCompaction ensures that no snapshot replaces entries that the log itself could
// still lose: the log would then have to go on after a gap, in a new file, for which a
// full disk has no room.
func (l *Log) beginCompaction(upTo uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.publish()
	if l.closed {
		return journal.ErrClosed
	}
	if upTo < l.base() || upTo > l.last {
		return fmt.Errorf("journal: compact up to entry %d: only %d to %d can be asked for", upTo, l.base(), l.last)
	}
	return l.settle()
}

func (l *Log) finishCompaction(upTo uint64, entries int, size int64) {
	l.mu.Lock()
	old := l.snapshots
	if n := len(old); n > 0 && old[n-1] == upTo {
		old = old[:n-1] // the new snapshot has replaced it
	}
	gone := l.obsolete(upTo)
	l.sizes = l.sizes[len(gone):]
	l.snapshots = []uint64{upTo}
	l.snapshotEntries, l.snapshotBytes = entries, size
	l.publish()
	l.mu.Unlock()
	l.removeFiles(nil, gone, old)
}

func (l *Log) writeSnapshot(name string, upTo uint64, snapshot iter.Seq[[]byte]) (entries int, size int64, err error) {
	file, err := l.disk.Create(name)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	w := snapshotWriter{file: file, upTo: upTo}
	w.buf = newHeader(snapshotMagic, upTo, l.boot)
	w.packet = len(w.buf)
	for r := range snapshot {
		if err := w.add(r); err != nil {
			return 0, 0, err
		}
	}
	if err := w.end(); err != nil {
		return 0, 0, err
	}
	return w.entries, w.size, file.Sync()
}

// snapshotWriter gathers entries into packets.
type snapshotWriter struct {
	file    file.File
	upTo    uint64
	buf     []byte // not yet written
	packet  int    // offset in buf of the packet that takes entries
	entries int
	size    int64 // written
}

func (w *snapshotWriter) add(r []byte) error {
	if 4+len(r) > maxPayload {
		return journal.ErrTooLarge
	}
	if len(w.buf)+len(r) > snapshotPacket {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if len(w.buf) == w.packet {
		w.buf = append(w.buf, make([]byte, packetHeader)...)
	}
	w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(len(r)))
	w.buf = append(w.buf, r...)
	w.entries++
	return nil
}

func (w *snapshotWriter) flush() error {
	if len(w.buf) > w.packet {
		w.buf = finishPacket(w.buf, w.packet, kindEntries, w.upTo, 0)
	}
	n, err := w.file.WriteAt(w.buf, w.size)
	w.size += int64(n)
	w.buf, w.packet = w.buf[:0], 0
	return err
}

func (w *snapshotWriter) end() error {
	if err := w.flush(); err != nil {
		return err
	}
	end := finishPacket(make([]byte, packetHeader), 0, kindEnd, w.upTo, uint64(w.entries))
	n, err := w.file.WriteAt(end, w.size)
	w.size += int64(n)
	return err
}
