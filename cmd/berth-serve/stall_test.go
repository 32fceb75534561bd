package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
)

// fullPipe is a pipe that nobody reads, with no room left.
func fullPipe(t *testing.T) (write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = read.Close(), write.Close() })
	fd := int(write.Fd()) // which also makes it wait, for the daemon
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = unix.Write(fd, make([]byte, 1))
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	return write
}

// stalled is a daemon in a process of its own, most often one whose log nobody
// reads.
type stalled struct {
	*exec.Cmd
	socket string
	notify *net.UnixConn
}

// stall starts a daemon whose log nobody reads, and waits until it is ready.
func stall(t *testing.T, flags ...string) *stalled {
	t.Helper()
	s := serving(t, flags...)
	s.Stderr = fullPipe(t)
	s.begin(t)
	return s
}

// serving returns a daemon that is not started yet.
func serving(t *testing.T, flags ...string) *stalled {
	t.Helper()
	dir := shortDir(t)
	s := &stalled{socket: filepath.Join(dir, "s"), notify: notifyIn(t, dir)}
	s.Cmd = exec.Command(berthIn(t, dir), append([]string{
		"serve", "--devices", "sim:1", "--listen", "", "--state-dir", filepath.Join(dir, "state"), "--log-level", "debug",
	}, flags...)...)
	s.Env = append(os.Environ(), "BERTH_SOCKET="+s.socket, "NOTIFY_SOCKET="+filepath.Join(dir, "n"), "GORACE=atexit_sleep_ms=0", "HOME="+dir)
	return s
}

// begin starts the daemon, and waits until it is ready.
func (s *stalled) begin(t *testing.T) {
	t.Helper()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.Process.Kill(), s.Wait() })
	s.says(t, "READY=1")
}

// says waits until the daemon tells systemd something.
func (s *stalled) says(t *testing.T, what string) {
	t.Helper()
	if err := s.notify.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	message := make([]byte, 4096)
	for {
		n, err := s.notify.Read(message)
		if err != nil {
			t.Fatalf("the daemon does not say %s: %v", what, err)
		}
		if strings.Contains(string(message[:n]), what) {
			return
		}
	}
}

// metrics reads the page for Prometheus.
func (s *stalled) metrics(t *testing.T) string {
	t.Helper()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", s.socket) }}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://berth/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func (s *stalled) signal(t *testing.T) {
	t.Helper()
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// A log that nobody reads stops nothing: leases come and go, more than the
// queue before the log has room for, and a signal ends the daemon.
func TestLogThatNobodyReads(t *testing.T) {
	daemon := stall(t)
	c, err := client.New(client.Options{Socket: daemon.socket})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 700 { // each is told of twice, at the level debug
		l, err := c.Acquire(t.Context(), api.LeaseRequest{Memory: 1, Binding: "process"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Release(t.Context(), l.ID, l.Fence); err != nil {
			t.Fatal(err)
		}
	}
	page := daemon.metrics(t)
	if strings.Contains(page, "\nberth_log_dropped_total 0\n") || !strings.Contains(page, "\nberth_log_dropped_total ") {
		t.Error("the page shows no dropped lines")
	}
	c.Close()
	daemon.signal(t)
	if got := ending(daemon.Wait()); got != "exit 0" {
		t.Errorf("the daemon ended with %s", got)
	}
}

// The first signal lets a hook finish, for a moment; the second one ends the
// daemon at once.
func TestSecondSignal(t *testing.T) {
	config := filepath.Join(t.TempDir(), "berth.yaml")
	if err := os.WriteFile(config, []byte("hooks: {slow: {command: [sleep, '30'], severity: info}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := stall(t, "--config", config)
	daemon.signal(t)
	daemon.says(t, "STOPPING=1")
	daemon.signal(t)
	if got := ending(daemon.Wait()); got != "exit 143" {
		t.Errorf("the daemon ended with %s", got)
	}
}

// A daemon that cannot start ends too, although it cannot say why.
func TestFailedStartWithALogThatNobodyReads(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	berth := filepath.Join(t.TempDir(), "berth")
	if err := os.Symlink(self, berth); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(berth, "serve", "--devices", "nonsense", "--state-dir", t.TempDir(), "--listen", "")
	daemon.Stderr = fullPipe(t)
	if got := ending(daemon.Run()); got != "exit 1" {
		t.Errorf("it ended with %s", got)
	}
}
