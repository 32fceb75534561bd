package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process/kinship"
)

// A shell at a terminal manages its jobs; without a terminal, and in the group of
// the session, nobody does.
func TestControl(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	for name, test := range map[string]struct {
		terminal bool
		flags    string
		managed  bool
	}{
		"a job of a shell at a terminal": {true, "-mc", true},
		"of a script at a terminal":      {true, "-c", false},
		"of a shell without a terminal":  {false, "-mc", false},
	} {
		cmd := exec.Command("bash", test.flags, "sleep 100 & echo $!; read line; kill %1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if test.terminal {
			slave := terminal(t)
			cmd.Stderr = slave
			cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, 2
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid := 0
		if _, err := fmt.Sscan(strings.TrimSpace(line), &pid); err != nil {
			t.Fatal(err)
		}
		id, err := Proc().Identify(pid)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Proc().Control(id)
		if err != nil || (c.Manager == cmd.Process.Pid) != test.managed || !test.managed && c.Manager != 0 || c.Stopped || c.Tracer != 0 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		_ = Proc().Signal(kinship.Authority(), id, Kill)
		_ = in.Close()
		_ = cmd.Wait() // how it ended does not matter
	}
}

// terminal opens a new terminal, and returns the side of its programs.
func terminal(t *testing.T) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	return slave
}
