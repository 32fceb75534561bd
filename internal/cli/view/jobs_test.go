package view

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

// before returns a time that long before now.
func before(d time.Duration) *time.Time {
	t := now.Add(-d)
	return &t
}

// someJobs is a queue of three people: one of each state.
func someJobs() api.Jobs {
	soon, late := now.Add(20*time.Minute), now.Add(50*time.Minute)
	tomorrow := now.Add(9 * time.Hour)
	return api.Jobs{Jobs: []api.Job{
		{ID: "job-31", User: "bob", State: "waiting", Submitted: now.Add(-time.Minute), GPUs: 1, Cause: "it waits for memory: GPU 0 has 3 GiB and it needs 20 GiB"},
		{ID: "eval-30", Name: "eval", User: "ada", State: "waiting", Submitted: now.Add(-2 * time.Hour), GPUs: 1, Memory: 8192, After: []string{"train-17"}, Estimate: &api.Estimate{Likely: &soon, Late: &late}},
		{ID: "night-29", Name: "night", User: "ada", State: "held", Submitted: now.Add(-3 * time.Hour), GPUs: 2, Memory: 40960, Begin: &tomorrow, AfterAny: []string{"a-1", "b-2"}, AfterFail: []string{"c-3"}},
		{ID: "sweep-28", Name: "sweep", User: "ada", State: "running", Submitted: now.Add(-4 * time.Hour), Started: before(3 * time.Hour), GPUs: 1, Memory: 4096, Devices: []string{"GPU-0", "GPU-1"},
			Tasks: &api.JobTasks{Total: 12, Most: 4, Running: 4, Waiting: 3, Done: 4, Failed: 1},
			List: []api.Job{
				{ID: "sweep-28.1", State: "done", Submitted: now.Add(-4 * time.Hour), Started: before(3 * time.Hour), Ended: before(2 * time.Hour), Exit: gpu.Some(0), Devices: []string{"GPU-1"}, Params: map[string]string{"lr": "0.1", "bs": "32"}},
				{ID: "sweep-28.2", State: "failed", Submitted: now.Add(-4 * time.Hour), Started: before(3 * time.Hour), Ended: before(2 * time.Hour), Exit: gpu.Some(137), Params: map[string]string{"lr": "0.01", "bs": "it's \x1b[2J"}, Cause: "out of GPU memory after 45 min, while a stranger used 20 GiB"},
				{ID: "sweep-28.3", State: "waiting", Submitted: now.Add(-4 * time.Hour), Try: 2, Params: map[string]string{"lr": "0.001", "bs": "64"}},
			}},
		{ID: "train-17", Name: "train\x1b[2J", User: "ada", Service: "trainer", State: "running", Submitted: now.Add(-50 * time.Minute), Started: before(45 * time.Minute), GPUs: 1, Memory: 20480, Devices: []string{"GPU-0"},
			Command: []string{"bash", "-c", "#!/bin/bash\npython train.py\n", "/home/ada/it's.sh"}, Directory: "/home/ada/exp", Log: "/home/ada/exp/berth-train-17.log", ErrorLog: "/home/ada/exp/errors",
			Try: 2, Retry: 3, TimeLimit: 14400, Lease: "train-17", PID: 4711, Peak: gpu.Some(gpu.MiB(17000)), Load: gpu.Some(87.4), Energy: gpu.Some(3.6e6),
			CPUs: 4, HostMemory: 16384, PeakHost: gpu.Some(gpu.MiB(3100)), Priority: -5, Comment: "ask Ada"},
		{ID: "moved-16", User: "bob", State: "parked", Submitted: now.Add(-5 * time.Hour), Started: before(4 * time.Hour), GPUs: 2, Memory: 1024, Devices: []string{"GPU-0", "GPU-9"}},
		{ID: "old-15", User: "ada", State: "done", Submitted: now.Add(-9 * time.Hour), Started: before(8 * time.Hour), Ended: before(6 * time.Hour), Exit: gpu.Some(0), GPUs: 1, Devices: []string{"GPU-1"}},
		{ID: "bad-14", User: "ada", State: "failed", Submitted: now.Add(-9 * time.Hour), Started: before(8 * time.Hour), Ended: before(7 * time.Hour), Exit: gpu.Some(3), GPUs: 1},
		{ID: "slow-13", User: "ada", State: "timed_out", Submitted: now.Add(-9 * time.Hour), Started: before(8 * time.Hour), Ended: before(4 * time.Hour), GPUs: 1, Cause: "its time limit of 4 h was over"},
		{ID: "gone-12", User: "ada", State: "lost", Submitted: now.Add(-90 * time.Hour), Started: before(80 * time.Hour), GPUs: 1, Cause: "the machine was started anew"},
		{ID: "not-11", User: "ada", State: "cancelled", Submitted: now.Add(-90 * time.Hour), Ended: before(5 * time.Hour), GPUs: 1},
	}}
}

