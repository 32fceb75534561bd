package mps

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// folder opens the folder of a daemon, and creates it if create is set. It goes down from
// the folder around Dir, one by one. Each folder must belong to this process's user, must
// not be a link, and must not be writable for others, so that nobody else can have put
// anything there.
func (p *Pool) folder(k key, create bool) (*os.Root, error) {
	if !filepath.IsLocal(k.uuid) || filepath.Base(k.uuid) != k.uuid || k.uuid == "." {
		return nil, fmt.Errorf("%q is not the name of a device", k.uuid)
	}
	around := filepath.Dir(p.Dir)
	if create {
		if err := os.MkdirAll(around, 0o711); err != nil {
			return nil, err
		}
	}
	dir, err := os.OpenRoot(around)
	if err != nil {
		return nil, err
	}
	if err := checkOurs(dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	for _, name := range []string{filepath.Base(p.Dir), strconv.Itoa(k.uid), k.uuid} {
		inner, err := descend(dir, name, create)
		if err := errors.Join(err, dir.Close()); err != nil {
			return nil, err
		}
		dir = inner
	}
	return dir, nil
}

// descend opens a folder inside another one, which must belong to this process's user
// too, and creates it if create is set. Users can pass through it.
func descend(dir *os.Root, name string, create bool) (*os.Root, error) {
	if create {
		if err := dir.Mkdir(name, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	if info, err := dir.Lstat(name); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder: remove it", filepath.Join(dir.Name(), name))
	}
	inner, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if err := checkOurs(inner); err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	if create { // the umask may have closed it
		if err := inner.Chmod(".", 0o711); err != nil {
			return nil, errors.Join(err, inner.Close())
		}
	}
	return inner, nil
}

// checkOurs returns an error for a folder that somebody else can change.
func checkOurs(dir *os.Root) error {
	info, err := dir.Stat(".")
	if err != nil {
		return err
	}
	owner, group := ownerOf(info)
	if owner != os.Geteuid() && owner != 0 {
		return fmt.Errorf("the folder %s belongs to user %d: remove it, or choose another --state-dir", dir.Name(), owner)
	}
	if mode := info.Mode(); mode&0o002 != 0 || mode&0o020 != 0 && group != 0 {
		return fmt.Errorf("others can write to the folder %s: run chmod go-w %s", dir.Name(), dir.Name())
	}
	return nil
}

// handOver creates the folders of a daemon that belong to its user; nil means the user of
// this process. The folders around them stay with this process's user.
func handOver(dir *os.Root, as *syscall.Credential) error {
	uid, gid := os.Geteuid(), os.Getegid()
	if as != nil {
		uid, gid = int(as.Uid), int(as.Gid)
	}
	for _, path := range []string{pipeOf(dir.Name()), logOf(dir.Name())} {
		name := filepath.Base(path)
		if err := dir.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err := dir.Lstat(name)
		if err != nil {
			return err
		}
		switch owner, _ := ownerOf(info); {
		case !info.IsDir():
			return fmt.Errorf("%s is no folder: remove it", path)
		case owner == uid:
		case owner != os.Geteuid():
			return fmt.Errorf("the folder %s belongs to user %d, and user %d needs it: remove it", path, owner, uid)
		default:
			if err := dir.Lchown(name, uid, gid); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownerOf returns the user and the group that a file belongs to, or -1 if they
// are unknown.
func ownerOf(info fs.FileInfo) (uid, gid int) {
	if s, known := info.Sys().(*syscall.Stat_t); known {
		return int(s.Uid), int(s.Gid)
	}
	return -1, -1
}
