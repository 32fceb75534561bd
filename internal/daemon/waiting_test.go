package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/file/journal"
)

// A damaged log of waiting requests is set aside and told, and keeps no daemon from
// starting.
func TestDamagedLogOfWaitingRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), inventory.Waiting)
	nothing := func(journal.Entry) error { return nil }
	log, damage, err := openWaiting(path, nothing)
	if damage != nil || err != nil {
		t.Fatal(damage, err)
	}
	for range 10 {
		if err := log.Append([][]byte{[]byte(`{"v":1,"gone":true,"id":"a","uid":1}`)}, journal.Care{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(path, "log-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the log has the files %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	text[100] ^= 1
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	log, damage, _ = openWaiting(path, nothing)
	if damage == nil || damage.Aside == "" {
		t.Fatalf("the damage is told as %v", damage)
	}
	if err := log.Append([][]byte{[]byte(`{"v":1,"gone":true,"id":"a","uid":1}`)}, journal.Care{}); err != nil {
		t.Error(err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(damage.Aside); err != nil {
		t.Error(err)
	}
}

// A sound log that cannot be opened at the moment is not damaged: it stays for the next start.
func TestLogOfWaitingRequestsThatCannotBeOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), inventory.Waiting)
	nothing := func(journal.Entry) error { return nil }
	log, _, err := openWaiting(path, nothing)
	if err != nil {
		t.Fatal(err)
	}
	second, damage, err := openWaiting(path, nothing) // somebody else has its lock
	if damage != nil || err == nil {
		t.Errorf("the damage is told as %v, and the error as %v", damage, err)
	}
	if err := second.Append([][]byte{[]byte("x")}, journal.Care{}); err != nil {
		t.Error(err)
	}
	if err := log.Append([][]byte{[]byte("x")}, journal.Care{}); err != nil {
		t.Errorf("the log that stands: %v", err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}
