package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// shortDir returns a folder with a short path: that of a socket is limited.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// berthIn returns this program under the name berth in a folder: under that name
// it is the command, see TestMain.
func berthIn(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	berth := filepath.Join(dir, "berth")
	if err := os.Symlink(self, berth); err != nil {
		t.Fatal(err)
	}
	return berth
}

// notifyIn listens on the socket n in a folder, where a daemon says that it is
// ready.
func notifyIn(t *testing.T, dir string) *net.UnixConn {
	t.Helper()
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "n"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = notify.Close() })
	return notify
}
