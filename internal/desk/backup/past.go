package backup

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"strings"

	"github.com/berth-gpu/berth/internal/config"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errSum = errors.New("a checksum is wrong")
	errCut = errors.New("it was cut")
)

// checkPast checks a file of what was measured by the checksums in it. The formats are
// those of Prometheus' storage. The storage itself checks as much when it reads a series,
// and is in no program but the daemon.
func checkPast(name string, data []byte) error {
	switch base := path.Base(name); {
	case base == "meta.json":
		var meta struct{ Version int }
		if err := json.Unmarshal(data, &meta); err != nil {
			return err
		}
		if meta.Version > 1 {
			return newer{fmt.Errorf("it has version %d, and this berth knows version 1", meta.Version)}
		}
		return nil
	case base == "index":
		return checkIndex(data)
	case base == "tombstones":
		return checkEnd(data, 5)
	case strings.Contains(name, "/chunks/"):
		return checkChunks(data)
	}
	return checkLog(data)
}

// checkEnd checks a file that ends with the checksum of all after its beginning.
func checkEnd(data []byte, begin int) error {
	end := len(data) - 4
	switch {
	case end < begin:
		return errCut
	case binary.BigEndian.Uint32(data[end:]) != crc32.Checksum(data[begin:end], castagnoli):
		return errSum
	}
	return nil
}

// checkIndex checks an index: its table of contents, and the sections that it names. Series
// have their lengths as variable numbers; all other parts have theirs as four bytes. A
// checksum follows each.
func checkIndex(data []byte) error {
	const contents = 6*8 + 4
	if len(data) < 5+contents {
		return errCut
	}
	end := len(data) - contents
	if err := checkEnd(data[end:], 0); err != nil {
		return err
	}
	var starts []int
	for i := range 6 {
		starts = append(starts, int(min(binary.BigEndian.Uint64(data[end+8*i:]), uint64(end))))
	}
	for i, at := range starts {
		next := end
		for _, other := range starts {
			if other > at {
				next = min(next, other)
			}
		}
		series, align := i == 1, []int{1, 16, 4, 1, 4, 1}[i] // of the parts of symbols, series, label indices, their table, postings, their table
		for at = up(at, align); at > 0 && at+4 < next; {
			length, n := uint64(binary.BigEndian.Uint32(data[at:])), 4
			if series {
				length, n = binary.Uvarint(data[at:next])
			}
			last := at + n + int(length) + 4
			if n <= 0 || length > uint64(end) || last > next {
				return errCut
			}
			if err := checkEnd(data[at+n:last], 0); err != nil {
				return err
			}
			at = up(last, align)
		}
	}
	return nil
}

// up returns the next multiple of a power of two.
func up(n, of int) int { return (n + of - 1) &^ (of - 1) }

// checkChunks checks the checksum of each chunk of samples.
func checkChunks(data []byte) error {
	const header = 8
	if len(data) < header || binary.BigEndian.Uint32(data) != 0x85BD40DD {
		return errCut
	}
	for at := header; at < len(data); {
		length, n := binary.Uvarint(data[at:])
		end := at + n + 1 + int(length) // with the kind of the chunk
		switch {
		case n <= 0 || length > uint64(len(data)) || end+4 > len(data):
			return errCut
		case binary.BigEndian.Uint32(data[end:]) != crc32.Checksum(data[at+n:end], castagnoli):
			return errSum
		}
		at = end + 4
	}
	return nil
}

// checkLog checks the checksum of each part of a record of a log. The end of a log may
// have been cut off when a daemon was killed.
func checkLog(data []byte) error {
	const page, header = 32 << 10, 7
	for at := 0; at < len(data); {
		left := page - at%page
		if left < header || data[at] == 0 { // the rest of the page is empty
			at += left
			continue
		}
		if at+header > len(data) {
			return nil
		}
		length := int(binary.BigEndian.Uint16(data[at+1:]))
		end := at + header + length
		switch {
		case length > left-header:
			return errSum
		case end > len(data):
			return nil
		case binary.BigEndian.Uint32(data[at+3:]) != crc32.Checksum(data[at+header:end], castagnoli):
			return errSum
		}
		at = end
	}
	return nil
}

// checkSaved checks the settings that were changed at run time.
func checkSaved(name string, text []byte) error {
	_, err := config.ParseSaved(name, text)
	return err
}
