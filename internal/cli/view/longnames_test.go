package view

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

// At 80 columns, with the long names of users, jobs and services, nothing is cut: not who
// holds what, not what a request asks for, not why a job waits, and no line is too long.
func TestLongNamesAt80Columns(t *testing.T) {
	const ada, ben, images = "katharina-wilhelmina-o", "bartholomaeus-ferdinand", "preprocess-imagenet-shards-in-parallel"
	status := someStatus()
	status.GPUs, status.Host = status.GPUs[:1], "gpu-server-in-the-basement"
	var held api.Leases
	for _, l := range []struct{ id, service, name, user string }{
		{images + "-1.0", "", images, ada}, {"ablation-2.1", "", "ablation", ada}, {"reranking-service-for-search", "reranking-service-for-search", "", "root"}, {"mine", "", "python3", ben},
	} {
		holder := api.Holder{Service: l.service, Name: l.name, User: l.user, PID: 18735}
		status.GPUs[0].Leases = append(status.GPUs[0].Leases, api.DeviceLease{ID: l.id, Holder: holder, State: "active", Memory: 6144, Slots: 1, Granted: now})
		held.Leases = append(held.Leases, api.Lease{ID: l.id, Holder: holder, Binding: "process", Granted: now, Parts: []api.LeasePart{{GPU: "GPU-0", Memory: 6144, Slots: 1}}})
	}
	likely := now.Add(90 * time.Second)
	for i, w := range []api.Waiting{
		{ID: "fine-tune-llama-on-private-documents-3.0", Holder: api.Holder{Name: "fine-tune-llama-on-private-documents", User: ben}, Memory: 12288, Slots: 1, Limit: "user"},
		{ID: "whole-4", Holder: api.Holder{Name: "whole", User: ben}, GPUs: 2, Memory: 20480, Slots: 1, Estimate: &api.Estimate{Likely: &likely}},
	} {
		w.Position, w.Since = i+1, now.Add(-5*time.Second)
		held.Waiting = append(held.Waiting, w)
	}
	jobs := api.Jobs{Jobs: []api.Job{
		{ID: images + "-1", User: ada, State: "running", Submitted: now.Add(-time.Minute), Started: before(time.Minute), Devices: []string{"GPU-0"}, Tasks: &api.JobTasks{Total: 40, Running: 6, Waiting: 32, Failed: 2}},
		{ID: "whole-4", User: ben, State: "waiting", Code: "queue", Submitted: now.Add(-5 * time.Second), Estimate: &api.Estimate{Likely: &likely}},
		{ID: "big-7", User: "root", State: "waiting", Submitted: now.Add(-time.Minute), Cause: ben + " may hold 40 GiB, and holds 36 GiB", Estimate: &api.Estimate{Unknown: images + "-1.0 has no time limit and no history"}},
		{ID: "oom-5", User: ada, State: "failed", Submitted: now.Add(-time.Minute), Started: before(50 * time.Second), Ended: before(40 * time.Second), Exit: gpu.Some(1)},
	}}
	gpus := GPUs{"GPU-0": 0}
	var text strings.Builder
	for _, view := range []interface{ Lines(to term.Screen) []string }{
		&Status{StatusAll: status}, &Leases{Leases: held, GPUs: gpus}, &Jobs{Jobs: jobs, GPUs: gpus, Me: ada},
	} {
		text.WriteString(strings.Join(view.Lines(term.Screen{Width: 80, Now: now}), "\n") + "\n\n")
	}
	for line := range strings.Lines(text.String()) {
		if strings.Contains(line, "…") || term.Columns(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("cut, or too long: %s", line)
		}
	}
	compare(t, "testdata/longnames.txt", text.String())
}

// A late start that reads like the likely one is not said.
func TestLateStartThatReadsTheSame(t *testing.T) {
	likely, late := now.Add(10*time.Minute), now.Add(10*time.Minute+5*time.Second)
	e := &api.Estimate{Likely: &likely, Late: &late}
	if got := estimated(api.Job{Estimate: e}, now); got != "in about 10 min" {
		t.Error(got)
	}
	if got := Foretold(e, now); got != "It will probably start in 10 min." {
		t.Error(got)
	}
}
