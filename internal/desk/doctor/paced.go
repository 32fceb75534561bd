package doctor

import (
	"path/filepath"

	"github.com/berth-gpu/berth/internal/enforce/pace"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/text/words"
)

// leftStopped finds processes that were left stopped when a daemon was killed together
// with its guardian.
func leftStopped(stateDir string) []Finding {
	boot, err := process.Proc().Boot()
	if err != nil {
		return nil
	}
	n, err := pace.Left(filepath.Join(stateDir, pace.FileName), boot)
	switch {
	case err != nil:
		return []Finding{{"paced", Notice, "it is not known whether processes were left stopped: " + err.Error(), "ask as the user that runs the daemon"}}
	case n == 0:
		return nil
	}
	return []Finding{{"paced", Broken, words.Count(n, "process") + " of paced leases were left stopped", "start the daemon, which continues them"}}
}
