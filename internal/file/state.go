package file

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

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

// Damage reports that a state file cannot be read, and where the file is kept.
type Damage struct {
	Path  string
	Aside string // where the file is now; empty if it could not be set aside
	Lost  string // the consequences, in sentences for people
	Err   error  // what is wrong with the file
}

// String says what is wrong, where the file is kept, and what the consequences are.
func (d *Damage) String() string {
	kept := "is kept as " + filepath.Base(d.Aside)
	if d.Aside == "" {
		kept = "could not be set aside"
	}
	return strings.TrimSpace(fmt.Sprintf("%s is damaged and %s: %v. %s", filepath.Base(d.Path), kept, d.Err, d.Lost))
}

// Check reads a state file and passes its text to take. It returns an error that says
// what is wrong if the file is damaged or take refuses the text. For a file that does not
// exist, Check returns nil and does not call take.
func Check(path string, take func(text []byte) error) error {
	file, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := Unseal(path, file)
	if err != nil {
		return err
	}
	return take(text)
}

// Load does what Check does, and sets a damaged file aside. It returns nil if all is
// well. lost names the consequences of damage.
func Load(path, lost string, take func(text []byte) error) *Damage {
	if err := Check(path, take); err != nil {
		return SetAside(path, lost, nil, err)
	}
	return nil
}

// Salvage returns as much of a damaged file as can be read.
func Salvage(path string) []byte {
	text, _ := read(path) // return what could be read
	return text
}

// SetAside keeps a damaged file under another name. If instead is not nil, SetAside
// writes it to path: whenever the daemon is killed, the next one finds the damaged file
// or that text.
func SetAside(path, lost string, instead []byte, why error) *Damage {
	d := &Damage{Path: path, Aside: AsideName(path, time.Now()), Lost: lost, Err: why}
	var err error
	if instead != nil {
		err = os.Link(path, d.Aside)
	}
	if instead == nil || err != nil { // a folder cannot be linked
		err = os.Rename(path, d.Aside)
	}
	if err != nil {
		d.Aside, d.Err = "", errors.Join(why, err)
	}
	if instead != nil {
		if err := Replace(path, instead); err != nil {
			d.Err = errors.Join(d.Err, err)
		}
	}
	return d
}

// damagedMark is in the name of every file that was set aside.
const damagedMark = ".damaged-"

// AsideName returns the name under which a damaged file is kept.
func AsideName(name string, now time.Time) string {
	return name + damagedMark + now.UTC().Format("20060102T150405.000000Z")
}

// Asides returns the names of the damaged files that are kept in a folder.
func Asides(folder string) (names []string) {
	entries, _ := os.ReadDir(folder) // a folder that cannot be read has none to show
	for _, e := range entries {
		if strings.Contains(e.Name(), damagedMark) {
			names = append(names, e.Name())
		}
	}
	return names
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
