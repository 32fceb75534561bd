package pipeline

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

const everyKey = `
pipelines:
- name: plate
  gpu: name~H200,memory>=40GiB
  count: 96
  slots: 2
  policy: most_free
  service: reader
  priority: -3
  command: [python3, analyse.py, --, "", --]
  steps:
  - {name: load, input: numpy, output: numpy}
  - name: denoise
    input: cupy
    output: torch
    memory_mb: 2GiB
    output_mb: 512
    libraries: [cucim.skimage, torch]
    function: mylab.denoise
  - {name: side, input: jax, output: jax, after: []}
  - {name: join, input: numpy, output: numpy, after: [side, denoise]}
- name: 7
  command: python3 analyse.py | tee log
  steps: [{name: only, input: numpy, output: numpy, libraries: skimage}]
`

const everyKeyJSON = `
{"pipelines": [
 {"name": "plate", "gpu": "name~H200,memory>=40GiB", "count": 96, "slots": 2,
	"policy": "most_free", "service": "reader", "priority": -3, "command": ["python3", "analyse.py", "--", "", "--"],
	"steps": [
		{"name":"load","input":"numpy","output":"numpy"},
		{"name":"denoise", "input":"cupy", "output":"torch", "memory_mb":2048, "output_mb":512,
		 "libraries":["cucim.skimage","torch"], "function":"mylab.denoise"},
		{"name":"side", "input":"jax", "output":"jax", "after":[]},
		{"name":"join", "input":"numpy", "output":"numpy", "after":["side","denoise"]}]},
 {"name": 7, "command": "python3 analyse.py | tee log", "steps": [{"name":"only","input":"numpy","output":"numpy","libraries":"skimage"}]}
]}
`

