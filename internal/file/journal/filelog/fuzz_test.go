package filelog_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
)

// covered reports whether a packet whose checksum holds contains the entry. It
// knows the format from the documentation, not from the reader.
func covered(data, entry []byte) bool {
	for off := 48; off+32 <= len(data); off += 8 {
		length := int(binary.LittleEndian.Uint32(data[off+8:]))
		if string(data[off:off+4]) != "bfrm" || length > len(data)-off-32 {
			continue
		}
		packet := data[off : off+32+length]
		if crc32.Checksum(packet[8:], crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(packet[4:]) {
			continue
		}
		for rest := packet[32:]; len(rest) >= 4; {
			n := int(binary.LittleEndian.Uint32(rest))
			if n > len(rest)-4 {
				break
			}
			if slices.Equal(rest[4:4+n], entry) {
				return true
			}
			rest = rest[4+n:]
		}
	}
	return false
}

// seal gives a file checksums that hold, so that what is in it gets past them.
func seal(data []byte) {
	sum := func(from, to, at int) {
		if to <= len(data) && at+4 <= len(data) {
			binary.LittleEndian.PutUint32(data[at:], crc32.Checksum(data[from:to], crc32.MakeTable(crc32.Castagnoli)))
		}
	}
	sum(0, 12, 12)
	sum(16, 44, 44)
	for off := 48; off+32 <= len(data); {
		length := int(binary.LittleEndian.Uint32(data[off+8:]))
		if length > len(data)-off-32 {
			return
		}
		copy(data[off:], "bfrm")
		sum(off+8, off+32+length, off+4)
		off += (32 + length + 7) &^ 7
	}
}

// Whatever is in the files, reading ends in entries that a checksum covers or
// in an error of a known type, and what was read once is read again.
func FuzzReader(f *testing.F) {
	d := disktest.New()
	l, _, err := filelog.Open(d, small, func(journal.Entry) error { return nil })
	if err != nil {
		f.Fatal(err)
	}
	add(f, l, durably, "one", "two")
	add(f, l, "", "three")
	if err := l.Compact(2, slices.Values([][]byte{[]byte("both")})); err != nil {
		f.Fatal(err)
	}
	add(f, l, durably, "four")
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	const snapshot = "snapshot-00000000000000000002"
	segment := read(f, d, firstSegment)
	for _, sealed := range []bool{false, true} {
		f.Add(segment, read(f, d, snapshot), sealed)
		f.Add(segment[:200], []byte{}, sealed)
		f.Add(slices.Concat(segment[:48], segment[96:]), read(f, d, snapshot), sealed)
	}

	f.Fuzz(func(t *testing.T, segment, snap []byte, sealed bool) {
		if sealed {
			segment, snap = slices.Clone(segment), slices.Clone(snap)
			seal(segment)
			seal(snap)
		}
		d := disktest.New()
		d.WriteFile(firstSegment, segment)
		if len(snap) > 0 {
			d.WriteFile(snapshot, snap)
		}
		var found []string
		l, _, err := filelog.Open(d, small, func(r journal.Entry) error {
			if !covered(segment, r.Data) && !covered(snap, r.Data) {
				t.Errorf("entry %d, %q, has no checksum", r.Seq, r.Data)
			}
			found = append(found, string(r.Data))
			return nil
		})
		if err != nil {
			corrupt, version := (*journal.CorruptError)(nil), (*journal.VersionError)(nil)
			if !errors.As(err, &corrupt) && !errors.As(err, &version) {
				t.Fatalf("open: %v", err)
			}
			if corrupt == nil {
				return
			}
			if _, err := filelog.Salvage(d, anything, nil); err != nil {
				t.Fatalf("salvage: %v", err)
			}
			l, found, _, err = tryOpen(d)
			if err != nil {
				t.Fatalf("open after salvage: %v", err)
			}
		}
		add(t, l, durably, "more")
		d.PowerCut(disktest.Always(0))
		if _, again, _ := open(t, d); !slices.Equal(again, append(found, "more")) {
			t.Fatalf("%q came back, and then %q", found, again)
		}
	})
}
