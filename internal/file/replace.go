package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// suffix is added to the name of a file for the temporary file beside it, which gets the
// new text. A killed writer leaves at most that file, and the next write replaces it.
// Only one writer at a time may replace a file.
const suffix = ".new"

// Replace replaces the state file at path by one with this text, which only its owner can
// read. It returns when the file is on disk.
func Replace(path string, text []byte) error { return replace(path, sealed(path, text), true) }

// ReplaceUnsynced does what Replace does, but does not wait for the disk. It is for texts
// that are not worth the wait: after a power loss the file may be empty.
func ReplaceUnsynced(path string, text []byte) error { return replace(path, sealed(path, text), false) }

// ReplacePlain replaces a file that is not a state file and has no checksum. It does not
// wait for the disk.
func ReplacePlain(path string, text []byte) error { return replace(path, text, false) }

func replace(path string, text []byte, durable bool) error {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(path)
	temp := name + suffix
	if err := create(dir, temp, text, durable); err != nil {
		return errors.Join(err, removeIfThere(dir, temp))
	}
	if err := dir.Rename(temp, name); err != nil {
		return errors.Join(err, removeIfThere(dir, temp))
	}
	if !durable {
		return nil
	}
	return syncFolder(dir)
}

// create writes a new file. It removes what an earlier writer left under its name and
// does not open it, because it may be a link, a pipe, or readable by others.
func create(dir *os.Root, name string, text []byte, durable bool) error {
	if err := removeIfThere(dir, name); err != nil {
		return err
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil && durable {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func removeIfThere(dir *os.Root, name string) error {
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func syncFolder(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// RemoveStale removes the temporary files that earlier versions of berth left in a folder
// when they were killed: regular files called ".new-" and a number. A folder that does
// not exist has none.
func RemoveStale(folder string) error {
	dir, err := os.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return fmt.Errorf("list %s: %w", folder, err)
	}
	var failed []error
	for _, e := range entries {
		if e.Type().IsRegular() && isStale(e.Name()) {
			failed = append(failed, removeIfThere(dir, e.Name()))
		}
	}
	return errors.Join(failed...)
}

// isStale reports whether os.CreateTemp made a name from the pattern ".new-*".
func isStale(name string) bool {
	number, is := strings.CutPrefix(name, ".new-")
	return is && number != "" && strings.Trim(number, "0123456789") == ""
}
