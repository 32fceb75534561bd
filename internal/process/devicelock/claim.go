// Package devicelock finds out which of several daemons on a machine is in
// charge of a device: the one that paces leases, ends processes and sets power
// limits there.
//
// The others only look and lease.
//
// A claim is a lock on a file in a folder of the daemon's user, which the kernel
// releases when the daemon is gone. Root's claims go before those of everybody
// else: their folder is root's, users cannot open the files in it that are
// locked, and only read who holds them. So no user can keep root's daemon from
// its devices.
package devicelock

import (
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

// rootFolder has the claims of root.
const rootFolder = "/run/berth/devices"

// lookEvery is how often a daemon looks again who is in charge.
const lookEvery = 5 * time.Second

// Processes tells whether a process still runs.
type Processes interface {
	Identify(pid int) (process.ID, error)
	Alive(process.ID) bool
}

// Options are what Claims are made from.
type Options struct {
	Root      string // folder of root's claims; empty: /run/berth/devices
	Own       string // folder of this daemon's claims; empty: that of its user
	Processes Processes
}

// Claims are the claims of one daemon.
type Claims struct {
	Options
	self process.ID

	mu      sync.Mutex // guards what follows, and is held while files are read
	devices map[string]*device
	trouble error // why claims cannot be made; nil: they can
}

// device is a device that a daemon wants to be in charge of.
type device struct {
	lock   *os.File // nil: another daemon has it
	denied string   // why this daemon is not in charge; empty: it is
}

// New returns Claims without a device.
func New(o Options) *Claims {
	if o.Root == "" {
		o.Root = rootFolder
	}
	if o.Own == "" {
		o.Own = ownFolder(o.Root)
	}
	c := &Claims{Options: o, devices: map[string]*device{}}
	c.self, _ = o.Processes.Identify(os.Getpid()) // without it, others read a holder that is not there
	return c
}

// ownFolder returns the folder for the claims of this process's user.
func ownFolder(root string) string {
	if os.Geteuid() == 0 {
		return root
	}
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) {
		return filepath.Join(runtime, "berth", "devices")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("berth-%d", os.Geteuid()))
}

// Denied returns why this daemon is not in charge of a device; empty if it is.
// It claims a device that it has not seen before.
func (c *Claims) Denied(uuid string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.devices[uuid]
	if d == nil {
		d = &device{}
		c.devices[uuid] = d
		c.look(uuid, d)
	}
	return d.denied
}

// Second returns why this daemon is not in charge of all its devices; empty if it
// is.
func (c *Claims) Second() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.devices {
		if d.denied != "" {
			return d.denied
		}
	}
	return ""
}

// Trouble returns why claims cannot be made, so that a second daemon would not
// notice this one; nil if they can.
func (c *Claims) Trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble
}

// Run looks again and again who is in charge, until ctx ends, and calls changed
// when that is another daemon than before. Then it gives all claims up.
func (c *Claims) Run(ctx context.Context, changed func()) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			c.close()
			return
		case <-tick.C:
			if c.lookAgain() {
				changed()
			}
		}
	}
}

// lookAgain looks who is in charge of each device, and reports whether that
// changed.
func (c *Claims) lookAgain() (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uuid, d := range c.devices {
		before := d.denied
		c.look(uuid, d)
		changed = changed || before != d.denied
	}
	return changed
}

// look finds out who is in charge of a device, and claims it if nobody is. The
// caller holds mu.
func (c *Claims) look(uuid string, d *device) {
	d.denied = ""
	if c.Own != c.Root {
		if holder, there := c.holder(c.Root, uuid); there {
			d.denied = fmt.Sprintf("the daemon of root with pid %d is in charge of it", holder.PID)
			return
		}
	}
	if d.lock != nil {
		return
	}
	lock, err := c.claim(uuid)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		d.denied = "another daemon is in charge of it"
		if holder, there := c.holder(c.Own, uuid); there {
			d.denied = fmt.Sprintf("the daemon with pid %d is in charge of it", holder.PID)
		}
	case err != nil:
		c.trouble = fmt.Errorf("berth cannot find out whether another daemon is in charge of its devices: %w", err)
	default:
		d.lock, c.trouble = lock, nil
	}
}

// claim locks a device, and says that this process holds it. The caller holds mu.
func (c *Claims) claim(uuid string) (*os.File, error) {
	if err := c.prepare(); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(c.path(c.Own, uuid, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, err
	}
	text, err := json.Marshal(c.self)
	if err == nil {
		err = file.ReplacePlain(c.path(c.Own, uuid, "holder"), text)
	}
	if err == nil {
		err = os.Chmod(c.path(c.Own, uuid, "holder"), 0o644)
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// prepare makes the folder, and refuses one that another user could change. The
// caller holds mu.
func (c *Claims) prepare() error {
	if err := os.MkdirAll(c.Own, 0o755); err != nil {
		return err
	}
	if c.Own == c.Root { // everybody may read who is in charge, whatever the umask
		if err := os.Chmod(c.Own, 0o755); err != nil {
			return err
		}
	}
	info, err := os.Lstat(c.Own)
	if err != nil {
		return err
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode()&0o022 != 0 || known && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("the folder %s is not this user's alone: remove it", c.Own)
	}
	return nil
}

// holder returns the living process that holds a device in a folder.
func (c *Claims) holder(folder, uuid string) (process.ID, bool) {
	text, err := os.ReadFile(c.path(folder, uuid, "holder"))
	if errors.Is(err, fs.ErrNotExist) {
		return process.ID{}, false
	}
	var id process.ID
	if err == nil {
		err = json.Unmarshal(text, &id)
	}
	return id, err == nil && id != c.self && c.Processes.Alive(id)
}

// path returns the file of a device. A UUID is a text of a driver, so what could
// lead out of the folder is replaced.
func (c *Claims) path(folder, uuid, kind string) string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, uuid)
	return filepath.Join(folder, name+"."+kind)
}

// close gives all claims up.
func (c *Claims) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uuid, d := range c.devices {
		if d.lock != nil {
			_ = os.Remove(c.path(c.Own, uuid, "holder")) // one that stays names a process that is gone
			d.lock.Close()
			d.lock = nil
		}
	}
}
