package view

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
)

func TestRuns(t *testing.T) {
	plan := api.Plan{File: "plate\x1b.yaml", SideBySide: 2, Waves: 3}
	n := Runs{Total: 6, Running: 1, Done: 2, Failed: 1, Stopped: 2}
	placed := []api.RunningRun{{Placement: api.PlacedAsPlanned}, {Placement: api.PlacedElsewhere}, {Placement: api.PlacedAsPlanned}, {}}
	lease := &api.Lease{Parts: []api.LeasePart{{GPU: "GPU-b"}}}
	gpus, failed := GPUs{"GPU-b": 1}, errors.New("exit status 3\nsee above")
	for _, c := range []struct{ got, want string }{
		{n.Begin(plan), "plate?.yaml: 6 runs, 2 side by side on GPUs, 3 waves"},
		{Runs{Total: 1}.Begin(api.Plan{File: "a.yaml"}), "a.yaml: 1 run"},
		{n.Line(time.Minute), "█████████████████░░░ 2 of 6 done, 1 running, 1 min, 1 failed"},
		{n.End(time.Minute, placed), "6 runs in 1 min: 2 done, 1 failed; 2 on the GPU of the plan, 1 on another; 2 stopped, or not started"},
		{Runs{Total: 1, Done: 1}.End(time.Second, nil), "1 run in 1.0 s: 1 done, 0 failed"},
		{gpus.RunStarts(api.RunningRun{Name: "w", Placement: api.PlacedAsPlanned, Lease: lease}), "w starts on GPU 1"},
		{gpus.RunStarts(api.RunningRun{Name: "w", Placement: api.PlacedElsewhere, Lease: lease, Reason: "it is full"}), "w starts on GPU 1, and not as planned: it is full"},
		{gpus.RunStarts(api.RunningRun{Name: "w"}), "w starts, without a GPU"},
		{RunEnds("w", true, time.Second, nil), "w is done after 1.0 s"},
		{RunEnds("w", true, time.Second, failed), "w failed after 1.0 s: exit status 3?see above"},
		{RunEnds("w", false, 0, failed), "w did not start: exit status 3\nsee above"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
