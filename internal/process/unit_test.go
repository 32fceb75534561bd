package process

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHasUnitFile(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"embedder.service", "worker@.service"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{
		"embedder": true, "embedder.service": true, "worker@2": true, "worker@2.service": true,
		"worker": false, "embed": false, "": false, "../embedder": false, "embedder\x00": false, ".": false,
	} {
		if got := hasUnitFile([]string{"/nowhere", folder}, name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
