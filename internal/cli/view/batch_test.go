package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

func halfway() api.Batch {
	return api.Batch{
		Stage: "running", Total: gpu.Some(int64(200000)), Exact: true, Done: 100000, Failed: 2,
		Rate: gpu.Some(1234.5), Left: gpu.Some(81.0), Workers: 3,
		GPUs: []api.BatchGPU{
			{Index: 0, Workers: 2, Ready: 2, Speed: 1, Batch: 128, Done: 75000, Rate: gpu.Some(1000.0)},
			{Index: 1, Workers: 1, Speed: 0.5, Batch: 64, Done: 25000, Rate: gpu.Some(4.5)},
		},
	}
}

func TestBatch(t *testing.T) {
	want := []string{
		"GPU  DONE                        RECORDS  RECORDS/S  WORKERS  BATCH",
		"0    ██████████░░░░░░░░░░░░░░░░   75,000      1,000      2/2    128",
		"1    ███░░░░░░░░░░░░░░░░░░░░░░░   25,000        4.5      0/1     64  ×0.5",
		"all  █████████████░░░░░░░░░░░░░  100,000      1,234      2/3",
		"100,000 of 200,000 records (50 %), 1,234 records/s, 1 min left, 2 failed",
	}
	if diff := cmp.Diff(want, Batch(halfway(), 78, 40, false)); diff != "" {
		t.Error(diff)
	}
	for width := range 120 {
		for _, line := range Batch(halfway(), width, 40, false) {
			if term.Columns(line) > width {
				t.Errorf("%d columns wide, for %d: %s", term.Columns(line), width, line)
			}
		}
	}
}

// TestBatchFitsTheScreen: one that does not cannot be written over.
func TestBatchFitsTheScreen(t *testing.T) {
	p := halfway()
	for i := 2; i < 30; i++ {
		p.GPUs = append(p.GPUs, api.BatchGPU{Index: i})
	}
	for height := 1; height < 40; height++ {
		if got := len(Batch(p, 78, height, false)); got > height {
			t.Errorf("%d lines on a screen of %d", got, height)
		}
	}
	if got := len(Batch(p, 78, 40, false)); got != mostBars+3 {
		t.Errorf("%d lines where there is room", got)
	}
}

func TestBatchLine(t *testing.T) {
	for want, p := range map[string]api.Batch{
		"1 of 1 record (100 %)":                              {Stage: "running", Exact: true, Done: 1, Total: gpu.Some(int64(1)), Workers: 1},
		"0 records, no worker":                               {Stage: "running"},
		"1,000 of about 3,000 records (33 %)":                {Stage: "running", Done: 1000, Total: gpu.Some(int64(3000)), Workers: 1},
		"3,001 of about 3,000 records (100 %)":               {Stage: "running", Done: 3001, Total: gpu.Some(int64(3000)), Workers: 1},
		"all records are done; the output is being finished": {Stage: "finishing"},
	} {
		if got := BatchLine(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
