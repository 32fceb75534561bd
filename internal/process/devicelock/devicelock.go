// Package devicelock finds out which of several daemons on a machine is in
// charge of a device: the one that paces leases, ends processes and sets power
// limits there.
//
// The others only look and lease.
//
// The lock of a device is on a file in a folder of the daemon's user, and the kernel
// releases it when the daemon is gone. Root's locks take precedence: their folder belongs
// to root, and users cannot open the locked files in it, but only read who holds them. So
// no user can keep root's daemon from its devices.
package devicelock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/process"
)

// rootFolder has the locks of root.
const rootFolder = "/run/berth/devices"

// lookEvery is how often a daemon checks who is in charge.
const lookEvery = 5 * time.Second

// Processes reports whether a process still runs.
type Processes interface {
	Identify(pid int) (process.ID, error)
	Ended(process.ID) bool
}

// Options are the options of New.
type Options struct {
	Root      string // folder of root's locks; empty means /run/berth/devices
	Own       string // folder of this daemon's locks; empty means that of its user
	Processes Processes
}

// Locks holds the devices that one daemon is in charge of, or wants to be.
type Locks struct {
	Options
	self process.ID

	mu      sync.Mutex // guards what follows; held while reading files
	devices map[string]*device
	trouble error // why nothing can be locked; nil if locking works
}

// device is a device that a daemon wants to be in charge of.
type device struct {
	lock   *os.File // nil if another daemon has it
	denied string   // why this daemon is not in charge; empty if it is
	told   string   // denied, as lookAgain found it last
}

// New returns Locks without a device.
func New(o Options) *Locks {
	o.Root = cmp.Or(o.Root, rootFolder)
	o.Own = cmp.Or(o.Own, ownFolder(o.Root))
	l := &Locks{Options: o, devices: map[string]*device{}}
	l.self, _ = o.Processes.Identify(os.Getpid()) // without it, the lock files name a holder that does not exist
	return l
}

// ownFolder returns the folder for the locks of this process's user.
func ownFolder(root string) string {
	if os.Geteuid() == 0 {
		return root
	}
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) {
		return filepath.Join(runtime, "berth", "devices")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("berth-%d", os.Geteuid()))
}

// Denied returns why this daemon is not in charge of a device, or "" if it is. It locks a
// device that it has not seen before.
func (l *Locks) Denied(uuid string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.devices[uuid]
	if d == nil {
		d = &device{}
		l.devices[uuid] = d
		l.look(uuid, d)
	}
	return d.denied
}

// Trouble returns why nothing can be locked, so that a second daemon would not notice
// this one. It returns nil if locking works.
func (l *Locks) Trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble
}

// Run checks regularly who is in charge, and calls changed when that has changed, until ctx
// ends. The locks stay until Close: what this daemon has set on its devices is set back
// first.
func (l *Locks) Run(ctx context.Context, changed func()) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if l.lookAgain() {
				changed()
			}
		}
	}
}

// lookAgain checks who is in charge of each device, and reports whether that changed since
// the last call, also of devices that have come since.
func (l *Locks) lookAgain() (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uuid, d := range l.devices {
		l.look(uuid, d)
		changed, d.told = changed || d.told != d.denied, d.denied
	}
	return changed
}

// look finds out who is in charge of a device, and locks it if nobody is. What cannot be
// found out now stays as it was. The caller holds mu.
func (l *Locks) look(uuid string, d *device) {
	before := d.denied
	d.denied = ""
	if l.Own != l.Root {
		switch holder, err := l.holder(l.Root, uuid); {
		case err == nil:
			d.denied = fmt.Sprintf("the daemon of root with pid %d is in charge of it", holder.PID)
			return
		case !errors.Is(err, fs.ErrNotExist) && before != "":
			d.denied = before
			return
		}
	}
	if d.lock != nil {
		return
	}
	lock, err := l.lock(uuid)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		d.denied = "another daemon is in charge of it"
		if holder, err := l.holder(l.Own, uuid); err == nil {
			d.denied = fmt.Sprintf("the daemon with pid %d is in charge of it", holder.PID)
		}
	case err != nil:
		d.denied = before
		l.trouble = fmt.Errorf("berth cannot find out whether another daemon is in charge of its devices: %w", err)
	default:
		d.lock, l.trouble = lock, nil
	}
}

// lock locks a device, and records this process as its holder. The caller holds mu.
func (l *Locks) lock(uuid string) (*os.File, error) {
	if err := l.prepare(); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(l.path(l.Own, uuid, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, err
	}
	text, err := json.Marshal(l.self)
	if err == nil {
		err = file.ReplacePlain(l.path(l.Own, uuid, "holder"), text)
	}
	if err == nil {
		err = os.Chmod(l.path(l.Own, uuid, "holder"), 0o644)
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// prepare makes the folder, and refuses one that another user could change. The caller
// holds mu.
func (l *Locks) prepare() error {
	if err := os.MkdirAll(l.Own, 0o755); err != nil {
		return err
	}
	if l.Own == l.Root { // everybody may read who is in charge, whatever the umask is
		if err := os.Chmod(l.Own, 0o755); err != nil {
			return err
		}
	}
	info, err := os.Lstat(l.Own)
	if err != nil {
		return err
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode()&0o022 != 0 || known && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("the folder %s is not this user's alone: remove it", l.Own)
	}
	return nil
}

// holder returns the living process that holds a device in a folder, or an error: that of
// fs.ErrNotExist if there is none.
func (l *Locks) holder(folder, uuid string) (id process.ID, err error) {
	text, err := os.ReadFile(l.path(folder, uuid, "holder"))
	if err != nil {
		return process.ID{}, err
	}
	if json.Unmarshal(text, &id) != nil || id == l.self || l.Processes.Ended(id) {
		return process.ID{}, fs.ErrNotExist
	}
	return id, nil
}

// path returns the file of a device. A UUID comes from a driver, so path replaces what
// could lead out of the folder.
func (l *Locks) path(folder, uuid, kind string) string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, uuid)
	return filepath.Join(folder, name+"."+kind)
}

// Close releases all locks. Only what changes nothing on a device any more may call it; if
// nobody does, the kernel releases them at the end of the process.
func (l *Locks) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for uuid, d := range l.devices {
		if d.lock != nil {
			_ = os.Remove(l.path(l.Own, uuid, "holder")) // a file that stays names a process that is gone
			d.lock.Close()
			d.lock = nil
		}
	}
}
