package cli

import (
	"errors"
	"strings"
	"testing"
)

// Words of other tools are answered with what to write.
func TestForeignWords(t *testing.T) {
	berth := New(Env{})
	for line, want := range map[string]string{
		"ps": "berth leases (", "list": "berth leases (", "queue": "berth leases (", "squeue": "berth leases (", "kill 7": "berth release (", "scancel 7": "berth release (",
		"sbatch job.sh": "berth exec (", "exec --mem 8G -- true": "--memory 8GiB", "exec -n 2 -- true": "--gpus 2", "exec -w node -- true": "--gpu 1",
		"models": "berth services (", "unload chat": "berth stop (", "load chat": "berth start (", "pipeline x.yaml": "berth plan (", "dump": "berth backup (", "record day.csv --for 5m": "berth export samples.csv",
		"status --gpu 0": "berth status 0", "cancel --all": "berth jobs", "plan --dry-run x.yaml": "without --run", "token create ci --for 1d": "--expires 7d", "jobs --mine": "--user",
	} {
		berth.SetArgs(strings.Fields(line))
		cmd, err := berth.ExecuteC()
		err = translated(cmd, err)
		var hinted interface{ Hint() string }
		if !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), want) {
			t.Errorf("berth %s: %v", line, err)
		}
	}
}
