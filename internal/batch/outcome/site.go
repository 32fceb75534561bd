package outcome

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// site is the place of an output in the file system: the open folder of the
// output, and the name of the output there. The folder stays the same, whatever
// is renamed or linked later.
type site struct {
	dir  *os.File
	path string // path of the output, without links
	name string // name of the output in dir
}

// maxLinks is the most symbolic links that a path may lead through, as for the kernel.
const maxLinks = 40

// locate walks to an output, one name at a time, and follows the symbolic links
// on the way. So a run writes the file that a link leads to, and does not
// replace the link.
//
// It follows a link only if the link belongs to this user, to root, or to the
// owner of the folder that it is in. Anybody may put a link into a folder such
// as /tmp, to a file that only this user may write. Linux can refuse that
// itself (fs.protected_symlinks), and is not always set to.
func locate(output string) (*site, error) {
	fault := func(err error) error { return fmt.Errorf("output %s: %w", output, err) }
	rest := strings.Split(output, "/")
	if rest[len(rest)-1] == "" {
		return nil, fault(errors.New("this names a folder: name a file in it"))
	}
	at, path := unix.AT_FDCWD, ""
	defer func() { closeFolder(at) }()
	if rest[0] == "" {
		var err error
		if at, err = openFolder(at, "/"); err != nil {
			return nil, fault(err)
		}
		path = "/"
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		target, kind, err := look(at, name)
		here := filepath.Join(path, name)
		switch {
		case len(rest) == 0 && (errors.Is(err, fs.ErrNotExist) || err == nil && kind != unix.S_IFLNK && kind != unix.S_IFDIR):
			dir, err := readableFolder(at, path)
			if err != nil {
				return nil, fault(err)
			}
			return &site{dir: dir, path: here, name: name}, nil
		case errors.Is(err, ErrUnsafe):
			return nil, fault(err)
		case err != nil:
			return nil, fault(&fs.PathError{Op: "open", Path: here, Err: err})
		case kind == unix.S_IFLNK:
			if links++; links > maxLinks {
				return nil, fault(errors.New("its symbolic links lead in a circle: name the file itself"))
			}
			rest = append(strings.Split(target, "/"), rest...)
			if !strings.HasPrefix(target, "/") {
				continue
			}
			name, here = "/", "/"
		}
		next, err := openFolder(at, name)
		if err != nil {
			return nil, fault(&fs.PathError{Op: "open", Path: here, Err: err})
		}
		closeFolder(at)
		at, path = next, here
	}
	return nil, fault(errors.New("this is a folder: name a file in it"))
}

// look returns the kind of a name in a folder. For a link that may be followed, target is
// where it leads.
func look(at int, name string) (target string, kind uint32, err error) {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", 0, err
	}
	defer unix.Close(fd)
	var link, folder unix.Stat_t
	if err := unix.Fstat(fd, &link); err != nil {
		return "", 0, err
	}
	kind = link.Mode & unix.S_IFMT
	if kind != unix.S_IFLNK {
		return "", kind, nil
	}
	if err := unix.Fstatat(at, ".", &folder, 0); err != nil {
		return "", 0, err
	}
	if link.Uid != uint32(os.Geteuid()) && link.Uid != 0 && link.Uid != folder.Uid {
		return "", 0, fmt.Errorf("%w: %s is a symbolic link of user %d, who may point it at any file of yours: name the file that you mean, or remove the link", ErrUnsafe, name, link.Uid)
	}
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", text)
	if err != nil {
		return "", 0, err
	}
	return string(text[:n]), kind, nil
}

// openFolder opens a folder for looking up names.
func openFolder(at int, name string) (int, error) {
	return unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// readableFolder opens a folder once more, so that it can be synced.
func readableFolder(at int, path string) (*os.File, error) {
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(path, "."), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(path, ".")), nil
}

func closeFolder(fd int) {
	if fd != unix.AT_FDCWD {
		_ = unix.Close(fd)
	}
}

func (s *site) close() { _ = s.dir.Close() }
