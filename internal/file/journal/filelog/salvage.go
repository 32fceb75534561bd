package filelog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
)

// Salvaged says what Salvage did.
type Salvaged struct {
	// Damage is the damage that Salvage found. It is nil if the journal is sound; then
	// Salvage changed nothing.
	Damage *journal.CorruptError
	// Kept counts the entries before the damage.
	Kept int
	// Dropped counts the sound entries after the damage, which have lost their history.
	// Entries inside the damage cannot be counted.
	Dropped int
	// Aside lists the files that hold the former contents.
	Aside []string
}

// Salvage makes a damaged journal usable again: it keeps the entries before the damage
// and puts the files with the damage, and those after it, aside under names that the
// journal ignores. New entries reuse the numbers of the dropped ones. As for Open, replay
// says which entries cannot be true (journal.ErrContradiction); those are damage too.
// After the entries before the damage come those that last returns, which may be nil.
//
// It is safe to run Salvage again after an interruption: the damaged file keeps its name
// until its copy, and then its replacement, is on disk. So the journal is damaged until it
// has the last entries.
func Salvage(disk file.Folder, replay func(journal.Entry) error, last func() [][]byte) (Salvaged, error) {
	lock, err := disk.Lock()
	if err != nil {
		return Salvaged{}, fmt.Errorf("journal: %w", err)
	}
	s, err := salvage(disk, replay, last)
	return s, errors.Join(err, lock.Close())
}

func salvage(disk file.Folder, replay func(journal.Entry) error, last func() [][]byte) (Salvaged, error) {
	var s Salvaged
	h, err := load(disk, replay)
	s.Kept = h.snapshotEntries + h.logEntries
	if !errors.As(err, &s.Damage) {
		return s, err
	}
	names, err := disk.List()
	if err != nil {
		return s, fmt.Errorf("journal: list files: %w", err)
	}
	aside := freeName(names)
	file := s.Damage.File
	damaged, err := disk.ReadFile(file)
	if err != nil {
		return s, fmt.Errorf("journal: read %s: %w", file, err)
	}
	s.Dropped = countEntries(damaged, int(s.Damage.Offset), h.base())
	var more [][]byte
	if last != nil {
		more = last()
	}
	kept, keep := h.beginning(disk.Boot(), damaged, s.Damage, more)
	if kept == file {
		if err := writeFile(disk, aside(file), damaged); err != nil {
			return s, err
		}
		s.Aside = append(s.Aside, aside(file))
	}
	for _, name := range h.from(file) {
		if name == file && kept == file {
			continue
		}
		if name == file && keep != nil { // before the damage is away
			if err := writeFile(disk, kept, keep); err != nil {
				return s, err
			}
		}
		if name != file {
			data, err := disk.ReadFile(name)
			if err != nil {
				return s, fmt.Errorf("journal: read %s: %w", name, err)
			}
			s.Dropped += countEntries(data, fileHeader, h.base())
		}
		if err := disk.Rename(name, aside(name)); err != nil {
			return s, journal.Failed("put aside", name, err)
		}
		s.Aside = append(s.Aside, aside(name))
	}
	if err := disk.Sync(); err != nil {
		return s, journal.Failed("sync directory of", file, err)
	}
	if kept != file {
		return s, nil
	}
	return s, writeFile(disk, file, keep)
}

