package view

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

func TestBatchSummary(t *testing.T) {
	ended := api.Batch{
		Done: 12345, Before: 345, Failed: 3, Marked: 1, Retries: 20, Restarts: 1, Energy: gpu.Some(gpu.Joules(18000)),
		GPUs: []api.BatchGPU{
			{Index: 0, Name: "NVIDIA H200", Done: 11000, Failed: 3, Restarts: 1, Rate: gpu.Some(1100.0), Busy: 9},
			{Index: 1, Name: "odd\x1b[2J", Done: 1000, Rate: gpu.Some(1.25), Busy: 75},
		},
	}
	want := []string{
		"GPU  NAME         RECORDS  FAILED  RESTARTS  RECORDS/S   BUSY",
		"0    NVIDIA H200   11,000       3         1      1,100    9 s",
		"1    odd?[2J        1,000       0         0        1.2  1 min",
		"",
		"12,000 records in 10 s, and 345 before that: 3 failed (1 broke workers), 20",
		"given out again, 1 restart; 1,200 records/s; 5 Wh, 1.5 J a record",
	}
	if diff := cmp.Diff(want, BatchSummary(ended, 10*time.Second, term.Screen{Width: 78})); diff != "" {
		t.Error(diff)
	}
	want = []string{"0 records in 0.0 s: 0 failed, 0 given out again, 0 restarts; 0.0 records/s"}
	if diff := cmp.Diff(want, BatchSummary(api.Batch{}, 0, term.Screen{Width: 80})); diff != "" {
		t.Error(diff)
	}
}
