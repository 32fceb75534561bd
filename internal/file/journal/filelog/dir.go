package filelog

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/file/journal"
)

// Dir returns a directory of the operating system.
func Dir(path string) Disk { return dir(path) }

type dir string

const lockFile = "lock"

func (d dir) path(name string) string { return filepath.Join(string(d), name) }

// Lock uses flock: the kernel releases the lock when the process ends in any way. The pid
// in the file is only for the error message of the next process.
func (d dir) Lock() (unlock func() error, err error) {
	if err := d.make(); err != nil {
		return nil, fmt.Errorf("journal: make directory: %w", err)
	}
	f, err := os.OpenFile(d.path(lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal: open lock: %w (the daemon needs to write to its state directory)", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &journal.LockedError{Dir: string(d), PID: d.lockedBy()}
		}
		return nil, fmt.Errorf("journal: lock %s: %w (the state directory must be on a file system with locks)", f.Name(), err)
	}
	// On a full disk this leaves an empty file, which means that the pid is
	// unknown.
	f.Truncate(0)
	f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return f.Close, nil
}

func (d dir) make() error {
	if _, err := os.Stat(string(d)); err == nil {
		return nil
	}
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	return dir(filepath.Dir(string(d))).Sync()
}

func (d dir) lockedBy() int {
	text, err := os.ReadFile(d.path(lockFile))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

func (d dir) List() ([]string, error) {
	entries, err := os.ReadDir(string(d))
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

func (d dir) Create(name string) (File, error) {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (d dir) Open(name string) (File, error) {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (d dir) Sync() error {
	f, err := os.Open(string(d))
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

type file struct{ f *os.File }

func (f file) WriteAt(b []byte, off int64) (int, error) { return f.f.WriteAt(b, off) }
func (f file) Sync() error                              { return syncData(f.f) }
func (f file) Close() error                             { return f.f.Close() }
