package pipeline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
)

const examples = "../../../examples/pipelines"

func TestExamplesCompile(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		plan := mustCompile(t, string(text), World{Devices: machine(8)})
		for line := range strings.Lines(Table(plan, Width)) {
			if term.Columns(strings.TrimRight(line, "\n")) > Width {
				t.Errorf("%s: a line of the plan is too wide:\n%s", path, line)
			}
		}
	}
}

// What the documentation shows is what the package does.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../../docs/guide/pipelines.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	shown := func(what, text string) {
		t.Helper()
		if !strings.Contains(page, text) {
			t.Errorf("docs/guide/pipelines.md does not show %s:\n%s", what, text)
		}
	}
	example := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(examples, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	world := World{Devices: machine(8), Context: 600, CPUs: 96, Libraries: map[string]api.Library{}}
	for name, version := range map[string]string{"numpy": "2.3.1", "cupy": "14.0.0", "torch": "2.11.0"} {
		library := api.Library{Status: api.LibraryOK, Version: version}
		for _, d := range world.Devices {
			library.Devices = append(library.Devices, api.VisibleGPU{UUID: d.UUID})
		}
		world.Libraries[name] = library
	}
	one := world
	one.Devices = machine(1)

	_, steps, _ := strings.Cut(example("image.yaml"), "pipelines:\n")
	shown("the example", "pipelines:\n"+steps)
	image, plate := mustCompile(t, example("image.yaml"), one), mustCompile(t, example("plate.yaml"), world)
	shown("the plan of the image", Table(image, Width))
	shown("the picture of the image", Mermaid(image))
	shown("the plan of the plate", Table(plate, Width))
	_, err = Compile(mustParse(t, "image.yaml", example("image.yaml")), World{})
	shown("the refusal without a GPU", err.Error())
	shown("the conversions", conversionTable())
	for _, keys := range [][]string{fileKeys, pipelineKeys, stepKeys} {
		for _, key := range keys {
			shown("the key "+key, "`"+key+"`")
		}
	}
	for _, code := range codes(t) {
		shown("the problem "+string(code), "`"+string(code)+"`")
	}
}

// conversionTable is the table of the documentation.
func conversionTable() string {
	var b strings.Builder
	b.WriteString("| from \\ to |")
	for _, to := range MemoryTypes() {
		b.WriteString(" " + string(to) + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(MemoryTypes())) + "\n")
	for _, from := range MemoryTypes() {
		b.WriteString("| " + string(from) + " |")
		for _, to := range MemoryTypes() {
			b.WriteString(" " + string(ConversionCost(from, to)) + " |")
		}
		b.WriteByte('\n')
	}
	return b.String()
}
