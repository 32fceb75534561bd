package file

import (
	"os"
	"path/filepath"
	"testing"
)

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
