package filelog

import (
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
)

// Append implements journal.Journal. It takes one write for the group, and one sync if
// the group must be durable.
func (l *Log) Append(group [][]byte, care journal.Care) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return journal.ErrClosed
	}
	payload := payloadSize(group)
	if payload > maxPayload {
		return journal.ErrTooLarge
	}
	defer l.publish()
	if err := l.heal(); err != nil {
		return err
	}
	if len(group) == 0 {
		if care.Durable {
			return l.settle()
		}
		return nil
	}
	need := int64(packetSize(payload))
	if err := l.makeRoom(need, care.Reserve); err != nil {
		return err
	}
	start := len(l.tail)
	l.tail = appendPacket(l.tail, kindEntries, l.last+1, l.durable, group)
	if err := l.write(start); err != nil {
		return l.takeBack(start, "write to", err)
	}
	last := l.last + uint64(len(group))
	if care.Durable || int64(len(l.tail)) > l.opt.Unsynced {
		if err := l.sync(); err != nil {
			return l.takeBack(start, "sync", err)
		}
		l.settled(last)
	}
	l.last = last
	return nil
}

// write writes the tail from start on to the file.
func (l *Log) write(start int) error {
	off := l.synced + int64(start)
	l.dirty = max(l.dirty, off+int64(len(l.tail)-start))
	_, err := l.file.WriteAt(l.tail[start:], off)
	return err
}

// sync waits for the disk. After a failure nobody knows which of the pages written since
// the last sync are on disk, and the next sync would not say: it reports only failures of
// pages that have been written to again since. The same is true for the zeros ahead, so
// they do not count as allocated any more.
func (l *Log) sync() error {
	l.syncs++
	err := l.file.Sync()
	if err != nil {
		l.alloc = l.dirty
	}
	return err
}

// settled notes that the tail is on disk, up to entry last.
func (l *Log) settled(last uint64) {
	l.synced += int64(len(l.tail))
	l.durable = last
	l.tail = l.tail[:0]
	if cap(l.tail) > maxPayload/4 {
		l.tail = nil // do not keep the memory of one huge group forever
	}
}

// settle makes all appended entries durable.
func (l *Log) settle() error {
	if err := l.heal(); err != nil {
		return err
	}
	if len(l.tail) == 0 {
		return nil
	}
	if err := l.sync(); err != nil {
		return l.takeBack(len(l.tail), "sync", err)
	}
	l.settled(l.last)
	return nil
}

// mark writes to the log what is on disk and which boot writes from here on. It only
// helps to judge later damage, so it takes nothing from the reserve, and its failure does
// not matter.
func (l *Log) mark() {
	need := int64(packetSize(len(file.BootID{})))
	if l.end()+need+l.opt.Reserve > l.alloc {
		return
	}
	start := len(l.tail)
	l.tail = appendMark(l.tail, l.last+1, l.durable, l.boot)
	if err := l.write(start); err != nil {
		l.takeBack(start, "write to", err)
	}
}

// end returns the offset after the last packet.
func (l *Log) end() int64 { return l.synced + int64(len(l.tail)) }

// blame returns the error for a write to the last segment. The stats show it until heal
// succeeds.
func (l *Log) blame(op string, cause error) error {
	l.fault = journal.Failed(op, segmentName(l.segments[len(l.segments)-1]), cause)
	return l.fault
}
