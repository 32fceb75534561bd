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

// Save writes a file that a user named, in a folder that others may share: whole
// or not at all. It writes beside the place of the file and moves the result
// there. What is no regular file, such as a pipe or /dev/null, it does not
// replace but writes to.
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
	defer os.Remove(f.Name()) // gone already when all went well
	buffer := bufio.NewWriter(f)
	if err := write(buffer); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(buffer.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// target follows links, so that a link to a file stays one, and returns the mode
// of what is there now. A new file is as readable as the user's mask makes it.
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

// createBeside makes an empty file in the folder of path, under a name that
// nobody can guess and put a trap under.
func createBeside(path string, mode fs.FileMode) (*os.File, error) {
	name := fmt.Sprintf(".%s.%x", filepath.Base(path), rand.Uint64())
	return os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
}
