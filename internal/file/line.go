package file

import (
	"bytes"
	"fmt"
	"hash/crc32"
)

// A sealed line is a JSON object whose last member is the checksum of the rest, so that
// programs that do not know the checksum can read the line:
//
//	{"name":"ci","role":"user","crc32c":"5d0a9c1e"}
const (
	sealBegin = `,"crc32c":"`
	sealEnd   = `"}`
	sealSize  = len(sealBegin) + 8 + len(sealEnd)
)

// SealLine returns a JSON object with its checksum. The object must have members and no
// newline.
func SealLine(object []byte) []byte {
	text := object[:len(object)-1]
	return fmt.Appendf(bytes.Clone(text), "%s%08x%s", sealBegin, crc32.Checksum(text, castagnoli), sealEnd)
}

// UnsealLine returns a JSON object without its checksum, and whether it had one: earlier
// versions of berth wrote lines without. sound is false if the checksum is wrong.
func UnsealLine(line []byte) (object []byte, sealed, sound bool) {
	at := len(line) - sealSize
	if at < 0 || !bytes.HasPrefix(line[at:], []byte(sealBegin)) || !bytes.HasSuffix(line, []byte(sealEnd)) {
		return line, false, true
	}
	object = append(bytes.Clone(line[:at]), '}')
	return object, true, bytes.Equal(line, SealLine(object))
}
