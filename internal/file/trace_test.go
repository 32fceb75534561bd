package file

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSinceBoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, nil, 0o600); err != nil || !SinceBoot(path) {
		t.Errorf("a new file is from before the machine started: %v", err)
	}
	old := time.Now().Add(-100 * 365 * 24 * time.Hour)
	if err := os.Chtimes(path, old, old); err != nil || SinceBoot(path) {
		t.Errorf("a file of the last century is younger than the machine is up: %v", err)
	}
}

func TestTrace(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	if state, known := Traced(socket); known || !TracedSince(socket).IsZero() {
		t.Errorf("nobody left a trace, and it leads to %q", state)
	}
	for _, state := range []string{"/srv/one", "/srv/two"} { // the next daemon has another folder
		if err := LeaveTrace(socket, state); err != nil {
			t.Fatal(err)
		}
		if got, known := Traced(socket); !known || got != state || TracedSince(socket).IsZero() {
			t.Errorf("the trace leads to %q, want %q", got, state)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Lchown(TracePath(socket), 12345, -1); err != nil {
		t.Fatal(err)
	}
	if state, known := Traced(socket); known {
		t.Errorf("a trace that another user left leads to %q", state)
	}
}
