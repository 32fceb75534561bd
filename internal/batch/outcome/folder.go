package outcome

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// folder is the open folder beside an output. It belongs to this user, and
// nobody else can write into it. All its files are opened through it, by names
// without slashes, and without following links.
type folder struct {
	dir *os.File
}

// makeFolder opens the folder beside an output, or creates it. It creates no
// folder above it: that name is probably mistyped.
//
// It uses an existing folder only if that belongs to this user. It checks the
// open folder and not the name: the name may stand for something else a moment
// later.
func (s *site) makeFolder() (*folder, error) {
	name, path := s.name+folderEnding, s.path+folderEnding
	fd := -1
	for fd < 0 {
		if err := unix.Mkdirat(int(s.dir.Fd()), name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("output: %w", &fs.PathError{Op: "mkdir", Path: path, Err: err})
		}
		var err error
		fd, err = unix.Openat(int(s.dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist): // another run has removed the folder
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
			return nil, fmt.Errorf("%w: %s is not a folder, and berth needs a folder of that name for unfinished work: remove it, or choose an output elsewhere", ErrUnsafe, path)
		default:
			return nil, fmt.Errorf("output: %w", &fs.PathError{Op: "open", Path: path, Err: err})
		}
	}
	f := &folder{dir: os.NewFile(uintptr(fd), path)}
	if err := f.check(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// check refuses a folder of another user, and removes the right of others to
// write into it: older versions of berth created folders with the user's mask,
// which may let a group write.
func (f *folder) check() error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.dir.Fd()), &stat); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if stat.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("%w: %s belongs to user %d, and you are user %d: remove it, choose an output elsewhere, or run berth as that user", ErrUnsafe, f.dir.Name(), stat.Uid, os.Geteuid())
	}
	const writable = 0o022
	if stat.Mode&writable == 0 {
		return nil
	}
	if err := f.dir.Chmod(fs.FileMode(stat.Mode & 0o777 &^ writable)); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if err := unix.Fstat(int(f.dir.Fd()), &stat); err != nil || stat.Mode&writable != 0 {
		return fmt.Errorf("%w: others may write into %s, and its file system does not keep permissions: choose an output on another one", ErrUnsafe, f.dir.Name())
	}
	return nil
}

// path returns the path of a file in the folder, for messages and for readers.
func (f *folder) path(name string) string { return filepath.Join(f.dir.Name(), name) }

// open opens a file in the folder for reading and writing, and creates it with
// this mode if flag has O_CREATE. Before it writes or cuts anything, it makes
// sure that the file belongs to this user and has no other name: a link that
// somebody put there may lead to any file.
func (f *folder) open(name string, flag int, mode fs.FileMode) (*os.File, error) {
	path := f.path(name)
	fd, err := unix.Openat(int(f.dir.Fd()), name, flag&os.O_CREATE|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, uint32(mode.Perm()))
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENXIO) {
		return nil, strangeFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("output: %w", &fs.PathError{Op: "open", Path: path, Err: err})
	}
	file := os.NewFile(uintptr(fd), path)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, errors.Join(fmt.Errorf("output: %w", err), file.Close())
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Nlink > 1 || stat.Uid != uint32(os.Geteuid()) {
		return nil, errors.Join(strangeFile(path), file.Close())
	}
	if flag&os.O_TRUNC != 0 {
		if err := file.Truncate(0); err != nil {
			return nil, errors.Join(writeError("shorten", path, err), file.Close())
		}
	}
	return file, nil
}

func strangeFile(path string) error {
	return fmt.Errorf("%w: %s is a link, or not a file of yours, and berth did not make it: remove it, or choose an output elsewhere", ErrUnsafe, path)
}

// state returns the state of a name in the folder. It does not follow a link.
func (f *folder) state(name string) (unix.Stat_t, error) {
	return stateAt(f.dir, name, f.path(name))
}

// stateAt returns the state of a name in a folder. It does not follow a link.
func stateAt(dir *os.File, name, path string) (stat unix.Stat_t, err error) {
	if err := unix.Fstatat(int(dir.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return stat, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return stat, nil
}

// remove removes files of the folder, if they exist.
func (f *folder) remove(names ...string) error {
	for _, name := range names {
		if err := unix.Unlinkat(int(f.dir.Fd()), name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &fs.PathError{Op: "remove", Path: f.path(name), Err: err}
		}
	}
	return nil
}

func (f *folder) close() { _ = f.dir.Close() }

// removeFolder removes the folder, which is empty.
func (s *site) removeFolder() error {
	err := unix.Unlinkat(int(s.dir.Fd()), s.name+folderEnding, unix.AT_REMOVEDIR)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "remove", Path: s.path + folderEnding, Err: err}
	}
	return nil
}

// lock opens and locks the journal. It returns no file if another run has
// finished meanwhile, and removed the journal or the folder.
func (f *folder) lock() (*os.File, error) {
	file, err := f.open(journalName, os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := flock(file); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s is locked (%w)", ErrBusy, file.Name(), err), file.Close())
	}
	var mine unix.Stat_t
	err = unix.Fstat(int(file.Fd()), &mine)
	named, err2 := f.state(journalName)
	switch {
	case err == nil && err2 == nil && mine.Dev == named.Dev && mine.Ino == named.Ino:
		return file, nil
	case err2 != nil && !errors.Is(err2, fs.ErrNotExist):
		err = errors.Join(err, err2)
	}
	return nil, errors.Join(err, file.Close())
}

// flock locks a file, or fails after a moment: a runner that was killed while
// it started a worker leaves behind a process that holds the lock a little
// longer.
func flock(f *os.File) error {
	const moment, look = 500 * time.Millisecond, 10 * time.Millisecond
	for waited := time.Duration(0); ; waited += look {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || waited >= moment {
			return err
		}
		time.Sleep(look)
	}
}
