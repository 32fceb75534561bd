package programs

import (
	"os"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
)

// alone is a plan of one run.
func alone(t *testing.T, script string) *stage {
	s := newStage(t, 1, 1, script)
	s.Plan.Pipelines = s.Plan.Pipelines[:1]
	return s
}

// typed is a file with something to read.
func typed(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() })
	if _, err := write.WriteString("typed\n"); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	return read
}

func TestOneRunReads(t *testing.T) {
	s := alone(t, "cat")
	s.Input = typed(t)
	if r := doRuns(t.Context(), s.runOptions)[0]; r.Err != nil || s.said("plate[0]") != "typed" {
		t.Errorf("%v, said %q", r.Err, s.said("plate[0]"))
	}
}

func TestOfSeveralRunsNoneReads(t *testing.T) {
	s := newStage(t, 2, 2, "cat")
	s.Input = typed(t)
	for _, r := range doRuns(t.Context(), s.runOptions) {
		if r.Err != nil || s.said(r.Name) != "" {
			t.Errorf("%s: %v, said %q", r.Name, r.Err, s.said(r.Name))
		}
	}
}

// The plan is open to a run and to what it starts, nobody can change it, and
// with the run its path is gone.
func TestPlanFile(t *testing.T) {
	f, err := newPlanFile(api.Plan{File: "plate.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("the plan can be changed")
	}
	s := alone(t, `echo "$BERTH_PLAN"; exec 3<&- 4<&-; (cat "$BERTH_PLAN")`)
	order := s.Order
	s.Order = func(run api.PlannedRun, placed api.RunningRun) runOrder {
		o := order(run, placed)
		o.Plan = pathOf(f.Fd())
		return o
	}
	r := doRuns(t.Context(), s.runOptions)[0]
	path, text, _ := strings.Cut(s.said("plate[0]"), "\n")
	if r.Err != nil || !strings.HasPrefix(text, `{"file":"plate.yaml"`) {
		t.Errorf("%v, said %q", r.Err, s.said("plate[0]"))
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", path, err)
	}
}
