package process

import (
	"os"
	"path/filepath"
	"testing"
)

// A process may call itself anything, and its name goes into events, the log
// and terminals.
func TestNameIsSafeToShow(t *testing.T) {
	table := Table{root: t.TempDir()}
	if err := os.Mkdir(filepath.Join(table.root, "7"), 0o755); err != nil {
		t.Fatal(err)
	}
	for comm, want := range map[string]string{
		"python3\n": "python3", "a\nb\x1b[31mc\n": "a b\ufffd[31mc", "\xffx\n": "\ufffdx", "x\u202ey\n": "x\ufffdy", "<<<<<<<<<<<<<<<\n": "<<<<<<<<<<<<<<<",
	} {
		if err := os.WriteFile(filepath.Join(table.root, "7", "comm"), []byte(comm), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := table.Name(7); got != want {
			t.Errorf("%q is shown as %q, want %q", comm, got, want)
		}
	}
}