// beginning returns the part of the damaged file to keep, with more entries behind it, and
// the name of the file for it; no name if nothing is kept.
func (h history) beginning(boot file.BootID, data []byte, d *journal.CorruptError, more [][]byte) (name string, b []byte) {
	base := h.base()
	snapshot := len(h.snapshots) > 0 && d.File == snapshotName(base)
	next := h.next
	switch {
	case d.Offset >= fileHeader:
		name, b = d.File, slices.Clone(data[:d.Offset])
		next, _ = segmentNames.Of(name)
		for off := fileHeader; off < len(b); {
			f, err := parsePacket(b[off:])
			if err != nil {
				break // never: Offset is where a packet ends
			}
			next, off = f.seq+uint64(f.count), off+f.size
		}
	case more == nil:
		return "", nil
	case snapshot:
		name, b = d.File, newHeader(snapshotMagic, base, boot)
	default:
		name, b = segmentName(next), newHeader(segmentMagic, next, boot)
	}
	if len(more) > 0 && snapshot {
		b = appendPacket(b, kindEntries, base, 0, more)
	} else if len(more) > 0 {
		b = appendPacket(b, kindEntries, next, 0, more)
	}
	if snapshot {
		b = append(b, finishPacket(make([]byte, packetHeader), 0, kindEnd, base, uint64(h.snapshotEntries+len(more)))...)
	}
	return name, b
}

// from lists the files from the damaged one on, the last first, so that the remaining log
// never has a hole. After a damaged snapshot come all segments, and earlier snapshots
// that have not been removed.
func (h history) from(file string) (names []string) {
	for _, first := range slices.Backward(h.segments) {
		names = append(names, segmentName(first))
		if segmentName(first) == file {
			return names
		}
	}
	for _, upTo := range h.snapshots {
		names = append(names, snapshotName(upTo))
	}
	return names
}

// freeName finds a prefix under which nothing has been put aside yet, and returns a
// function that adds it.
func freeName(taken []string) func(name string) string {
	for n := 1; ; n++ {
		prefix := fmt.Sprintf("%s%d-", asidePrefix, n)
		if !slices.ContainsFunc(taken, func(t string) bool { return strings.HasPrefix(t, prefix) }) {
			return func(name string) string { return prefix + name }
		}
	}
}

// writeFile creates a file that is there completely or not at all.
func writeFile(disk file.Folder, name string, data []byte) error {
	if err := file.Put(disk, name, temporary, data, true); err != nil {
		return journal.Failed("write", name, err)
	}
	return nil
}

// countEntries counts the sound entries in data from off on, except those that the
// snapshot replaces.
func countEntries(data []byte, off int, base uint64) (n int) {
	for {
		f, at, found := findPacket(data, off)
		if !found {
			return n
		}
		if f.seq > base {
			n += f.count
		}
		off = at + f.size
	}
}

// takeBack removes what was written from start on from the tail, and also from the file
// if the disk allows it.
func (l *Log) takeBack(start int, op string, cause error) error {
	l.tail = l.tail[:start]
	l.suspect = true
	err := l.blame(op, cause)
	l.heal()
	return err
}

// heal makes the file agree with the log's view of it after a failed write or sync, and
// after opening a journal that ended in a crash.
//
// All bytes that may not be on disk are in the tail. heal writes them again,
// and zeros over what follows. That marks their pages as changed, so the next
// sync covers all of them: if it succeeds they are on disk, whatever failed
// before. This needs no new room, so it works on a full disk. If this part of
// the disk is broken, a new segment takes the tail.
//
// Names need no second write: directories go through the file system's journal,
// and a file system that failed there takes no more writes, so a later sync
// that succeeds can be trusted.
func (l *Log) heal() error {
	if l.unnamed {
		if err := l.disk.Sync(); err != nil {
			return l.blame("sync directory of", err)
		}
		l.unnamed = false
	}
	if !l.suspect {
		return nil
	}
	err := l.rewrite()
	if err == nil {
		return nil
	}
	if l.rotate(0); l.suspect || l.unnamed {
		return err
	}
	return nil
}

func (l *Log) rewrite() error {
	n := len(l.tail)
	clean := append(l.tail, make([]byte, l.dirty-l.end())...)
	_, err := l.file.WriteAt(clean, l.synced)
	if err == nil {
		err = l.sync()
	}
	if err != nil {
		return l.blame("mend", fmt.Errorf("%w (after an earlier failure)", err))
	}
	l.tail = clean[:n]
	l.settled(l.last)
	l.dirty = l.end()
	l.suspect = false
	return nil
}
