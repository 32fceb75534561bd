package programs

import (
	"context"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

func TestNextFollowsThePlan(t *testing.T) {
	type runs []*task
	wide, other := &group{}, &group{}
	anywhere := &api.PlannedPipeline{}
	planned := func(uuid string) *task {
		return &task{pipeline: anywhere, run: api.PlannedRun{GPU: uuid, Wave: 1}, group: wide}
	}
	waits := func(uuid string) *task {
		return &task{pipeline: anywhere, run: api.PlannedRun{GPU: uuid}, group: other}
	}
	pinned := func(uuid string) *task {
		return &task{pipeline: &api.PlannedPipeline{Candidates: []string{uuid}}, run: api.PlannedRun{GPU: uuid, Wave: 1}, group: other}
	}
	on := func(uuid string) *Result {
		return &Result{RunningRun: api.RunningRun{Lease: &api.Lease{Parts: []api.LeasePart{{GPU: uuid}}}}}
	}
	plan := api.Plan{Devices: []api.PlannedLoad{{GPU: "A", SideBySide: 1}, {GPU: "B", SideBySide: 1}, {GPU: "C"}, {GPU: "D"}}}
	for _, c := range []struct {
		name          string
		running       []*Result
		asking, tasks runs
		want          int // place in tasks
	}{
		{"in order", nil, nil, runs{planned("A"), planned("B")}, 0},
		{"where there is room", []*Result{on("A")}, nil, runs{planned("A"), planned("B")}, 1},
		{"all as full as planned", []*Result{on("B"), on("A")}, nil, runs{planned("A"), planned("B")}, -1},
		{"from the longest queue", []*Result{on("A"), on("C")}, nil, runs{planned("A"), planned("C"), planned("C")}, 1},
		{"nothing runs, whatever was planned", nil, nil, runs{planned("D")}, 0},
		{"they run elsewhere", []*Result{on("B"), on("B"), on("C")}, nil, runs{planned("A")}, 0},
		{"one of the same need asks", nil, runs{planned("A")}, runs{planned("B")}, -1},
		{"one of another need asks", nil, runs{pinned("A")}, runs{planned("B")}, 0},
		{"one of another need asks for the same room", nil, runs{pinned("A")}, runs{planned("A"), planned("B")}, 1},
		{"one that the plan has no room for", []*Result{on("B"), on("A")}, nil, runs{planned("A"), waits("A")}, 1},
		{"which is in nobody's way", nil, runs{waits("A")}, runs{planned("A")}, 0},
		{"a device that it cannot use is idle", []*Result{on("A")}, nil, runs{pinned("A")}, -1},
		{"the work of others is not taken", []*Result{on("A")}, nil, runs{planned("A"), pinned("B")}, 1},
	} {
		wide.asking, other.asking = 0, 0
		for _, t := range c.asking {
			t.aim = t.run.GPU
			t.group.asking++
		}
		r := &planRuns{runOptions: runOptions{Plan: plan}, running: c.running, asking: c.asking}
		if got := r.next(c.tasks); got != c.want {
			t.Errorf("%s: task %d is next, want %d", c.name, got, c.want)
		}
	}
}

// A run that waits for its lease holds up nobody who needs another; only runs
// that need the same wait behind it.
func TestWaitingHoldsUpNobodyElse(t *testing.T) {
	for name, second := range map[string]api.PlannedPipeline{
		"another device":  {Memory: 10, Candidates: []string{"GPU-1"}},
		"less memory":     {Memory: 1, Candidates: []string{"GPU-0"}},
		"another service": {Memory: 10, Candidates: []string{"GPU-0"}, Service: "other"},
		"more urgent":     {Memory: 10, Candidates: []string{"GPU-0"}, Priority: gpu.Some(3)},
	} {
		for _, wave := range []int{0, 1} {
			s := newStage(t, 0, 4, "exit 0")
			second.Name, second.Slots = "second", 1
			second.Runs = []api.PlannedRun{{Name: "second", GPU: second.Candidates[0], Wave: wave}}
			s.Plan.Pipelines = []api.PlannedPipeline{{
				Name: "first", Memory: 10, Slots: 1, Candidates: []string{"GPU-0"},
				Runs: []api.PlannedRun{{Name: "first[0]", GPU: "GPU-0", Wave: wave}, {Name: "first[1]", GPU: "GPU-0", Wave: wave}},
			}, second}
			done, lease := make(chan struct{}), s.Lease
			s.Lease = func(ctx context.Context, p *api.PlannedPipeline, run api.PlannedRun, pid int) (api.RunningRun, error) {
				if p.Name == "first" {
					<-done // the second has to end before the first begins
				}
				return lease(ctx, p, run, pid)
			}
			s.after = func(r Result) {
				if r.Name == "second" {
					close(done)
				}
			}
			doRuns(t.Context(), s.runOptions)
			if want := []string{"second", "first[0]", "first[1]"}; !slices.Equal(s.begun, want) {
				t.Errorf("%s: began %v, want %v", name, s.begun, want)
			}
		}
	}
}
