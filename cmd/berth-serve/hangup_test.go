package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/client"
)

// hangup makes a daemon read an edited configuration again with SIGHUP.
func hangup(t *testing.T, start func(*stalled)) *stalled {
	t.Helper()
	file := filepath.Join(t.TempDir(), "berth.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("gpu: {temp_optimal: 61}\n")
	d := serving(t, "--config", file)
	start(d)
	d.begin(t)
	c, err := client.New(client.Options{Socket: d.socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)

	write("gpu: {temp_optimal: 62}\n")
	if err := d.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for got := ""; got != "62"; {
		all, err := c.ConfigFields(t.Context())
		if err != nil {
			t.Fatalf("the daemon does not answer after SIGHUP: %v", err)
		}
		for _, f := range all.Fields {
			if f.Field == "gpu.temp_optimal" {
				got = f.Value
			}
		}
	}
	return d
}

// At a terminal too, SIGHUP makes the daemon read its configuration again. The
// end of the terminal ends the daemon, as it ends every program there.
func TestHangupAtATerminal(t *testing.T) {
	keyboard, screen := openTerminal(t)
	d := hangup(t, func(d *stalled) {
		d.Stdin, d.Stdout = screen, screen
		d.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	})
	_, _ = screen.Close(), keyboard.Close()
	if err := d.Wait(); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
}

func TestHangupOfAService(t *testing.T) {
	d := hangup(t, func(d *stalled) { d.SysProcAttr = &syscall.SysProcAttr{Setsid: true} })
	d.signal(t)
	if err := d.Wait(); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
}
