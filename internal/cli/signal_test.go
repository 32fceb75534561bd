package cli_test

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/cli"
	"github.com/berth-gpu/berth/internal/cli/console"
)

// A signal that nobody has looked at yet keeps the process from becoming a program.
func TestNoSignalIsLostBeforeAProgram(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, stop := cli.UntilSignal(syscall.SIGUSR1)
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGUSR1); err != nil { // it is there when this returns
		t.Fatal(err)
	}
	err := cli.Become(stop)("/no/such/program", []string{"program"}, nil)
	if came := (*console.SignalError)(nil); !errors.As(err, &came) || came.Signal != syscall.SIGUSR1 {
		t.Errorf("it went on: %v", err)
	}
}
