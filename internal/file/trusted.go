package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrOthers reports that somebody other than root or the daemon's user can change a file,
// or replace it.
var ErrOthers = errors.New("others can change it")

// Trusted is a file that only root and the daemon's user can change.
type Trusted struct {
	Text []byte
	path string
	mode uint32
}

// ReadTrusted reads a regular file. It opens the file once, and judges and reads
// what it opened. ReadTrusted refuses
//
//   - a file, a symbolic link on the way, or a folder of one of them that belongs
//     to neither root nor the daemon's user;
//   - a file, or a folder of a file or a link, that every user can write to;
//   - for a daemon of root, also one that a group can write to, unless it is the
//     group of root. Other daemons call warn then, which may be nil: on many
//     machines each user has a group of their own.
//
// In a folder with the sticky bit, such as /tmp, nobody can replace what others own, so
// everybody may write to it. Everybody may also write to the folder of a link that leads
// further down: the folder of a ConfigMap in a pod has the mode 0777 and links to a
// folder with the files, and if somebody else puts a link there, that user owns the link.
func ReadTrusted(path string, warn func(string)) (*Trusted, error) {
	r := reader{uid: uint32(os.Geteuid()), warn: warn}
	folder, here, name, err := r.walk(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(folder) }()
	if name == "" {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errIrregular}
	}
	return r.open(folder, here, name)
}

// ReadSecret reads a file as ReadTrusted does, and refuses it as CheckSecret does.
func ReadSecret(path string, warn func(string)) ([]byte, error) {
	f, err := ReadTrusted(path, warn)
	if err == nil {
		err = f.CheckSecret()
	}
	if err != nil {
		return nil, err
	}
	return f.Text, nil
}

// CheckSecret returns an error for a file with a secret that everybody can read,
// or a group can write to.
func (f *Trusted) CheckSecret() error {
	if f.mode&0o026 == 0 {
		return nil
	}
	return fmt.Errorf("%s holds a secret, and others can read or change it (its mode is %04o). Close it with: chmod 600 %s", f.path, f.mode&0o7777, f.path)
}

// CheckFolder refuses a folder in which somebody other than root or the daemon's user can
// put, remove or replace something, or a symbolic link to it that they can replace, as
// ReadTrusted does, but also one with the sticky bit: what the daemon removes, others can
// make there.
func CheckFolder(path string, warn func(string)) error {
	r := reader{uid: uint32(os.Geteuid()), warn: warn}
	folder, here, name, err := r.walk(path)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(folder) }()
	var stat unix.Stat_t
	if err = unix.Fstat(folder, &stat); err == nil && name != "" {
		err = unix.ENOTDIR
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if here = filepath.Clean(here); stat.Mode&unix.S_ISVTX != 0 && stat.Mode&0o022 != 0 {
		return fmt.Errorf("%s: %w: others can make files in it (its mode is %04o)", here, ErrOthers, stat.Mode&0o7777)
	}
	return r.check(here, &stat)
}

// reader reads files for the daemon of a user.
type reader struct {
	uid  uint32
	warn func(string) // hears about what is read anyway; may be nil
}

// maxLinks is the maximum number of symbolic links that a path may lead through, as in
// the kernel.
const maxLinks = 40

// walk goes to a file, one name at a time, so that every check is about the object that
// the next step uses. It returns the folder, open and by its path, and the name of the file
// in it, or "" if the path leads to that folder.
func (r *reader) walk(path string) (folder int, here, name string, err error) {
	fault := func(err error) error { return &fs.PathError{Op: "open", Path: path, Err: err} }
	if filepath.IsAbs(path) {
		here = "/"
	}
	folder, err = unix.Open(filepath.Join(here, "."), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, "", "", fault(err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(folder)
		}
	}()
	rest := strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		next, stat, err := look(folder, name)
		if err != nil {
			return folder, "", "", fault(err)
		}
		switch stat.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			target, err := r.follow(folder, next, here, name)
			_ = unix.Close(next)
			if err != nil {
				return folder, "", "", err
			}
			if links++; links > maxLinks {
				return folder, "", "", fault(unix.ELOOP)
			}
			rest = append(strings.Split(target, "/"), rest...)
			if !filepath.IsAbs(target) {
				continue
			}
			if next, _, err = look(unix.AT_FDCWD, "/"); err != nil {
				return folder, "", "", fault(err)
			}
			here = "/"
		case unix.S_IFDIR:
			here = filepath.Join(here, name)
		default:
			_ = unix.Close(next)
			if len(rest) > 0 {
				return folder, "", "", fault(unix.ENOTDIR)
			}
			return folder, here, name, nil
		}
		_ = unix.Close(folder)
		folder = next
	}
	return folder, here, "", nil
}

