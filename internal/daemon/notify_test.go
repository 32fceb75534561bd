package daemon

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// systemd hears on its socket that the daemon is up, that it is alive for as long
// as it runs, and that it stops, in this order.
func TestNotifySocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "b") // short: the path of a socket is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "n"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	hear := func() string {
		message := make([]byte, 100)
		n, err := socket.Read(message)
		if err != nil {
			t.Fatal(err)
		}
		return string(message[:n])
	}
	t.Setenv("NOTIFY_SOCKET", socket.LocalAddr().String())
	t.Setenv("WATCHDOG_USEC", "3000") // a sign of life each millisecond
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	ctx, cancel := context.WithCancel(t.Context())
	d := newPlace(t, "sim:1").open(t, ctx)
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	if first := hear(); first != "READY=1" {
		t.Errorf("first it heard %q", first)
	}
	for range 5 {
		if sign := hear(); sign != "WATCHDOG=1" {
			t.Errorf("while the daemon runs it heard %q", sign)
		}
	}
	cancel()
	last := hear()
	for last == "WATCHDOG=1" { // those on their way
		last = hear()
	}
	if last != "STOPPING=1" {
		t.Errorf("at last it heard %q", last)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
