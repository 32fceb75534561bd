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
)

// Save writes a file that a user named, in a folder that others may share, completely or
// not at all. It writes a temporary file beside it and renames that. If the file is not
// regular, such as a pipe or /dev/null, Save writes to it instead of replacing it.
func Save(path string, write func(io.Writer) error) error {
	path, mode, err := target(path)
	if err != nil {
		return err
	}
	if !mode.IsRegular() {
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
// present file. The mode of a new file depends on the user's umask.
func target(path string) (string, fs.FileMode, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, 0o666, nil
	case err != nil:
		return "", 0, err
	case info.IsDir():
		return "", 0, fmt.Errorf("%s is a folder: name a file", path)
	}
	return path, info.Mode(), nil
}

// createBeside makes an empty file in the folder of path, under a name that nobody can
// guess, so that nobody can prepare a trap there.
func createBeside(path string, mode fs.FileMode) (*os.File, error) {
	name := fmt.Sprintf(".%s.%x", filepath.Base(path), rand.Uint64())
	return os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
}
