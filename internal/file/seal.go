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

// A state file begins with a line that has the name of the file, and the length
// and the checksum of the text after it:
//
//	# berth tokens.json: 412 bytes, crc32c 5d0a9c1e
//
// A file without that line was written by an earlier version of berth, or mended by
// somebody: it is read as it is.
const mark = "# berth "

// largest is the maximum size of a state file.
const largest = 64 << 20

// seal returns the first line of a state file with this name and text.
func seal(name string, text []byte) []byte {
	return fmt.Appendf(nil, "%s%s: %d bytes, crc32c %08x\n", mark, name, len(text), crc32.Checksum(text, castagnoli))
}

func sealed(path string, text []byte) []byte {
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
	if info.Size() > largest {
		return nil, fmt.Errorf("it is larger than %d MiB", largest>>20)
	}
	return io.ReadAll(io.LimitReader(f, largest))
}
