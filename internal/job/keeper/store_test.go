package keeper

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/file/journal"
)

// A caller learns that the disk did not take an environment, and not where it is kept.
func TestEnvironmentThatCannotBeKept(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "absent", "environments")
	_, err := (&environments{folder: folder}).keep(1000, []string{"A=1"})
	if failed := (*journal.WriteError)(nil); !errors.As(err, &failed) || strings.Contains(err.Error(), folder) {
		t.Errorf("%v", err)
	}
}
