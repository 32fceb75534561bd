// Package tail finds the last lines of a file.
package tail

import (
	"bytes"
	"io"
	"os"
)

// block is how much is read at a time.
const block = 64 << 10

// Seek moves the position in a file to the beginning of its last lines. A last line
// without an end counts as one.
func Seek(f *os.File, lines int) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	buffer := make([]byte, block)
	for end, missing := size, lines; end > 0; {
		part := buffer[:min(end, block)]
		begin := end - int64(len(part))
		if _, err := f.ReadAt(part, begin); err != nil && err != io.EOF {
			return err
		}
		if end == size && part[len(part)-1] == '\n' {
			part = part[:len(part)-1] // it ends the last line, and begins none
		}
		for {
			at := bytes.LastIndexByte(part, '\n')
			if at < 0 {
				break
			}
			if missing--; missing == 0 {
				_, err := f.Seek(begin+int64(at)+1, io.SeekStart)
				return err
			}
			part = part[:at]
		}
		end = begin
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}