// look opens a name in a folder to find out what it is, and follows no link.
func look(folder int, name string) (fd int, stat unix.Stat_t, err error) {
	if fd, err = unix.Openat(folder, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return 0, stat, err
	}
	if err = unix.Fstat(fd, &stat); err != nil {
		_ = unix.Close(fd)
	}
	return fd, stat, err
}

// follow returns the target of a link in a folder, if nobody else could have made the
// link.
func (r *reader) follow(folder, link int, here, name string) (string, error) {
	path := filepath.Join(here, name)
	var around, own unix.Stat_t
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(link, "", text)
	if err := errors.Join(err, unix.Fstat(folder, &around), unix.Fstat(link, &own)); err != nil {
		return "", &fs.PathError{Op: "readlink", Path: path, Err: err}
	}
	target, check := string(text[:n]), r.check
	if filepath.IsLocal(target) {
		check = r.checkOwner
	}
	if err := check(filepath.Clean(here), &around); err != nil {
		return "", err
	}
	return target, r.checkOwner(path, &own)
}

// open reads a file in a folder, if nobody else can change or replace it.
func (r *reader) open(folder int, here, name string) (*Trusted, error) {
	path := filepath.Join(here, name)
	fault := func(err error) error { return &fs.PathError{Op: "open", Path: path, Err: err} }
	fd, err := unix.Openat(folder, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) // do not wait for the writer of a pipe
	if err != nil {
		return nil, fault(err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var file, around unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &file), unix.Fstat(folder, &around)); err != nil {
		return nil, fault(err)
	}
	if file.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fault(errIrregular)
	}
	if err := r.check(path, &file); err != nil {
		return nil, err
	}
	if err := r.check(filepath.Clean(here), &around); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return &Trusted{Text: text, path: path, mode: file.Mode}, nil
}

// check refuses a file or a folder that others can write to.
func (r *reader) check(path string, stat *unix.Stat_t) error {
	if err := r.checkOwner(path, stat); err != nil {
		return err
	}
	sticky := stat.Mode&unix.S_IFMT == unix.S_IFDIR && stat.Mode&unix.S_ISVTX != 0 // nobody can replace what others own
	const advice = "run chmod go-w %s, and look at what is in it"
	switch {
	case sticky:
	case stat.Mode&0o002 != 0:
		return fmt.Errorf("%s: %w: every user can write to it (its mode is %04o): "+advice, path, ErrOthers, stat.Mode&0o7777, path)
	case stat.Mode&0o020 == 0 || stat.Gid == 0:
	case r.uid == 0:
		return fmt.Errorf("%s: %w: the group %d can write to it (its mode is %04o): "+advice, path, ErrOthers, stat.Gid, stat.Mode&0o7777, path)
	default:
		if r.warn != nil {
			r.warn(fmt.Sprintf("the group %d can write to %s, and so decide what this daemon does: "+advice, stat.Gid, path, path))
		}
	}
	return nil
}

// checkOwner refuses a file or a folder of somebody else, because an owner can always
// change the mode.
func (r *reader) checkOwner(path string, stat *unix.Stat_t) error {
	if stat.Uid == 0 || stat.Uid == r.uid {
		return nil
	}
	advice := "use one that belongs to you or to root"
	if r.uid == 0 {
		advice = "run chown -h root " + path + ", and look at what is in it"
	}
	return fmt.Errorf("%s: %w: it belongs to user %d: %s", path, ErrOthers, stat.Uid, advice)
}
