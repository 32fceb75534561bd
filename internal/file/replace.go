package file

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// suffix is added to the name of a file for the temporary file beside it, which gets the
// new text. A killed writer leaves at most that file, and the next write replaces it.
// Only one writer at a time may replace a file.
const suffix = ".new"

// Replace replaces the state file at path by one with this text, which only its owner can
// read. It returns when the file is on disk.
func Replace(path string, text []byte) error {
	return Put(folderOf(path), filepath.Base(path), suffix, Seal(path, text), true)
}

// ReplacePlain replaces a file that is not a state file and has no checksum. It does not
// wait for the disk.
func ReplacePlain(path string, text []byte) error {
	return Put(folderOf(path), filepath.Base(path), suffix, text, false)
}

// folderOf returns the folder of a file, which must be there.
func folderOf(path string) Folder { return real(dir{folder: filepath.Dir(path), fileMode: 0o600}) }

// Put replaces a file of a folder, in one step, by one with this text, whose name ends with
// suffix until it is whole. If durable, Put returns when the file is on disk.
func Put(folder Folder, name, suffix string, text []byte, durable bool) error {
	temp := name + suffix
	err := create(folder, temp, text, durable)
	if err == nil {
		err = folder.Rename(temp, name)
	}
	switch {
	case err != nil:
		return errors.Join(err, removeIfThere(folder, temp))
	case durable:
		return folder.Sync()
	}
	return nil
}

func create(folder Folder, name string, text []byte, durable bool) error {
	f, err := folder.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	if err == nil && durable {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// RemoveStale removes the temporary files that earlier versions of berth left in a folder
// when they were killed: regular files called ".new-" and a number. A folder that does
// not exist has none.
func RemoveStale(folder string) error {
	d := dir{folder: folder}
	names, err := Names(d)
	if err != nil {
		return fmt.Errorf("list %s: %w", folder, err)
	}
	var failed []error
	for _, name := range names {
		if isStale(name) {
			failed = append(failed, removeIfThere(d, name))
		}
	}
	return errors.Join(failed...)
}

// isStale reports whether os.CreateTemp made a name from the pattern ".new-*".
func isStale(name string) bool {
	number, is := strings.CutPrefix(name, ".new-")
	return is && number != "" && strings.Trim(number, "0123456789") == ""
}

// Save writes a file that a user named, in a folder that others may share, completely or
// not at all. It writes a temporary file beside it and renames that. If the file is not
// regular, such as a pipe or /dev/null, Save writes to it instead of replacing it.
func Save(path string, write func(io.Writer) error) error { return save(path, 0, write) }

// SaveSecret does what Save does, for a file that only its owner may read, whatever the
// mode of the present file is. The file is on disk when SaveSecret returns. It writes to no
// pipe and no device, behind which anybody may read.
func SaveSecret(path string, write func(io.Writer) error) error {
	if err := save(path, 0o600, write); err != nil {
		return err
	}
	return folderOf(path).Sync()
}

// save saves a file. The mode 0 stands for that of the present file.
func save(path string, most fs.FileMode, write func(io.Writer) error) error {
	path, mode, err := target(path)
	if err != nil {
		return err
	}
	if most != 0 && mode.IsRegular() {
		mode = most
	}
	switch {
	case mode.IsRegular():
	case most != 0:
		return fmt.Errorf("%s is no regular file, and what reads it may be anybody's: name a file", path)
	default:
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := createBeside(path, mode)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	buffer := bufio.NewWriter(f)
	if err := write(buffer); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(buffer.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// target follows links, so that a link to a file stays one, and returns the mode of the
// present file. A link that leads nowhere, or what somebody else may have laid as a trap, is
// replaced itself. The mode of a new file depends on the user's umask.
func target(path string) (string, fs.FileMode, error) {
	at := path
	for range maxLinks {
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if info, err = os.Stat(path); err == nil { // a link of /proc, to what has no name
				return path, info.Mode(), nil
			}
			return path, 0o666, nil
		case err != nil:
			return "", 0, err
		case info.IsDir():
			return "", 0, fmt.Errorf("%s is a folder: name a file", path)
		}
		folder, err := filepath.EvalSymlinks(filepath.Dir(at))
		if err != nil {
			return "", 0, err
		}
		if trap, err := isTrap(folder, info); trap || err != nil {
			return at, 0o666, err
		}
		if info.Mode().Type() != fs.ModeSymlink {
			return at, info.Mode(), nil
		}
		to, err := os.Readlink(at)
		if err != nil {
			return "", 0, err
		}
		if at = to; !filepath.IsAbs(at) {
			at = folder + "/" + to // not cleaned: it may lead through further links
		}
	}
	return "", 0, &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}

// isTrap reports whether another user than root put a link, a pipe or a file into a folder in
// which everybody may make files, such as /tmp. The kernel opens no file by such a link, but
// tells where it leads, and it opens such a pipe for whoever does not want to make a file.
func isTrap(folder string, there fs.FileInfo) (bool, error) {
	info, err := os.Stat(folder)
	if err != nil {
		return false, err
	}
	own, is := there.Sys().(*syscall.Stat_t)
	shared := info.Mode()&fs.ModeSticky != 0 && info.Mode().Perm()&0o002 != 0
	return shared && is && own.Uid != 0 && int(own.Uid) != os.Geteuid(), nil
}

// createBeside makes an empty file in the folder of path, under a name that nobody can
// guess, so that nobody can prepare a trap there.
func createBeside(path string, mode fs.FileMode) (*os.File, error) {
	name := fmt.Sprintf(".%s.%x", filepath.Base(path), rand.Uint64())
	return os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
}
