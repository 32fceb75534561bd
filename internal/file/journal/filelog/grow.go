package filelog

import (
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
)

// zeroChunk is the size of one write of zeros. Measured on ext4, a small write into zeros
// that came in pieces of 64 KiB takes 0.5 µs, of 1 MiB 1.5 µs, and of 4 MiB 6.5 µs:
// apparently one write stays one unit in the cache, and every later write inside it walks
// over all of it.
const zeroChunk = 64 << 10

// makeRoom ensures that need bytes fit, with the reserve after them. On a full disk, only
// writes that may use the reserve fit.
func (l *Log) makeRoom(need int64, reserve bool) error {
	end := l.end()
	if end+need+l.opt.Reserve <= l.alloc {
		return nil
	}
	var err error
	if end+need > l.opt.Segment && end > fileHeader {
		err = l.rotate(need)
	} else {
		err = l.extend(end + need + l.opt.Reserve + l.opt.Step)
	}
	keep := l.opt.Reserve
	if reserve {
		keep = 0
	}
	if err != nil && !l.unnamed && l.end()+need+keep <= l.alloc {
		return nil // less than requested, but enough
	}
	return err
}

// extend writes zeros up to target.
func (l *Log) extend(target int64) error {
	for l.alloc < target {
		n, err := l.file.WriteAt(l.zeros, l.alloc)
		if err != nil {
			// The written part of this chunk is zeros, and stays. Only whole chunks
			// count, which keeps the next ones aligned.
			name := segmentName(l.segments[len(l.segments)-1])
			return journal.Failed("allocate room in", name, err)
		}
		l.alloc += int64(n)
	}
	return nil
}

// rotate begins a new segment and copies the tail into it, so that the old one need not
// be synced or, if its sync failed, trusted. The new file gets its name when it is
// complete, so there is never a segment without a header. From then on the old file
// counts only up to the first entry of the new one, whatever else it holds.
//
// After an error before the renaming, the old segment stays in use. After a later error
// the new one is in use, but unnamed.
func (l *Log) rotate(need int64) error {
	first := l.durable + 1
	name := segmentName(first)
	head := append(newHeader(segmentMagic, first, l.boot), l.tail...)
	file, alloc, err := l.createSegment(name+temporary, head, int64(len(head))+need+l.opt.Reserve+l.opt.Step)
	if err != nil {
		l.disk.Remove(name + temporary)
		return journal.Failed("begin", name, err)
	}
	if err := l.disk.Rename(name+temporary, name); err != nil {
		file.Close()
		l.disk.Remove(name + temporary)
		return journal.Failed("rename to", name, err)
	}
	if l.file != nil {
		l.file.Close() // nobody waits for its contents any more
	}
	l.adopt(first)
	l.file, l.alloc = file, alloc
	l.synced, l.dirty = fileHeader, int64(len(head))
	l.settled(l.last)
	l.suspect = false
	if err := l.disk.Sync(); err != nil {
		l.unnamed = true
		return l.blame("sync directory of", err)
	}
	return nil
}

// adopt adds a segment to the list. It replaces the last one if nothing of that was on
// disk yet.
func (l *Log) adopt(first uint64) {
	n := len(l.segments)
	if n > 0 && l.segments[n-1] == first {
		return
	}
	if n > 0 && l.file != nil {
		l.sizes = append(l.sizes, l.alloc)
	}
	l.segments = append(l.segments, first)
}

func (l *Log) createSegment(name string, head []byte, size int64) (file.File, int64, error) {
	file, err := l.disk.Create(name)
	if err != nil {
		return nil, 0, err
	}
	alloc := int64(0)
	for alloc < size && err == nil {
		_, err = file.WriteAt(l.zeros, alloc)
		alloc += int64(len(l.zeros))
	}
	if err == nil {
		_, err = file.WriteAt(head, 0)
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, alloc, nil
}