func TestJobViews(t *testing.T) {
	gpus := GPUsOf(someStatus())
	all := someJobs()
	views := map[string]func(to term.Screen) []string{
		"jobs": (&Jobs{Jobs: all, GPUs: gpus, Me: "ada"}).Lines,
		"jobs-none": func(to term.Screen) []string {
			return append((&Jobs{}).Lines(to), (&Jobs{Filtered: true}).Lines(to)...)
		},
		"job": func(to term.Screen) (lines []string) {
			for _, j := range all.Jobs {
				lines = append(append(lines, (&Job{Job: j, Indexes: gpus}).Lines(to)...), "")
			}
			return lines
		},
		"job-said": func(to term.Screen) (lines []string) {
			for _, j := range all.Jobs {
				lines = append(lines, JobEnd(j), JobHeld(j, to), JobPriority(j, to), JobCancelled(j, to))
			}
			return lines
		},
		"job-would": func(to term.Screen) (lines []string) {
			for _, j := range all.Jobs[:4] {
				lines = append(append(lines, JobWould(j, to)...), "")
			}
			return lines
		},
	}
	compareViews(t, views)
}

// Whatever users call their jobs, every id can be read whole, no line of the table is too
// long for 80 columns, and nothing that a terminal would act on gets through.
func TestJobTableFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := &Jobs{Jobs: someJobs(), GPUs: GPUs{"GPU-0": 0, "GPU-1": 1}, Me: "ada"}
		for i := range all.Jobs.Jobs {
			j := &all.Jobs.Jobs[i]
			j.ID = rapid.StringMatching(`[a-z][a-z0-9_.]{0,63}-[0-9]{1,6}`).Draw(t, "id")
			j.User, j.Cause = names().Draw(t, "user"), names().Draw(t, "cause")
		}
		to := term.Screen{Width: 80, Now: now}
		lines := strings.Split(strings.Join(all.Lines(to), "\n"), "\n")
		for _, line := range lines {
			if term.Columns(line) > to.Width || strings.ContainsAny(line, "\x1b") {
				t.Fatalf("%d columns: %q", term.Columns(line), line)
			}
		}
		// A long id is folded: its parts stand below each other.
		whole := ""
		for _, line := range lines {
			word, _, _ := strings.Cut(line, " ")
			whole += word
		}
		for _, j := range all.Jobs.Jobs {
			if !strings.Contains(whole, j.ID) {
				t.Fatalf("%s cannot be read in\n%s", j.ID, strings.Join(lines, "\n"))
			}
		}
	})
}

// A job that failed shows the end of its log, and says so if that is about memory.
func TestEndOfTheLogOfAJobThatFailed(t *testing.T) {
	s := Job{
		Job:  api.Job{ID: "train-3", State: "failed", Code: "exit_code", Cause: "exit code 1 after 3 min", Submitted: now},
		Tail: []string{"one", "two", "Traceback", "  three", strings.Repeat(" ", 70) + "four", "five", "torch.OutOfMemoryError: CUDA out of memory.\x1b[2J"},
	}
	text := strings.Join(s.Lines(term.Screen{Width: 80, Now: now}), "\n")
	for _, want := range []string{"exit code 1 after 3 min. Its log says that the memory of a GPU ran", "the end of its log:", "    Traceback\n      three\n", "    torch.OutOfMemoryError: CUDA out of memory."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "two") || strings.Contains(text, "\x1b[2J") {
		t.Error(text)
	}
	s.Code = "time_limit"
	if text := strings.Join(s.Lines(term.Screen{Width: 80, Now: now}), "\n"); strings.Contains(text, "ran out") {
		t.Error(text)
	}
}

// A note says at 80 columns why nobody knows when a job starts.
func TestNoteOfAnUnknownStart(t *testing.T) {
	j := api.Job{ID: "render-17", User: "ada", State: "waiting", Code: "queue", Submitted: now.Add(-time.Minute), Estimate: &api.Estimate{Unknown: "train-3 has no time limit and no history"}}
	lines := (&Jobs{Jobs: api.Jobs{Jobs: []api.Job{j}}}).Lines(term.Screen{Width: 80, Now: now})
	if text := strings.Join(lines, "\n"); !strings.Contains(text, "start unknown, train-3 has no end") || strings.Contains(text, "…") {
		t.Error(text)
	}
}
