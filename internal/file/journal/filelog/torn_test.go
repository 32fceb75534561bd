package filelog_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
)

// twoGroups makes a journal of two groups and returns its file, and where the
// second group begins and ends.
func twoGroups(t *testing.T) (data []byte, from, to int) {
	t.Helper()
	d := disktest.New()
	l, _, _ := open(t, d)
	add(t, l, durably, "first")
	from = 48 + 48 // a header, and a packet of 32 + 4 + 5 bytes, padded
	add(t, l, durably, "second", "and third")
	data = read(t, d, firstSegment)
	return data, from, len(bytes.TrimRight(data, "\x00"))
}

// However a write is cut off, it is reported and goes as a whole, and the
// journal goes on in its place.
func TestTornTailIsCut(t *testing.T) {
	data, from, to := twoGroups(t)
	for _, how := range []struct {
		name string
		cut  func(data []byte, at int) []byte
	}{
		{"the file ends", func(data []byte, at int) []byte { return data[:at] }},
		{"zeros follow", func(data []byte, at int) []byte { clear(data[at:]); return data }},
		{"zeros come before", func(data []byte, at int) []byte { clear(data[from : at+1]); return data }},
		{"garbage follows", func(data []byte, at int) []byte {
			for i := range data[at:] {
				data[at+i] = byte(i*7 + 1)
			}
			return data
		}},
	} {
		for at := from; at < to; at++ {
			d := disktest.New()
			broken := how.cut(slices.Clone(data), at)
			d.WriteFile(firstSegment, broken)
			l, found, rec := open(t, d)
			if !slices.Equal(found, []string{"first"}) {
				t.Fatalf("%s at %d: found %q", how.name, at, found)
			}
			var want *journal.Torn
			if n := len(bytes.TrimRight(broken[from:], "\x00")); n > 0 {
				want = &journal.Torn{File: firstSegment, Offset: int64(from), Bytes: int64(n), Seq: 2}
			}
			if !reflect.DeepEqual(rec.Torn, want) {
				t.Fatalf("%s at %d: reported %+v, not %+v", how.name, at, rec.Torn, want)
			}
			add(t, l, durably, "new second")
			d.PowerCut(disktest.Always(0))
			if _, found, rec := open(t, d); rec.Torn != nil || !slices.Equal(found, []string{"first", "new second"}) {
				t.Fatalf("%s at %d, then: %q, %+v", how.name, at, found, rec.Torn)
			}
		}
	}
}

// A rotation that finds no room leaves nothing behind.
func TestNoTemporaryFilesStay(t *testing.T) {
	d := disktest.New()
	l, _, _ := open(t, d)
	for range 6 { // the next file is not far
		add(t, l, durably, string(make([]byte, 50)))
	}
	d.Fill()
	for l.Append([][]byte{make([]byte, 50)}, reserve) == nil {
	}
	if err := l.Compact(l.Stats().LastSeq, slices.Values([][]byte{make([]byte, 50)})); err == nil {
		t.Fatal("there was room for a snapshot")
	}
	names, err := d.List()
	if err != nil || !slices.Equal(names, []string{firstSegment}) {
		t.Fatalf("files: %q, %v", names, err)
	}
}
