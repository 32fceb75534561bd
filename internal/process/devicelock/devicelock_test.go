package devicelock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/internal/process"
)

// table knows the processes of a made-up machine.
type table struct {
	self  process.ID
	alive map[process.ID]bool
}

func (t *table) Identify(int) (process.ID, error) { return t.self, nil }
func (t *table) Ended(id process.ID) bool         { return !t.alive[id] }

func daemon(pid int, alive map[process.ID]bool, root, own string) *Locks {
	id := process.ID{PID: pid, Start: uint64(pid)}
	alive[id] = true
	return New(Options{Root: root, Own: own, Processes: &table{self: id, alive: alive}})
}

// The first daemon is in charge; the second is when the first has gone.
func TestTwoDaemons(t *testing.T) {
	dir, alive := t.TempDir(), map[process.ID]bool{}
	first, second := daemon(1, alive, dir, dir), daemon(2, alive, dir, dir)
	if why := first.Denied("GPU-a"); why != "" {
		t.Errorf("the first daemon: %s", why)
	}
	if why := second.Denied("GPU-a"); why != "the daemon with pid 1 is in charge of it" {
		t.Errorf("the second daemon: %q", why)
	}
	if why := second.Denied("GPU-b"); why != "" {
		t.Errorf("a device of the second daemon alone: %s", why)
	}
	if !second.lookAgain() {
		t.Error("nobody hears of a device that came while another daemon has it")
	}
	if second.lookAgain() {
		t.Error("something changed")
	}
	unread(t, second, filepath.Join(dir, "GPU-a.lock"))
	first.Close() // as the kernel does after a kill
	if !second.lookAgain() || second.Denied("GPU-a") != "" {
		t.Errorf("the first is gone, and the second is denied: %s", second.Denied("GPU-a"))
	}
	if first.devices["GPU-a"].lock = nil; !first.lookAgain() || first.Denied("GPU-a") == "" {
		t.Error("two daemons are in charge")
	}
}

// unread looks for who is in charge while a file cannot be opened: nothing changes.
func unread(t *testing.T, l *Locks, name string) {
	t.Helper()
	if err := errors.Join(os.Rename(name, name+"-"), os.Mkdir(name, 0o700)); err != nil {
		t.Fatal(err)
	}
	before := l.Denied("GPU-a")
	if l.lookAgain() || l.Denied("GPU-a") != before {
		t.Errorf("while %s cannot be opened, a daemon that was denied hears %q", name, l.Denied("GPU-a"))
	}
	if err := errors.Join(os.Remove(name), os.Rename(name+"-", name)); err != nil {
		t.Fatal(err)
	}
}

// Root's daemon is never kept from a device, and a user's yields to it.
func TestRootGoesFirst(t *testing.T) {
	root, own, alive := t.TempDir(), t.TempDir(), map[process.ID]bool{}
	user := daemon(7, alive, root, own)
	if why := user.Denied("GPU-a"); why != "" {
		t.Errorf("a user's daemon alone: %s", why)
	}
	admin := daemon(1, alive, root, root)
	if why := admin.Denied("GPU-a"); why != "" {
		t.Errorf("root's daemon is denied by a user's: %s", why)
	}
	if !user.lookAgain() || user.Denied("GPU-a") != "the daemon of root with pid 1 is in charge of it" {
		t.Errorf("a user's daemon beside root's: %q", user.Denied("GPU-a"))
	}
	unread(t, user, filepath.Join(root, "GPU-a.holder"))
	alive[process.ID{PID: 1, Start: 1}] = false // killed: its file stays
	if !user.lookAgain() || user.Denied("GPU-a") != "" {
		t.Errorf("root's daemon is gone: %q", user.Denied("GPU-a"))
	}
	info, err := os.Stat(filepath.Join(root, "GPU-a.lock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("users can open what root locks: %v, %v", info.Mode(), err)
	}
}

// A folder that another user could change is not used, and nothing leads out of
// it.
func TestHostileFolder(t *testing.T) {
	alive := map[process.ID]bool{}
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{open, link} {
		c := daemon(1, alive, t.TempDir(), folder)
		if why := c.Denied("GPU-a"); why != "" || c.Trouble() == nil || !strings.Contains(c.Trouble().Error(), "remove it") {
			t.Errorf("%s: denied %q, trouble %v", folder, why, c.Trouble())
		}
	}
	c := daemon(1, alive, "", t.TempDir())
	if c.Denied("../../etc/passwd"); c.Trouble() != nil || filepath.Dir(c.path(c.Own, "../x", "lock")) != c.Own {
		t.Errorf("%v, %s", c.Trouble(), c.path(c.Own, "../x", "lock"))
	}
	for _, text := range []string{"", "{", `{"PID": -1}`, "[]"} {
		if err := os.WriteFile(c.path(c.Own, "GPU-z", "holder"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := c.holder(c.Own, "GPU-z"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: held by %v, %v", text, id, err)
		}
	}
}

func TestRun(t *testing.T) {
	dir, alive := t.TempDir(), map[process.ID]bool{}
	synctest.Test(t, func(t *testing.T) {
		first, second := daemon(1, alive, dir, dir), daemon(2, alive, dir, dir)
		first.Denied("GPU-a")
		second.Denied("GPU-a")
		second.lookAgain()
		run := func(l *Locks, changed func()) func() {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); l.Run(ctx, changed) }()
			return func() { cancel(); <-done }
		}
		took := make(chan struct{})
		stop := run(second, func() { close(took) })
		run(first, func() { t.Error("the first lost its lock") })()
		time.Sleep(2 * lookEvery)
		select {
		case <-took:
			t.Error("the second took the device while the first may still set limits back")
		default:
		}
		first.Close()
		<-took
		stop()
	})
}
