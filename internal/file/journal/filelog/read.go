package filelog

import (
	"errors"
	"fmt"
	"math"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
)

// history is the result of reading a directory.
type history struct {
	contents
	gone []uint64 // segments with nothing after the snapshot

	snapshotEntries int
	snapshotBytes   int64
	logEntries      int
	segmentBytes    []int64 // sizes, as contents.segments
	next            uint64  // the number of the next entry
	last            ending  // how the last segment ends; zero if there is none
}

// ending describes the end of the last segment.
type ending struct {
	end      int         // where its packets end
	size     int         // where the file ends; all zero between dirty and here
	dirty    int         // end of what is not zero: after end if a write was torn
	next     uint64      // the number of the next entry in this segment
	durable  uint64      // number of the last entry known to be on disk
	boot     file.BootID // the boot that wrote last
	unproven []byte      // the packets after durable, read from the cache and perhaps not on disk
}

// torn describes what is between the packets and the zeros, or returns nil if there is
// nothing.
func (e ending) torn(name string) *journal.Torn {
	if e.dirty <= e.end {
		return nil
	}
	return &journal.Torn{File: name, Offset: int64(e.end), Bytes: int64(e.dirty - e.end), Seq: e.next}
}

// load reads the whole journal, changes nothing, and passes every entry to replay.
// Damage is a *journal.CorruptError that says where reading stopped.
func load(disk file.Folder, replay func(journal.Entry) error) (history, error) {
	c, err := list(disk)
	if err != nil {
		return history{}, err
	}
	h := history{contents: c, next: c.base() + 1}
	if len(c.snapshots) > 0 {
		if err := h.readSnapshot(disk, replay); err != nil {
			return h, err
		}
	}
	h.gone = h.obsolete(h.base())
	for i, first := range h.segments {
		limit := uint64(math.MaxUint64)
		if i+1 < len(h.segments) {
			limit = h.segments[i+1]
		}
		if err := h.readSegment(disk, first, limit, replay); err != nil {
			return h, err
		}
	}
	return h, nil
}

func (h *history) readSnapshot(disk file.Folder, replay func(journal.Entry) error) error {
	base := h.base()
	name := snapshotName(base)
	data, err := disk.ReadFile(name)
	if err != nil {
		return fmt.Errorf("journal: read snapshot: %w", err)
	}
	if _, err := parseHeader(name, snapshotMagic, base, data); err != nil {
		return err
	}
	h.snapshotBytes = int64(len(data))
	for off := fileHeader; ; {
		f, err := parsePacket(data[off:])
		end := err == nil && f.kind == kindEnd
		switch {
		case err != nil:
		case f.seq != base || f.kind == kindMark:
			err = errors.New("a packet of another file is in it")
		case end && (f.durable != uint64(h.snapshotEntries) || off+f.size != len(data)):
			err = errors.New("it does not end where it says")
		}
		if err != nil {
			return &journal.CorruptError{File: name, Offset: int64(off), Seq: base, Reason: "in the snapshot, " + err.Error()}
		}
		if end {
			return nil
		}
		if err := f.each(func(_ int, data []byte) error {
			return handOver(name, off, replay, journal.Entry{Seq: base, Snapshot: true, Data: data})
		}); err != nil {
			return err
		}
		h.snapshotEntries += f.count
		off += f.size
	}
}

// readSegment reads one segment. Its successor begins with entry limit and supersedes
// what this one holds from there on.
func (h *history) readSegment(disk file.Folder, first, limit uint64, replay func(journal.Entry) error) error {
	name := segmentName(first)
	data, err := disk.ReadFile(name)
	if err != nil {
		return fmt.Errorf("journal: read segment: %w", err)
	}
	if first > h.next {
		return &journal.CorruptError{File: name, Seq: h.next,
			Reason: fmt.Sprintf("it begins with entry %d, and the file with the entries before it is gone", first)}
	}
	boot, err := parseHeader(name, segmentMagic, first, data)
	if err != nil {
		return err
	}
	base := h.base()
	s := scanner{name: name, data: data, off: fileHeader, next: first, durable: first - 1, boot: boot}
	for s.next < limit {
		f, ok, err := s.scan()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		fresh := 0
		if err := f.each(func(i int, data []byte) error {
			seq := f.seq + uint64(i)
			if seq <= base {
				return nil
			}
			fresh++
			return handOver(name, s.off-f.size, replay, journal.Entry{Seq: seq, Data: data})
		}); err != nil {
			return err
		}
		h.logEntries += fresh // a packet counts as a whole or not at all
	}
	if limit == math.MaxUint64 {
		if err := s.judge(disk.Boot()); err != nil {
			return err
		}
		h.last = s.ending()
	} else if s.next != limit {
		return s.corrupt("later files are intact, so it is no write that was cut off")
	}
	h.segmentBytes = append(h.segmentBytes, int64(len(data)))
	h.next = max(h.next, s.next)
	return nil
}

// handOver replays an entry of the packet at an offset in a file.
func handOver(name string, offset int, replay func(journal.Entry) error, r journal.Entry) error {
	err := replay(r)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, journal.ErrContradiction):
		return &journal.CorruptError{File: name, Offset: int64(offset), Seq: r.Seq, Reason: err.Error()}
	}
	return fmt.Errorf("journal: %s at byte %d, entry %d: %w. Nothing was changed", name, offset, r.Seq, err)
}

// Read passes every entry to replay and changes nothing, not even the end that a crash
// left half written. It takes no lock: while a daemon writes, a file may look damaged or
// be gone, and the next try succeeds.
func Read(disk file.Folder, replay func(journal.Entry) error) (journal.Recovery, error) {
	h, err := load(disk, replay)
	rec := journal.Recovery{SnapshotEntries: h.snapshotEntries, LogEntries: h.logEntries, LastSeq: max(h.next, 1) - 1}
	if err == nil && len(h.segments) > 0 {
		rec.Torn = h.last.torn(segmentName(h.segments[len(h.segments)-1]))
	}
	return rec, err
}
