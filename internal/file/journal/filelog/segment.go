package filelog

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
)

const (
	formatVersion = 1
	fileHeader    = 48
	maxSeq        = 1 << 62 // far from overflow

	segmentMagic  = "berthlog"
	snapshotMagic = "berthsnp"

	asidePrefix = "damaged-"
	temporary   = ".tmp"
)

var (
	segmentNames  = file.Numbered{Prefix: "log-", Digits: 20}
	snapshotNames = file.Numbered{Prefix: "snapshot-", Digits: 20}
)

// newHeader returns the beginning of a file that this boot makes. In a segment, seq is the
// number of the first entry that may be in it; in a snapshot, the number of the last entry
// that it replaces.
func newHeader(magic string, seq uint64, boot file.BootID) []byte {
	b := append([]byte(nil), magic...)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	b = binary.LittleEndian.AppendUint32(b, checksum(b))
	b = binary.LittleEndian.AppendUint64(b, seq)
	b = append(b, boot[:]...)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint32(b, checksum(b[16:]))
}

// parseHeader checks the header of a file whose name promises seq, and returns the boot
// that made the file. The first 16 bytes mean the same in every version of the format, so
// that parseHeader can tell a later version from a damaged file.
func parseHeader(name, magic string, seq uint64, b []byte) (file.BootID, error) {
	bad := func(reason string) (file.BootID, error) {
		return file.BootID{}, &journal.CorruptError{File: name, Seq: seq, Reason: reason}
	}
	if len(b) < 16 || string(b[:8]) != magic || checksum(b[:12]) != binary.LittleEndian.Uint32(b[12:]) {
		return bad("it does not begin like a file of the journal")
	}
	switch v := binary.LittleEndian.Uint32(b[8:]); {
	case v > formatVersion:
		return file.BootID{}, &journal.VersionError{File: name, Found: v, Known: formatVersion}
	case v < formatVersion:
		return bad("there is no format version 0")
	}
	if len(b) < fileHeader || checksum(b[16:44]) != binary.LittleEndian.Uint32(b[44:]) {
		return bad("checksum of its header does not match")
	}
	switch own := binary.LittleEndian.Uint64(b[16:]); {
	case seq > maxSeq:
		return bad("its number is beyond any that could have been reached")
	case own != seq:
		return bad(fmt.Sprintf("its header says %d, its name %d: it has been renamed", own, seq))
	}
	return file.BootID(b[24:40]), nil
}

func segmentName(first uint64) string { return segmentNames.Name(first) }
func snapshotName(upTo uint64) string { return snapshotNames.Name(upTo) }

// contents lists the files of a directory by name.
type contents struct {
	segments  []uint64 // numbers of their first entries, ascending
	snapshots []uint64 // ascending; the last one counts
	temporary []string
}

func list(disk file.Folder) (contents, error) {
	names, err := disk.List()
	if err != nil {
		return contents{}, fmt.Errorf("journal: list files: %w", err)
	}
	var c contents
	for _, name := range names {
		if n, ok := segmentNames.Of(name); ok {
			c.segments = append(c.segments, n)
		} else if n, ok := snapshotNames.Of(name); ok {
			c.snapshots = append(c.snapshots, n)
		} else if strings.HasSuffix(name, temporary) {
			c.temporary = append(c.temporary, name)
		}
	}
	slices.Sort(c.segments)
	slices.Sort(c.snapshots)
	return c, nil
}

// base returns the number of the last entry that the snapshot replaces.
func (c contents) base() uint64 {
	if len(c.snapshots) == 0 {
		return 0
	}
	return c.snapshots[len(c.snapshots)-1]
}

// obsolete removes the segments without entries after base from the list, and returns
// them: those whose successor begins no later than the entry after base.
func (c *contents) obsolete(base uint64) (gone []uint64) {
	n := 0
	for n+1 < len(c.segments) && c.segments[n+1] <= base+1 {
		n++
	}
	gone, c.segments = c.segments[:n], c.segments[n:]
	return gone
}
