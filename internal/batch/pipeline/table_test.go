package pipeline

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

// hostile is a plan whose names mean something to terminals, Mermaid and
// Graphviz.
func hostile() *api.Plan {
	return &api.Plan{
		Waves: 1, SideBySide: 1,
		Devices: []api.PlannedLoad{{GPU: "GPU-a", Name: "模擬\x1b[2Jカード", Runs: 1, SideBySide: 1, Waves: 1, Memory: 1624}},
		Pipelines: []api.PlannedPipeline{{
			Name: `a"b`, Memory: 1624, Peak: 1024, Context: 600, Slots: 1,
			Runs:  []api.PlannedRun{{Name: "r", GPU: "GPU-a", Index: gpu.Some(0), Wave: 1}},
			Notes: []string{"an amount\x1b[31m is a guess"},
			Steps: []api.PlannedStep{
				{Name: `load\`, Input: "numpy", Output: "numpy"},
				{Name: "x]<b>", After: []string{`load\`}, Input: "cupy", Output: "cupy", OnGPU: true, Memory: 1024, Peak: 1024,
					MemoryFrom: api.MemoryLearned, Measured: 3,
					Conversions: []api.Conversion{{Step: `load\`, From: "numpy", To: "cupy", Cost: api.CostHostCopy}}},
				{Name: "same", After: []string{"x]<b>"}, Input: "cupy", Output: "cupy", OnGPU: true, Memory: 1, Peak: 1024, MemoryFrom: api.MemoryDefault},
			},
		}},
	}
}

func TestTable(t *testing.T) {
	want := `pipeline a"b: 1 run on GPU 0, 1 slot and 1.6 GiB (peak 1 GiB + 0.6 GiB for the
  CUDA context)
  STEP   ON   IN→OUT       CONVERTED FROM        MEMORY  FROM          PEAK
  load\  CPU  numpy→numpy  -                          -  -                -
  x]<b>  GPU  cupy→cupy    numpy (host copy)      1 GiB  learned (3)  1 GiB
  same   GPU  cupy→cupy    -                  0.001 GiB  default      1 GiB
  note: an amount?[31m is a guess

1 run at a time, 1 wave
  GPU  NAME            RUNS  SIDE BY SIDE  WAVES  WAITING   LEASED
    0  模擬?[2Jカード     1             1      1        0  1.6 GiB
`
	if diff := cmp.Diff(want, Table(hostile(), Width)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for width := 74; width < 120; width++ { // of narrower ones, the titles alone are wider
		for line := range strings.Lines(Table(hostile(), width)) {
			if term.Columns(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("a line is wider than %d columns: %s", width, line)
			}
		}
	}
}

func TestPictures(t *testing.T) {
	mermaid, dot := Mermaid(hostile()), DOT(hostile())
	for _, want := range []string{
		`subgraph p0["a#34;b on GPU 0"]`, `p0s1["x]#60;b#62;<br/>GPU, 1 GiB"]:::gpu`,
		`p0s0 ==>|"numpy → cupy, host copy"| p0s1`, `p0s1 -->|"cupy"| p0s2`,
	} {
		if !strings.Contains(mermaid, want) {
			t.Errorf("%s is not in\n%s", want, mermaid)
		}
	}
	for _, want := range []string{
		`label="a\"b on GPU 0"`, `p0s0 [label="load\\\nCPU", fillcolor="#eeeeee"]`,
		`p0s0 -> p0s1 [label="numpy → cupy, host copy", style=bold]`, `p0s1 -> p0s2 [label="cupy", style=solid]`,
	} {
		if !strings.Contains(dot, want) {
			t.Errorf("%s is not in\n%s", want, dot)
		}
	}
}

// A plan that a daemon of another version sends cut short prints too.
func TestEmptyPlans(t *testing.T) {
	for _, p := range []*api.Plan{{}, {Pipelines: []api.PlannedPipeline{{Name: "p", Memory: 1}}}} {
		_, _, _ = Table(p, Width), Mermaid(p), DOT(p)
	}
}
