package file

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Lines is an open file of a folder, to which lines are appended. Whenever the process is
// killed, the file has whole lines, and behind them at most the beginning of one.
//
// One goroutine at a time appends; others may call Sync meanwhile. A nil *Lines is closed.
type Lines struct {
	folder Folder
	name   string
	size   int64

	mu   sync.Mutex // held during a sync, and while the file is closed
	file File       // nil if it is closed
}

// OpenLines opens a file of a folder, and makes it if there is none. Its name is on disk
// then.
func OpenLines(folder Folder, name string) (*Lines, error) {
	f, err := folder.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = folder.Create(name)
	}
	if err != nil {
		return nil, err
	}
	l := &Lines{folder: folder, name: name, file: f}
	if l.size, err = f.Size(); err == nil {
		err = folder.Sync() // whoever made it may have been killed
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Stands reports whether the file is open, has its name, and is as long as Append made it.
// Otherwise somebody has removed or changed it.
func (l *Lines) Stands() bool {
	if l == nil || l.file == nil {
		return false
	}
	size, err := l.file.Size()
	return err == nil && size == l.size
}

// Size returns the length of the file.
func (l *Lines) Size() int64 { return l.size }

// Append appends whole lines with one write. After an error, the file is closed, and may end
// with a part of them.
func (l *Lines) Append(lines []byte) error {
	n, err := l.file.WriteAt(lines, l.size)
	if err != nil {
		l.Close()
		return err
	}
	l.size += int64(n)
	return nil
}

// Sync waits until the disk has what was appended. It calls begun as soon as nobody can
// close the file before that.
func (l *Lines) Sync(begun func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	begun()
	return l.file.Sync()
}

// Rename gives the file another name, which must be unused. It does not sync the file, which
// stands no more.
func (l *Lines) Rename(name string) error {
	names, err := l.folder.List()
	if err != nil {
		return err
	}
	if slices.Contains(names, name) {
		return &fs.PathError{Op: "rename to", Path: name, Err: fs.ErrExist}
	}
	if err := l.folder.Rename(l.name, name); err != nil {
		return err
	}
	return l.folder.Sync()
}

// Close closes the file. It does nothing if the file is closed.
func (l *Lines) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close() // what was written is there, whatever it says
		l.file = nil
	}
}

// UnsealLines yields the lines of a text without their ends and their checksums, and
// whether each is as it was written: it has an end, and no wrong checksum.
func UnsealLines(text []byte) iter.Seq2[[]byte, bool] {
	return func(yield func([]byte, bool) bool) {
		for line := range bytes.Lines(text) {
			line, ends := bytes.CutSuffix(line, []byte("\n"))
			object, _, sound := UnsealLine(line)
			if !yield(object, ends && sound) {
				return
			}
		}
	}
}

// WholeLines returns a text without the beginning of a line at its end, which is about to be
// written, or was when the daemon was killed.
func WholeLines(text []byte) []byte { return text[:bytes.LastIndexByte(text, '\n')+1] }

// Numbered are names that have a number between a prefix and a suffix.
type Numbered struct {
	Prefix string
	Digits int // at least
	Suffix string
}

// Name returns the name with a number.
func (n Numbered) Name(number uint64) string {
	return fmt.Sprintf("%s%0*d%s", n.Prefix, n.Digits, number, n.Suffix)
}

// Of returns the number in a name; false if it is not one of these names.
func (n Numbered) Of(name string) (number uint64, is bool) {
	number, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(name, n.Prefix), n.Suffix), 10, 64)
	if err != nil || name != n.Name(number) {
		return 0, false
	}
	return number, true
}
