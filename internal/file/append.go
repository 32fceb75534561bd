package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Folder is a folder with files that are appended to.
type Folder interface {
	// Names returns the names of the files, in no order. A folder that does not
	// exist has none.
	Names() ([]string, error)
	Read(name string) ([]byte, error)
	// Append opens a file for appending. It creates the file and the folder if they do
	// not exist.
	Append(name string) (Appender, error)
	// Rename gives a file another name, which must be unused.
	Rename(from, to string) error
	Remove(name string) error
}

// Appender is a file that is open for appending.
type Appender interface {
	// Write appends with one write. It returns an error if it did not write everything.
	Write(b []byte) (int, error)
	// Size returns the length of the file, or an error if its name leads to another file
	// or none: then nobody would read what is appended.
	Size() (int64, error)
	// Sync waits until the disk has what was written.
	Sync() error
	Close() error
}

// Dir returns a folder of the operating system that its owner may write to and its group
// may read.
func Dir(path string) Folder { return dir{path, 0o750, 0o640} }

// PrivateDir returns a folder of the operating system that only its owner may use.
func PrivateDir(path string) Folder { return dir{path, 0o700, 0o600} }

// ErrMoved reports that the name of an open file leads to another file or none.
var ErrMoved = errors.New("the file was removed or replaced while it was open")

type dir struct {
	folder               string
	folderMode, fileMode fs.FileMode
}

func (d dir) path(name string) string { return filepath.Join(d.folder, name) }

func (d dir) Names() ([]string, error) {
	entries, err := os.ReadDir(d.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (d dir) Read(name string) ([]byte, error) { return os.ReadFile(d.path(name)) }

func (d dir) Append(name string) (Appender, error) {
	if err := d.make(); err != nil {
		return nil, err
	}
	// Do not follow a link: it may lead to somebody else's file.
	f, err := os.OpenFile(d.path(name), os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, d.fileMode)
	if err != nil {
		return nil, err
	}
	if err := settle(f, d.fileMode); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &appender{f, d.path(name)}, d.sync()
}

// make makes the folder with its mode, whatever the umask is.
func (d dir) make() error {
	err := os.Mkdir(d.folder, d.folderMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(d.folder, d.folderMode)
}

// settle refuses a file that is not regular, and sets its mode, whatever the umask or an
// administrator made of it.
func settle(f *os.File, mode fs.FileMode) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "append to", Path: f.Name(), Err: errIrregular}
	}
	if info.Mode().Perm() == mode {
		return nil
	}
	return f.Chmod(mode)
}

func (d dir) Rename(from, to string) error {
	if _, err := os.Lstat(d.path(to)); err == nil {
		return &fs.PathError{Op: "rename to", Path: d.path(to), Err: fs.ErrExist}
	}
	if err := os.Rename(d.path(from), d.path(to)); err != nil {
		return err
	}
	return d.sync()
}

func (d dir) Remove(name string) error { return os.Remove(d.path(name)) }

// sync makes the names of the files durable.
func (d dir) sync() error {
	f, err := os.Open(d.folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

type appender struct {
	*os.File
	path string
}

func (f *appender) Size() (int64, error) {
	ours, err := f.Stat()
	if err != nil {
		return 0, err
	}
	there, err := os.Lstat(f.path)
	if err != nil || !os.SameFile(ours, there) {
		return 0, ErrMoved
	}
	return ours.Size(), nil
}

// Sync does not sync the times of the file, which nobody needs after a crash.
func (f *appender) Sync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
