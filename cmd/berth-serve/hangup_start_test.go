package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A SIGHUP during the start does not end the daemon.
func TestHangupDuringTheStart(t *testing.T) {
	// The scenario is a pipe, so that the daemon is known to be where it starts.
	file := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := unix.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	const text = "devices:\n  - model: t4\n"
	d := serving(t, "--devices", "sim:"+file)
	d.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Process.Kill() })
	pipe, err := os.OpenFile(file, os.O_WRONLY, 0) // returns when the daemon reads
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(file), os.WriteFile(file, []byte(text), 0o600)); err != nil { // for the reload
		t.Fatal(err)
	}
	if _, err := pipe.WriteString(text); err != nil {
		t.Error(err)
	}
	_ = pipe.Close()
	d.says(t, "READY=1")
	d.signal(t)
	if err := d.Wait(); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
}
