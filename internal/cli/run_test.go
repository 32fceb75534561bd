package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
)

func halfway() batch.Progress {
	return batch.Progress{
		Stage: batch.StageRunning, Total: gpu.Some(int64(200000)), Exact: true, Done: 100000, Failed: 2,
		Rate: gpu.Some(1234.5), Left: gpu.Some(81.0), Workers: 3,
		GPUs: []batch.GPUProgress{
			{GPU: batch.GPU{Index: 0}, Workers: 2, Ready: 2, Speed: 1, Batch: 128, Done: 75000, Rate: gpu.Some(1000.0)},
			{GPU: batch.GPU{Index: 1}, Workers: 1, Speed: 0.5, Batch: 64, Done: 25000, Rate: gpu.Some(4.5)},
		},
	}
}

func TestRunBlock(t *testing.T) {
	want := []string{
		"GPU  DONE                        RECORDS  RECORDS/S  WORKERS  BATCH",
		"0    ██████████░░░░░░░░░░░░░░░░   75,000      1,000      2/2    128",
		"1    ███░░░░░░░░░░░░░░░░░░░░░░░   25,000        4.5      0/1     64  ×0.5",
		"all  █████████████░░░░░░░░░░░░░  100,000      1,234      2/3",
		"100,000 of 200,000 records (50 %), 1,234 records/s, 1 min left, 2 failed",
	}
	if diff := cmp.Diff(want, runBlock(halfway(), 78, 40, false)); diff != "" {
		t.Error(diff)
	}
	for width := range 120 {
		for _, line := range runBlock(halfway(), width, 40, false) {
			if columns(line) > width {
				t.Errorf("%d columns wide, for %d: %s", columns(line), width, line)
			}
		}
	}
}

// TestRunBlockFitsTheScreen: one that does not cannot be written over.
func TestRunBlockFitsTheScreen(t *testing.T) {
	p := halfway()
	for i := 2; i < 30; i++ {
		p.GPUs = append(p.GPUs, batch.GPUProgress{GPU: batch.GPU{Index: i}})
	}
	for height := 1; height < 40; height++ {
		if got := len(runBlock(p, 78, height, false)); got > height {
			t.Errorf("%d lines on a screen of %d", got, height)
		}
	}
	if got := len(runBlock(p, 78, 40, false)); got != mostBars+3 {
		t.Errorf("%d lines where there is room", got)
	}
}

func TestRunLine(t *testing.T) {
	for want, p := range map[string]batch.Progress{
		"1 of 1 record (100 %)":                              {Stage: batch.StageRunning, Exact: true, Done: 1, Total: gpu.Some(int64(1)), Workers: 1},
		"0 records, no worker":                               {Stage: batch.StageRunning},
		"1,000 of about 3,000 records (33 %)":                {Stage: batch.StageRunning, Done: 1000, Total: gpu.Some(int64(3000)), Workers: 1},
		"3,001 of about 3,000 records (100 %)":               {Stage: batch.StageRunning, Done: 3001, Total: gpu.Some(int64(3000)), Workers: 1},
		"all records are done; the output is being finished": {Stage: batch.StageFinishing},
	} {
		if got := runLine(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestRunScreen: what workers print stands above the block, whole, and the
// block goes away at the end.
func TestRunScreen(t *testing.T) {
	var err bytes.Buffer
	s := &runScreen{app: &app{Env: Env{Err: &err}}}
	s.draw([]string{"one", "two"})
	s.say("hello %d", 1)
	s.notify(batch.Event{Code: batch.EventReady, Text: "not told"})
	s.notify(batch.Event{Code: batch.EventFailed, Worker: "worker 1", Text: "died\x1b[2J"})
	s.draw(nil)
	const wipe = "\x1b[2A\r\x1b[J"
	want := strings.Join([]string{
		"one\ntwo\n", "berth: hello 1\none\ntwo\n", "berth: worker 1 on GPU 0: died?[2J\none\ntwo\n", "",
	}, wipe)
	if diff := cmp.Diff(want, err.String()); diff != "" {
		t.Error(diff)
	}
}

func TestThousands(t *testing.T) {
	for want, n := range map[string]int64{"0": 0, "999": 999, "1,000": 1000, "12,345": 12345, "1,234,567": 1234567} {
		if got := thousands(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
