package backup

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"strings"
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
		const begin, sum = 5, 4
		return sealed(data, begin, uint64(max(0, len(data)-begin-sum)))
	case strings.Contains(name, "/chunks/"):
		return checkChunks(data)
	}
	return checkLog(data)
}

// sealed checks a part of so many bytes, which its checksum follows.
func sealed(data []byte, at int, length uint64) error {
	if at > len(data) || length > uint64(len(data)-at) {
		return errCut
	}
	text, sum := data[at:at+int(length)], data[at+int(length):]
	switch {
	case len(sum) < 4:
		return errCut
	case binary.BigEndian.Uint32(sum) != crc32.Checksum(text, castagnoli):
		return errSum
	}
	return nil
}

// checkIndex checks an index: its table of contents, and the sections that it names. Series
// have their lengths as variable numbers; all other parts have theirs as four bytes. A
// checksum follows each.
func checkIndex(data []byte) error {
	const contents = 6 * 8
	end := len(data) - contents - 4
	if end < 5 {
		return errCut
	}
	if err := sealed(data, end, contents); err != nil {
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
			if n <= 0 {
				return errCut
			}
			if err := sealed(data[:next], at+n, length); err != nil {
				return err
			}
			at = up(at+n+int(length)+4, align)
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
		if n <= 0 || length > uint64(len(data)) {
			return errCut
		}
		if err := sealed(data, at+n, 1+length); err != nil { // with the kind of the chunk
			return err
		}
		at += n + 1 + int(length) + 4
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
