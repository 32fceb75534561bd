package daemon

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
)

// isPrivate reports whether only the daemon may read a name in the state folder, alone or
// followed by a dot, as in the names of damaged files.
func isPrivate(name string) bool {
	return slices.ContainsFunc(inventory.Tops(), func(p string) bool { return name == p || strings.HasPrefix(name, p+".") })
}

// locked is a folder that is locked already.
type locked struct {
	file.Folder
	lock io.Closer
}

// Lock implements file.Folder.
func (l locked) Lock() (io.Closer, error) { return l.lock, nil }

// prepareState makes the state folder, or checks that nobody else can change what is in
// it. It closes to others what an earlier version, or an administrator, left readable:
// users may pass through the folder to their MPS daemons.
func prepareState(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make the state folder: %w (choose another with --state-dir)", err)
	}
	dir, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("open the state folder: %w (choose another with --state-dir)", err)
	}
	defer dir.Close()
	if err := checkOurs(dir, folder); err != nil {
		return err
	}
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return fmt.Errorf("list the state folder: %w", err)
	}
	for _, e := range entries {
		if !isPrivate(e.Name()) {
			continue
		}
		if err := closeToOthers(dir, e.Name()); err != nil {
			return fmt.Errorf("close %s to other users: %w", filepath.Join(folder, e.Name()), err)
		}
	}
	if err := file.RemoveStale(folder); err != nil {
		return fmt.Errorf("tidy up the state folder: %w", err)
	}
	return nil
}

// checkOurs refuses a state folder that an ordinary user could change under a daemon of
// root.
func checkOurs(dir *os.Root, folder string) error {
	info, err := dir.Stat(".")
	if err != nil {
		return fmt.Errorf("look at the state folder: %w", err)
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if os.Geteuid() != 0 || !known {
		return nil
	}
	switch mode := info.Mode(); {
	case owner.Uid != 0:
		return fmt.Errorf("the state folder %s belongs to user %d, and the daemon runs as root: run chown root %s, or choose another folder with --state-dir", folder, owner.Uid, folder)
	case mode&0o002 != 0, mode&0o020 != 0 && owner.Gid != 0:
		return fmt.Errorf("other users can write to the state folder %s (mode %#o): run chmod go-w %s, or choose another folder with --state-dir", folder, mode.Perm(), folder)
	}
	return nil
}

// closeToOthers removes the permissions of everybody but the owner from a file or a
// folder, if one with this name exists.
func closeToOthers(dir *os.Root, name string) error {
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() || info.Mode()&0o077 == 0 {
		return err
	}
	return dir.Chmod(name, info.Mode().Perm()&0o700)
}
