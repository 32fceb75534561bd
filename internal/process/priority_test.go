package process

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSetOrdinary(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may raise a priority first")
	}
	cmd := exec.Command("nice", "-n", "-5", "sh", "-c", "echo ready; read line")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = cmd.Wait() }()
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{25, 20} { // the kernel counts down from 20
		if got, err := unix.Getpriority(unix.PRIO_PROCESS, cmd.Process.Pid); err != nil || got != want {
			t.Errorf("its priority is %d, want %d (%v)", got, want, err)
		}
		SetOrdinary(cmd.Process.Pid)
	}
}
