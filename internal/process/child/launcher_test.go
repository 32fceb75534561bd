package child_test

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process/child"
)

// parent names a variable. With it this test binary is a parent that starts a
// family under a Launcher, and is killed.
const parent = "BERTH_TEST_PARENT"

func TestMain(m *testing.M) {
	if script := os.Getenv(parent); script != "" {
		beParent(script)
	}
	os.Exit(m.Run())
}

func beParent(script string) {
	l := child.NewLauncher()
	cmd := exec.Command("/bin/sh", "-c", script)
	pipe := os.NewFile(3, "pipe")
	cmd.ExtraFiles = []*os.File{pipe}
	c, err := l.Start(cmd, child.How{})
	if err != nil {
		panic(err)
	}
	_, _ = pipe.WriteString("started\n")
	<-c.Gone()
	os.Exit(1)
}

// However the parent dies, nothing that its children have started is left.
func TestNothingOutlivesAKilledParent(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"a program":       "echo ready >&3; " + blocked(t),
		"a wrapper":       "(" + blocked(t) + ") & echo ready >&3; wait",
		"its own session": `exec setsid /bin/sh -c '(` + blocked(t) + `) & echo ready >&3; wait'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, "")
			f.cmd.Path, f.cmd.Args = "/proc/self/exe", []string{"parent"}
			f.cmd.Env = append(os.Environ(), parent+"="+script)
			if err := f.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			f.line(t) // of the parent and of its child
			f.line(t)
			_ = f.cmd.Process.Kill()
			_ = f.cmd.Wait()
			f.extinct(t)
		})
	}
}

// A child lives on when the goroutine that started it ends, and its thread with
// it.
func TestLauncherKeepsItsThread(t *testing.T) {
	t.Parallel()
	l := child.NewLauncher()
	defer l.Close()
	f := newFamily(t, "echo ready >&3; "+blocked(t))
	started := make(chan *child.Child)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		c, err := l.Start(f.cmd, child.How{})
		if err != nil {
			t.Error(err)
		}
		started <- c
	}()
	c := <-started
	<-ended
	f.line(t)
	if !c.Alive() {
		t.Error("it died with the thread of its caller")
	}
	c.Kill()
	if got := child.KilledBy(c.Wait()); got != unix.SIGKILL {
		t.Errorf("it was killed by %v", got)
	}
	f.extinct(t)
}

func TestLauncherCannotStart(t *testing.T) {
	t.Parallel()
	l := child.NewLauncher()
	defer l.Close()
	if c, err := l.Start(exec.Command("/does/not/exist"), child.How{}); err == nil {
		t.Errorf("it started process %d", c.PID())
	}
}