func mustParse(t testing.TB, name, text string) *File {
	t.Helper()
	file, err := Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Files of earlier systems call the memory types of a step otherwise.
func TestParseEarlierWords(t *testing.T) {
	earlier := strings.NewReplacer("input:", "input_memory_type:", "output:", "output_memory_type:").Replace(everyKey)
	if diff := cmp.Diff(mustParse(t, "plate.yaml", everyKey), mustParse(t, "plate.yaml", earlier), cmpopts.IgnoreUnexported(File{}, Pipeline{}, Step{}, gpu.Opt[int]{})); diff != "" {
		t.Errorf("it is read otherwise (-now +earlier):\n%s", diff)
	}
	for text, want := range map[string]string{
		"{name: a, input: numpy, input_memory_type: cupy, output: numpy}":  "input is set twice",
		"{name: a, input_memory_type: cuda, output_memory_type: numpy}":    `input: "cuda" is not a memory type`,
		"{name: a, input_memory_types: numpy, output: numpy}":              `"input_memory_types" is not a key of a step`,
		"{name: a, input_memory_type: numpy}":                              "a step has no output",
		"{name: a, output_memory_type: [numpy], input_memory_type: numpy}": "output must be a single value",
	} {
		if _, err := Parse("p.yaml", []byte("pipelines: [{name: p, steps: ["+text+"]}]")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	got := mustParse(t, "plate.yaml", everyKey)
	want := &File{Name: "plate.yaml", Pipelines: []Pipeline{
		{
			Name: "plate", Line: 3, Count: 96, Slots: 2, Policy: "most_free", Service: "reader", Priority: gpu.Some(-3),
			Command: []string{"python3", "analyse.py", "--", "", "--"},
			GPU:     "name~H200,memory>=40GiB",
			Where:   gpu.Where{Name: "H200", Like: true, MinMemory: 40 << 10},
			Steps: []Step{
				{Name: "load", Line: 12, Input: Numpy, Output: Numpy},
				{
					Name: "denoise", Line: 13, Input: Cupy, Output: Torch, Memory: 2048, OutputSize: 512,
					Libraries: []string{"cucim.skimage", "torch"}, After: []string{"load"}, Function: "mylab.denoise",
				},
				{Name: "side", Line: 20, Input: JAX, Output: JAX},
				{Name: "join", Line: 21, Input: Numpy, Output: Numpy, After: []string{"side", "denoise"}},
			},
		},
		{Name: "7", Line: 22, Slots: 1, Command: []string{"sh", "-c", "python3 analyse.py | tee log"}, Steps: []Step{
			{Name: "only", Line: 24, Input: Numpy, Output: Numpy, Libraries: []string{"skimage"}},
		}},
	}}
	same := cmp.Options{cmpopts.IgnoreUnexported(File{}, Pipeline{}, Step{}), cmp.AllowUnexported(gpu.Opt[int]{})}
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Error(diff)
	}
	if got, want := got.Libraries(), []string{"cucim.skimage", "cupy", "jax", "numpy", "skimage", "torch"}; !cmp.Equal(got, want) {
		t.Errorf("Libraries = %q, want %q", got, want)
	}

	lines := cmpopts.IgnoreFields(Step{}, "Line")
	lines2 := cmpopts.IgnoreFields(Pipeline{}, "Line")
	for _, name := range []string{"plate.yaml", "plate.json"} { // JSON is found by its look, or by its name
		fromJSON := mustParse(t, name, everyKeyJSON)
		fromJSON.Name = got.Name
		if diff := cmp.Diff(got, fromJSON, same, lines, lines2); diff != "" {
			t.Errorf("the same file as JSON (%s):\n%s", name, diff)
		}
		if line := fromJSON.Pipelines[0].Steps[2].Line; line != 9 {
			t.Errorf("a step of line 9 is said to be in line %d", line)
		}
	}
}

// A step without a name has the number that messages call it by.
func TestStepsWithoutNames(t *testing.T) {
	for name, text := range map[string]string{
		"p.yaml": "pipelines: [{name: p, steps: [{input: numpy, output: cupy}, {name: mid, input: cupy, output: cupy}, {input: cupy, output: numpy, after: ['#1']}]}]",
		"p.json": `{"pipelines":[{"name":"p","steps":[{"input_memory_type":"numpy","output_memory_type":"cupy"},{"name":"mid","input":"cupy","output":"cupy"},{"input":"cupy","output":"numpy","after":"#1"}]}]}`,
	} {
		steps := mustParse(t, name, text).Pipelines[0].Steps
		got := []string{}
		for _, s := range steps {
			got = append(got, s.Name+" after "+strings.Join(s.After, " "))
		}
		if want := []string{"#1 after ", "mid after #1", "#3 after #1"}; !slices.Equal(got, want) {
			t.Errorf("%s: the steps are %q, want %q", name, got, want)
		}
	}
	_, err := Parse("p.yaml", []byte("pipelines: [{name: p, steps: [{name: '#2', input: numpy, output: numpy}, {input: numpy, output: numpy}]}]"))
	if err == nil || !strings.Contains(err.Error(), `has the same name`) {
		t.Errorf("a name that is the number of another step: %v", err)
	}
}

func TestOrderOfSteps(t *testing.T) {
	for _, c := range []struct{ name, steps, want string }{
		{"as written", "a b c", "abc"},
		{"a step waits for a later one", "a:c b:- c:-", "bca"},
		{"a graph", "a b:a c:a d:b,c", "abcd"},
		{"backwards", "a:b b:c c:d d:-", "dcba"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "pipelines: [{name: p, steps: ["
			for step := range strings.FieldsSeq(c.steps) {
				name, after, graph := strings.Cut(step, ":")
				text += "{name: " + name + ", input: numpy, output: numpy"
				if graph {
					text += ", after: [" + strings.TrimPrefix(after, "-") + "]"
				}
				text += "}, "
			}
			p := &mustParse(t, "p.yaml", text+"]}]").Pipelines[0]
			got := ""
			for _, i := range p.order {
				got += p.Steps[i].Name
			}
			if got != c.want {
				t.Errorf("order = %s, want %s", got, c.want)
			}
		})
	}
}

func TestLargeFilesAreRefusedUnread(t *testing.T) {
	for _, size := range []int{MaxFile + 1, 10 << 20} {
		// Text that would be an error in its first line if anybody read it.
		_, err := Parse("plate.yaml", bytes.Repeat([]byte("\t"), size))
		var all *Error
		if !errors.As(err, &all) || len(all.Problems) != 1 {
			t.Fatalf("err = %v", err)
		}
		want := "the file is larger than 1 MiB, and is not read"
		if p := all.Problems[0]; p.Code != NotReadable || !strings.HasSuffix(p.Reason, want) || p.Remedy == "" {
			t.Errorf("problem = %+v, want one that ends in %q", p, want)
		}
	}
}

func TestDeepNestingIsRefused(t *testing.T) {
	for _, text := range []string{strings.Repeat("[", 500_000), strings.Repeat("- ", 250_000), strings.Repeat("{a: ", 125_000)} {
		if _, err := Parse("plate.yaml", []byte(text)); err == nil {
			t.Errorf("%.8s… was read", text)
		}
	}
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	if _, err := Parse("plate.json", []byte(deep)); err == nil {
		t.Error("deep JSON was read")
	}
}

// Whatever is read, nothing panics, what is accepted compiles or is refused with
// reasons, and what is not accepted never compiles.
func FuzzParse(f *testing.F) {
	f.Add([]byte(everyKey))
	f.Add([]byte(everyKeyJSON))
	for _, folder := range []string{"errors", "plans"} {
		paths, _ := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			_, text, _ = bytes.Cut(text, []byte(" --\n"))
			text, _, _ = bytes.Cut(text, []byte("\n-- "))
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, wrong := Parse("fuzz.yaml", text)
		if file == nil {
			refused(t, wrong)
			return
		}
		plan, err := Compile(file, World{Devices: machine(3), Libraries: map[string]api.Library{"cupy": {Status: api.LibraryMissing}}})
		if wrong != nil || err != nil {
			refused(t, err)
			return
		}
		if Table(plan, Width) == "" || Mermaid(plan) == "" || DOT(plan) == "" {
			t.Error("the plan prints as nothing")
		}
	})
}

func refused(t *testing.T, err error) {
	t.Helper()
	if all := (*Error)(nil); !errors.As(err, &all) || len(all.Problems) == 0 {
		t.Fatalf("an error without problems: %v", err)
	}
}
