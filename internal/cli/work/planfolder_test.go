package work

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/programs"
)

func folderIn(t *testing.T, path string) *runFolder {
	t.Helper()
	f, err := openRunFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f
}

func remaining(f *runFolder) (names []string) {
	plan := api.Plan{Pipelines: []api.PlannedPipeline{{Runs: []api.PlannedRun{{Name: "a"}, {Name: "b"}}}, {Runs: []api.PlannedRun{{Name: "c"}}}}}
	f.left(&plan)
	for _, p := range plan.Pipelines {
		for _, r := range p.Runs {
			names = append(names, r.Name)
		}
	}
	return names
}

// What has not ended well is run again, also after a kill: everything is written when it
// happens.
func TestOnlyTheFailedRunAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plate.yaml")
	f := folderIn(t, path)
	if f.path != strings.TrimSuffix(path, ".yaml")+".runs" {
		t.Errorf("the folder is %s", f.path)
	}
	if err := errors.Join(f.begin(false), f.ended("a", true), f.ended("b", false)); err != nil {
		t.Fatal(err)
	}
	f.close() // as a kill does
	f = folderIn(t, path)
	if got := remaining(f); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("%v are run again", got)
	}
	if err := errors.Join(f.begin(true), f.ended("b", true)); err != nil {
		t.Fatal(err)
	}
	if got := remaining(f); !slices.Equal(got, []string{"c"}) {
		t.Errorf("%v are run again", got)
	}
	if err := f.begin(false); err != nil || len(remaining(f)) != 3 {
		t.Errorf("without --failed, %v are run, %v", remaining(f), err)
	}
	f.close()
	if err := os.WriteFile(filepath.Join(f.path, outcomesFile), []byte("{torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := remaining(folderIn(t, path)); len(got) != 3 {
		t.Errorf("after a torn file only %v are run", got)
	}
}

func TestTwoCommandsExcludeEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plate.yaml")
	f := folderIn(t, path)
	if _, err := openRunFolder(path); !errors.Is(err, errUnderWay) {
		t.Errorf("the second was answered with %v", err)
	}
	f.close()
	folderIn(t, path)
}

func TestFolderOfSomebodyElse(t *testing.T) {
	folder := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(folder, "plate.runs")); err != nil {
		t.Fatal(err)
	}
	if _, err := openRunFolder(filepath.Join(folder, "plate.yaml")); err == nil {
		t.Error("a link was followed")
	}
}

func TestNamesOfLogs(t *testing.T) {
	f := &runFolder{path: "plate.runs"}
	for run, want := range map[string]string{"plate[7]": "plate.runs/plate[7].log", "../a b": "plate.runs/..%2Fa%20b.log", "ä": "plate.runs/%C3%A4.log"} {
		if got := f.log(run); got != want {
			t.Errorf("%s: %s", run, got)
		}
	}
}

// At the end, the failed runs are named with their logs, and how to run them again.
func TestFailedRunsAreNamed(t *testing.T) {
	p, out, errs := newShown(0)
	p.folder = folderIn(t, filepath.Join(t.TempDir(), "plate.yaml"))
	stdout, stderr, done := p.Output("b")
	_, _ = stdout.Write([]byte("counting\n"))
	_, _ = stderr.Write([]byte("it is too dark"))
	done()
	log, err := os.ReadFile(p.folder.log("b"))
	if err != nil || string(log) != "counting\nit is too dark" || !strings.Contains(out.String(), "b: counting\n") {
		t.Errorf("the log is %q, %v; printed %q", log, err, out.String())
	}
	s := &starter{planOptions: &planOptions{Console: p.Console, path: "my plate.yaml", command: []string{"python3", "well.py"}}, folder: p.folder, progress: p}
	s.nameFailed([]programs.Result{{RunningRun: api.RunningRun{Name: "a"}}, {RunningRun: api.RunningRun{Name: "b"}, Err: errors.New("exit status 2")}})
	for _, want := range []string{"berth: failed: b: exit status 2 (" + p.folder.log("b") + ")\n", "berth: to run them again: berth plan 'my plate.yaml' --run --failed -- python3 well.py\n"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q is missing in\n%s", want, errs.String())
		}
	}
}
