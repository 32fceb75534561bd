// Package tail finds the last lines of a file.
package tail

import (
	"bytes"
	"io"
)

// block is how much is read at a time.
const block = 64 << 10

// Start returns where the last lines of a part of a file begin: the part from first to end.
// It returns first if there are no more lines than that. A last line without an end counts
// as one.
func Start(f io.ReaderAt, first, end int64, lines int) (int64, error) {
	buffer := make([]byte, block)
	missing := lines
	for at := end; at > first; {
		begin := max(at-block, first)
		part := buffer[:at-begin]
		if _, err := f.ReadAt(part, begin); err != nil && err != io.EOF {
			return 0, err
		}
		if at == end && part[len(part)-1] == '\n' {
			part = part[:len(part)-1] // it ends the last line, and begins none
		}
		for i := bytes.LastIndexByte(part, '\n'); i >= 0; i = bytes.LastIndexByte(part[:i], '\n') {
			if missing--; missing == 0 {
				return begin + int64(i) + 1, nil
			}
		}
		at = begin
	}
	return first, nil
}
