package file

import (
	"bytes"
	"fmt"
	"hash/crc32"
)

// A sealed line is an object of JSON whose last member is the checksum of what is
// before it, so that programs which do not know of it read the line as before:
//
//	{"name":"ci","role":"user","crc32c":"5d0a9c1e"}
const (
	sealBegin = `,"crc32c":"`
	sealEnd   = `"}`
	sealSize  = len(sealBegin) + 8 + len(sealEnd)
)

// SealLine returns an object of JSON, which has members and no newline, with its
// checksum.
func SealLine(object []byte) []byte {
	text := object[:len(object)-1]
	return fmt.Appendf(bytes.Clone(text), "%s%08x%s", sealBegin, crc32.Checksum(text, castagnoli), sealEnd)
}

// UnsealLine returns an object of JSON without its checksum, and whether it had one.
// An earlier berth wrote lines without. Sound is false if the checksum is wrong.
func UnsealLine(line []byte) (object []byte, sealed, sound bool) {
	at := len(line) - sealSize
	if at < 0 || !bytes.HasPrefix(line[at:], []byte(sealBegin)) || !bytes.HasSuffix(line, []byte(sealEnd)) {
		return line, false, true
	}
	object = append(bytes.Clone(line[:at]), '}')
	return object, true, bytes.Equal(line, SealLine(object))
}
