// Package file reads and writes the files of a daemon so that neither a crash
// nor another user spoils them.
//
// A State is a state file with a value. It is replaced as a whole: after a crash a file
// is the old one or the new one, never half of either. It carries a checksum. A damaged
// one is set aside under another name, so that the daemon can start without it and report
// the damage.
//
// Logs are in a Folder: the journal writes to its files, and Lines is one to which the audit
// log and the events append. SealLine gives a line a checksum. Dir is a real folder; tests have one that can crash.
//
// ReadTrusted reads files that decide what the daemon does, such as its configuration,
// rules, tokens, certificates and keys. It refuses a file that somebody other than root
// or the daemon's user can change, whatever its contents, because such a file is a way to
// run commands as the daemon.
//
// Save writes files of users, which may be anywhere, under temporary names that nobody
// can foresee.
package file

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

var errIrregular = errors.New("it is not a regular file")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A state file begins with a line that has the name of the file, and the length
// and the checksum of the text after it:
//
//	# berth tokens.json: 412 bytes, crc32c 5d0a9c1e
//
// A file without that line was written by an earlier version of berth, or mended by
// somebody: it is read as it is.
const mark = "# berth "

// largest is the maximum size of the text of a state file, and sealRoom is more than the
// line before it takes.
const (
	largest  = 64 << 20
	sealRoom = 1 << 10
)

// seal returns the first line of a state file with this name and text.
func seal(name string, text []byte) []byte {
	return fmt.Appendf(nil, "%s%s: %d bytes, crc32c %08x\n", mark, name, len(text), crc32.Checksum(text, castagnoli))
}

// Seal returns the contents of the state file at path with this text.
func Seal(path string, text []byte) []byte {
	return append(seal(filepath.Base(path), text), text...)
}

// Unseal returns the text of the state file at path with the contents file, or an error
// that says what is wrong with it.
func Unseal(path string, file []byte) ([]byte, error) {
	name := filepath.Base(path)
	if len(file) == 0 {
		return nil, errors.New("it is empty")
	}
	if !bytes.HasPrefix(file, []byte(mark[:min(len(mark), len(file))])) {
		return file, nil
	}
	line, text, _ := bytes.Cut(file, []byte("\n"))
	if string(line)+"\n" == string(seal(name, text)) {
		return text, nil
	}
	of, rest, _ := strings.Cut(strings.TrimPrefix(string(line), mark), ": ")
	var length int
	switch n, _ := fmt.Sscanf(rest, "%d bytes,", &length); {
	case n == 1 && of != name:
		return nil, fmt.Errorf("it holds the text of %s", of)
	case n == 1 && len(text) != length:
		return nil, fmt.Errorf("it has %d bytes after its first line, and %d were written", len(text), length)
	}
	return nil, errors.New("its checksum is wrong")
}

// read reads a file. It refuses what is not a regular file, without waiting for it.
func read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errIrregular
	}
	if info.Size() > largest+sealRoom {
		return nil, fmt.Errorf("it is larger than %d MiB", largest>>20)
	}
	return io.ReadAll(io.LimitReader(f, largest+sealRoom))
}

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
