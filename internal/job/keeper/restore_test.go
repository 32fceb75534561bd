package keeper

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/job"
)

// Tasks that ran are lost unless the record of their run is there, whatever they wanted to
// be done after a reboot: their programs may still run on another machine. Jobs without
// their environments stay held, also when the environment comes back.
func TestRestore(t *testing.T) {
	folder := t.TempDir()
	environments := filepath.Join(folder, "environments")
	open := func(replay func(journal.Entry) error) (journal.Journal, error) {
		log, _, err := filelog.Open(file.PrivateDir(filepath.Join(folder, "journal")), filelog.Options{}, replay)
		return log, err
	}
	log, err := open(func(journal.Entry) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	spec := func(n int64, environment string) *job.Spec {
		return &job.Spec{Number: n, Name: "j", UID: 1, User: "ada", Command: []string{"true"}, Environment: environment, Requeue: job.OnMachine, Lease: api.LeaseRequest{Memory: 1}}
	}
	runs := func(n int64, s job.State) *tasks { return &tasks{Number: n, Task: job.Task{State: s, Try: 1, PID: 7}} }
	many := spec(6, "1-lost")
	many.Array = job.Array{{First: 1, Last: 3, Step: 1}}
	for _, e := range []entry{
		{Submit: spec(1, "")}, {Tasks: runs(1, job.Running)},
		{Submit: spec(2, "")}, {Tasks: runs(2, job.Running)},
		{Submit: spec(3, "")}, {Tasks: runs(3, job.Stopping)},
		{Submit: spec(4, "1-lost")},
		{Submit: spec(5, "")},
		{Submit: many}, {Tasks: &tasks{Number: 6, First: 1, Last: 1, Task: job.Task{State: job.Starting, Try: 1}}},
		{Submit: spec(7, "1-lost")}, {Tasks: runs(7, job.Done)},
	} {
		if err := log.Append([][]byte{e.text()}, journal.Care{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	did, err := Restore(environments, time.Now(), func(run string) bool { return run == "2.0.1" }, open)
	if err != nil || did.Lost != 3 || did.Held != 2 {
		t.Fatalf("%+v, %v", did, err)
	}
	if did, err := Restore(environments, time.Now(), func(string) bool { return true }, open); err != nil || did.Lost != 0 {
		t.Errorf("a second restoration: %+v, %v", did, err)
	}
	look := func() *Keeper {
		k, err := Open(Options{Folder: environments, Limits: func(int, string) Limits { return Limits{} }, Open: open})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	k := look()
	for n, want := range map[int64]string{1: "lost", 2: "running", 3: "cancelled", 4: "held", 5: "waiting", 6: "held", 7: "done"} {
		shown, err := k.Show(job.Ref{Number: n})
		if err != nil || shown.State != want {
			t.Errorf("job %d is %s, want %s: %v", n, shown.State, want, err)
		}
		if bare := n == 4 || n == 6; bare != (shown.Code == string(job.NoEnvironment)) || bare && shown.Cause == "" {
			t.Errorf("job %d: %s, %s", n, shown.Code, shown.Cause)
		}
	}
	if k.jobs[4].ready || k.jobs[6].ready || !k.jobs[5].ready {
		t.Error("a job without its environment would begin, or another would not")
	}
	if err := k.Unhold(Act{Ref: job.Ref{Number: 4}}); err == nil {
		t.Error("a job without its environment was let go")
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(environments, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := file.Replace(filepath.Join(environments, "1-lost"), []byte(`["A=1"]`)); err != nil {
		t.Fatal(err)
	}
	k = look()
	if shown, err := k.Show(job.Ref{Number: 4}); err != nil || shown.State != "held" || shown.Code != string(job.OnHold) {
		t.Errorf("%+v, %v", shown.Job, err)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
}

// An environment that was lost is written again for the next job that has it.
func TestALostEnvironmentIsKeptAgain(t *testing.T) {
	e := &environments{folder: filepath.Join(t.TempDir(), "environments"), all: map[string]*environment{}}
	name, err := e.keep(1, []string{"A=1"})
	if err != nil {
		t.Fatal(err)
	}
	e.use(name)
	if err := os.Remove(e.path(name)); err != nil {
		t.Fatal(err)
	}
	if again, err := e.keep(1, []string{"A=1"}); err != nil || again != name {
		t.Fatal(again, err)
	}
	if read, err := e.read(name); err != nil || !slices.Equal(read, []string{"A=1"}) {
		t.Error(read, err)
	}
}
