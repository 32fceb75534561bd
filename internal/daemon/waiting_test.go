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
	log, damage := openWaiting(path, nothing)
	if damage != nil {
		t.Fatal(damage)
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
	log, damage = openWaiting(path, nothing)
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
