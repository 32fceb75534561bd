package daemon

import (
	"testing"

	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/process"
)

// A daemon that cannot read which boot this is does not start: it would take what an earlier
// one has stopped for that of another boot.
func TestPacingNeedsTheBoot(t *testing.T) {
	d := &Daemon{processes: process.At(t.TempDir())}
	if d.openPacer(Options{Settings: &config.Settings{}}) == nil {
		t.Error("it starts, and forgets what stands still")
	}
}
