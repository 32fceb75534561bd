package file

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Folder is a folder, and everything that the files of berth need from an operating
// system. Dir and PrivateDir are real ones; package disktest has one that can crash.
type Folder interface {
	// Lock locks the folder for this process until Close, and makes it and the folders
	// around it if needed. It returns a *LockedError if another process has the lock.
	Lock() (io.Closer, error)

	// List returns the names of the files, in no order.
	List() ([]string, error)
	ReadFile(name string) ([]byte, error)

	// Create opens a new file for writing. It removes an earlier file with the name.
	Create(name string) (File, error)
	// Open opens an existing file for writing.
	Open(name string) (File, error)
	// Rename replaces whatever has the new name, in one step.
	Rename(from, to string) error
	Remove(name string) error

	// Sync makes the names of the files durable. It does not touch their contents.
	Sync() error

	// Boot returns an id that differs for each boot of the machine, or zero if it is
	// unknown.
	Boot() BootID
}

// File is a file open for writing.
type File interface {
	// WriteAt writes with one write. It returns an error if it did not write everything.
	WriteAt(b []byte, off int64) (int, error)
	// Size returns the length of the file, or an error if the name under which it was
	// opened leads to another file or none: then nobody would read what is written.
	Size() (int64, error)
	// Sync makes durable what was written, and the size if reading needs it.
	Sync() error
	Close() error
}

// BootID names one boot of one machine.
type BootID [16]byte

// ErrMoved reports that the name of an open file leads to another file or none.
var ErrMoved = errors.New("the file was removed or replaced while it was open")

// LockedError reports that another process uses a folder.
type LockedError struct {
	Dir string
	PID int // 0 if not known
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("%s is in use by %s: stop that daemon, or give this one its own state directory", e.Dir, who)
}

// Names returns the names of the files in a folder. A folder that does not exist has
// none.
func Names(f Folder) ([]string, error) {
	names, err := f.List()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// Dir returns a folder of the operating system that its owner may write to and its group
// may read. The first file, or the lock, makes it.
func Dir(path string) Folder { return real(dir{path, 0o750, 0o640}) }

// PrivateDir returns a folder of the operating system that only its owner may use. The
// first file, or the lock, makes it.
func PrivateDir(path string) Folder { return real(dir{path, 0o700, 0o600}) }

// dir is a folder of the operating system.
type dir struct {
	folder               string
	folderMode, fileMode fs.FileMode // with the folderMode 0, nothing makes the folder
}

const lockFile = "lock"

func (d dir) path(name string) string { return filepath.Join(d.folder, name) }

// Lock uses flock: the kernel releases the lock when the process ends in any way. The pid
// in the file is only for the error message of the next process.
func (d dir) Lock() (io.Closer, error) {
	if err := os.MkdirAll(filepath.Dir(d.folder), 0o700); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	if err := d.make(); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	f, err := os.OpenFile(d.path(lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w (the daemon needs to write to its state directory)", err)
	}
	take := func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
	err = take()
	for late := time.Now().Add(inherited); errors.Is(err, unix.EWOULDBLOCK) && d.lockedByGone() && time.Now().Before(late); err = take() {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &LockedError{Dir: d.folder, PID: d.lockedBy()}
		}
		return nil, fmt.Errorf("lock %s: %w (the state directory must be on a file system with locks)", f.Name(), err)
	}
	// On a full disk this leaves an empty file, which means that the pid is
	// unknown.
	f.Truncate(0)
	f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return f, nil
}

// inherited is how long a process that was killed while it started another one may still
// have its locks: the other one has them until it runs its program.
const inherited = 2 * time.Second

// lockedByGone reports whether the process that has the lock has ended.
func (d dir) lockedByGone() bool {
	pid := d.lockedBy()
	return pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

func (d dir) lockedBy() int {
	text, _ := os.ReadFile(d.path(lockFile))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text))) // 0 if it is not known
	return pid
}

// make makes the folder with its mode, whatever the umask is. The folder around it must
// be there: files do not come back by themselves after somebody has removed all of them.
func (d dir) make() error {
	if d.folderMode == 0 {
		return nil
	}
	err := os.Mkdir(d.folder, d.folderMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(d.folder, d.folderMode), dir{folder: filepath.Dir(d.folder)}.Sync())
}

func (d dir) List() ([]string, error) {
	entries, err := os.ReadDir(d.folder)
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

func (d dir) ReadFile(name string) ([]byte, error) { return os.ReadFile(d.path(name)) }
func (d dir) Rename(from, to string) error         { return os.Rename(d.path(from), d.path(to)) }
func (d dir) Remove(name string) error             { return os.Remove(d.path(name)) }

// Create does not open what an earlier writer left under the name, because it may be a
// link, a pipe, or readable by others.
func (d dir) Create(name string) (File, error) {
	if err := errors.Join(d.make(), removeIfThere(d, name)); err != nil {
		return nil, err
	}
	return d.open(name, os.O_CREATE|os.O_EXCL)
}

func (d dir) Open(name string) (File, error) { return d.open(name, 0) }

// open follows no link, which may lead to somebody else's file. It refuses a file that is
// not regular, without waiting for it, and sets its mode, whatever the umask or an
// administrator made of it.
func (d dir) open(name string, flags int) (File, error) {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|flags, d.fileMode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: errIrregular}
	case info.Mode().Perm() != d.fileMode:
		err = f.Chmod(d.fileMode)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &dirFile{f, d.path(name)}, nil
}

func (d dir) Sync() error {
	f, err := os.Open(d.folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d dir) Boot() BootID {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return BootID{}
	}
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	if err != nil || len(b) != len(BootID{}) {
		return BootID{}
	}
	return BootID(b)
}

// removeIfThere removes a file. It is no error if there is none.
func removeIfThere(f Folder, name string) error {
	if err := f.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// dirFile is an open file.
type dirFile struct {
	*os.File
	path string
}

func (f *dirFile) Size() (int64, error) {
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
func (f *dirFile) Sync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
