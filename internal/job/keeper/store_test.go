package keeper

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job"
)

// A caller learns that the disk did not take an environment, and not where it is kept.
func TestEnvironmentThatCannotBeKept(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "absent", "environments")
	_, err := (&environments{folder: folder}).keep(1000, []string{"A=1"})
	if failed := (*journal.WriteError)(nil); !errors.As(err, &failed) || strings.Contains(err.Error(), folder) {
		t.Errorf("%v", err)
	}
}

// What is kept of tasks that have ended counts too, also while their job has not.
func TestSizeOfTasksThatEnded(t *testing.T) {
	k := recall(t, t.TempDir(), nil)
	j := k.add(&job.Spec{Number: 1, UID: 1, User: "ada", Command: []string{"true"}, Array: job.Array{{First: 1, Last: 100, Step: 1}}}, 1000)
	before := j.owner.size
	k.put(j, 0, 0, &job.Task{State: job.Running})
	if j.owner.size != before {
		t.Errorf("one that runs takes %d bytes", j.owner.size-before)
	}
	k.put(j, 0, 0, &job.Task{State: job.Done, Output: strings.Repeat("o", 4000), Error: strings.Repeat("e", 3000)})
	k.put(j, 1, 98, &job.Task{State: job.Cancelled, Cause: strings.Repeat("c", 200)}) // one value
	if got := j.owner.size - before; got != 7200+2*endedSize {
		t.Errorf("they take %d bytes", got)
	}
	k.put(j, 99, 99, &job.Task{State: job.Done})
	k.retire(j)
	k.drop(1)
	if j.owner.size != 0 || len(k.users) != 0 {
		t.Errorf("%d bytes are left", j.owner.size)
	}
}
