package file

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process that was killed while it started another one has its lock for a moment more.
// A process that lives keeps it.
func TestLockOfTheDead(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		pid  int
		free bool
	}{{"dead", dead.Process.Pid, true}, {"alive", os.Getpid(), false}} {
		folder := t.TempDir()
		held, err := os.Create(filepath.Join(folder, lockFile))
		if err == nil {
			_, err = fmt.Fprintln(held, test.pid)
		}
		if err == nil {
			err = unix.Flock(int(held.Fd()), unix.LOCK_EX)
		}
		if err != nil {
			t.Fatal(err)
		}
		if test.free {
			time.AfterFunc(20*time.Millisecond, func() { _ = held.Close() })
		}
		lock, err := dir{folder: folder}.Lock()
		if test.free {
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
				continue
			}
			_ = lock.Close()
			continue
		}
		if locked := (*LockedError)(nil); !errors.As(err, &locked) || locked.PID != test.pid {
			t.Errorf("%s: %v", test.name, err)
		}
		_ = held.Close()
	}
}
