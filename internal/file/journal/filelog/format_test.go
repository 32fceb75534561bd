package filelog_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
)

const (
	firstSegment = "log-00000000000000000001"
	durably      = "durably"
)

// open opens the journal on d and returns it with what it replayed.
func open(t testing.TB, d file.Folder) (*filelog.Log, []string, journal.Recovery) {
	t.Helper()
	l, found, rec, err := tryOpen(d)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l, found, rec
}

func tryOpen(d file.Folder) (*filelog.Log, []string, journal.Recovery, error) {
	var found []string
	l, rec, err := filelog.Open(d, small, func(r journal.Entry) error {
		found = append(found, string(r.Data))
		return nil
	})
	return l, found, rec, err
}

func add(t testing.TB, l *filelog.Log, how string, entries ...string) {
	t.Helper()
	var group [][]byte
	for _, r := range entries {
		group = append(group, []byte(r))
	}
	if err := l.Append(group, journal.Care{Durable: how == durably}); err != nil {
		t.Fatalf("append: %v", err)
	}
}

func read(t testing.TB, d *disktest.Disk, name string) []byte {
	t.Helper()
	data, err := d.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The bytes in the documentation. Changing them needs a new format version.
func TestFormatIsWhatTheDocumentationSays(t *testing.T) {
	d := disktest.New()
	l, _, _ := open(t, d)
	add(t, l, durably, "lease A", "lease B")
	if err := l.Compact(2, slices.Values([][]byte{[]byte("A and B")})); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []struct{ name, want string }{
		{firstSegment, `
			62657274686c6f67 01000000 31429576
			0100000000000000 01000000000000000000000000000000 00000000 e0bb9f62
			6266726d 0c8b7dfd 16000000 01000000 0100000000000000 0000000000000000
			07000000 6c656173652041 07000000 6c656173652042 0000
			6266726d e6076d1a 10000000 02000000 0300000000000000 0200000000000000
			01000000000000000000000000000000`},
		{"snapshot-00000000000000000002", `
			6265727468736e70 01000000 c3f16271
			0200000000000000 01000000000000000000000000000000 00000000 4d504d81
			6266726d d3fd4dd9 0b000000 01000000 0200000000000000 0000000000000000
			07000000 4120616e642042 0000000000
			6266726d 03e4f775 00000000 03000000 0200000000000000 0100000000000000`},
	} {
		got := read(t, d, file.name)
		want, err := hex.DecodeString(strings.Join(strings.Fields(file.want), ""))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("%s is\n%x\nand should be\n%x", file.name, got[:min(len(got), len(want))], want)
		} else if rest := got[len(want):]; slices.ContainsFunc(rest, func(b byte) bool { return b != 0 }) {
			t.Errorf("%s has more than zeros after that", file.name)
		}
	}
}

func TestNewerVersionIsRefused(t *testing.T) {
	for _, name := range []string{firstSegment, "snapshot-00000000000000000001"} {
		d := disktest.New()
		l, _, _ := open(t, d)
		add(t, l, durably, "one")
		if err := l.Compact(1, slices.Values([][]byte{[]byte("one")})); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		data := read(t, d, name)
		binary.LittleEndian.PutUint32(data[8:], 7)
		binary.LittleEndian.PutUint32(data[12:], crc32.Checksum(data[:12], crc32.MakeTable(crc32.Castagnoli)))
		d.WriteFile(name, data)

		_, _, _, err := tryOpen(d)
		var version *journal.VersionError
		if !errors.As(err, &version) || version.File != name || version.Found != 7 || version.Known != 1 {
			t.Fatalf("open: %v", err)
		}
		if _, err := filelog.Salvage(d, anything, nil); !errors.As(err, &version) {
			t.Fatalf("salvage: %v", err)
		}
		if !slices.Equal(read(t, d, name), data) {
			t.Fatal("it was changed")
		}
	}
}
