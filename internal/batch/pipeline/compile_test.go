package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// machine is n empty devices.
func machine(n int) []Device {
	var all []Device
	for i := range n {
		all = append(all, Device{
			UUID: fmt.Sprintf("GPU-%08d", i), Index: i, Name: "NVIDIA H200", Vendor: gpu.NVIDIA,
			MemoryTotal: 143771, Available: 143259, Usable: 12, MaxPipelines: 12, State: gpu.Optimal,
		})
	}
	return all
}

// wells is the file of a plate: so many wells of five steps.
func wells(count int) string {
	return fmt.Sprintf(`
pipelines:
- name: plate
  count: %d
  steps:
  - {name: load, input: numpy, output: numpy}
  - {name: denoise, input: cupy, output: cupy, memory_mb: 2048}
  - {name: segment, input: torch, output: torch, memory_mb: 4096}
  - {name: track, input: jax, output: jax, memory_mb: 1024}
  - {name: measure, input: numpy, output: numpy}
`, count)
}

func mustCompile(t testing.TB, text string, world World) *api.Plan {
	t.Helper()
	plan, err := Compile(mustParse(t, "plate.yaml", text), world)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// Of devices that hold the same, the one that worked least lately is taken, and
// wells are spread as evenly as ever.
func TestBusyDevicesComeLast(t *testing.T) {
	busy := machine(3)
	busy[0].Recent, busy[1].Recent = 320, 1
	for count, want := range map[int][]int{1: {0, 0, 1}, 2: {0, 1, 1}, 3: {1, 1, 1}, 7: {2, 2, 3}} {
		var got []int
		for _, d := range mustCompile(t, wells(count), World{Devices: busy}).Devices {
			got = append(got, d.Runs)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d wells: %v on each device, want %v", count, got, want)
		}
	}
}

func TestWellsAreSpreadEvenly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		devices, count := rapid.IntRange(1, 16).Draw(rt, "devices"), rapid.IntRange(1, 200).Draw(rt, "wells")
		plan := mustCompile(t, wells(count), World{Devices: machine(devices)})
		least, most, sum := count, 0, 0
		for _, d := range plan.Devices {
			least, most, sum = min(least, d.Runs), max(most, d.Runs), sum+d.Runs
		}
		if sum != count || most-least > 1 {
			rt.Errorf("%d wells on %d devices: from %d to %d on each, %d in all", count, devices, least, most, sum)
		}
	})
}

// scene is a random machine and a random file.
func scene(rt *rapid.T) (World, string) {
	world := World{Context: gpu.MiB(rapid.IntRange(0, 900).Draw(rt, "context"))}
	for i := range rapid.IntRange(1, 5).Draw(rt, "devices") {
		total := gpu.MiB(rapid.IntRange(8_000, 80_000).Draw(rt, "total"))
		slots := rapid.IntRange(1, 6).Draw(rt, "slots")
		world.Devices = append(world.Devices, Device{
			UUID: fmt.Sprint("GPU-", i), Index: i, Name: "NVIDIA T4", Vendor: gpu.NVIDIA, MemoryTotal: total,
			Available: total - gpu.MiB(rapid.IntRange(0, 9_000).Draw(rt, "leased")),
			Active:    rapid.IntRange(0, slots).Draw(rt, "active"), Usable: slots, MaxPipelines: slots,
			State: rapid.SampledFrom(gpu.States()).Draw(rt, "state"),
		})
	}
	kinds := rapid.SampledFrom(MemoryTypes())
	var b strings.Builder
	b.WriteString("pipelines:\n")
	for i := range rapid.IntRange(1, 4).Draw(rt, "pipelines") {
		fmt.Fprintf(&b, "- name: p%d\n  count: %d\n  steps:\n", i, rapid.IntRange(1, 12).Draw(rt, "count"))
		for j := range rapid.IntRange(1, 5).Draw(rt, "steps") {
			fmt.Fprintf(&b, "  - {name: s%d, input: %s, output: %s", j, kinds.Draw(rt, "input"), kinds.Draw(rt, "output"))
			if m := rapid.IntRange(0, 3_000).Draw(rt, "memory"); m > 0 {
				fmt.Fprintf(&b, ", memory_mb: %d", m)
			}
			if j > 0 && rapid.Bool().Draw(rt, "graph") {
				fmt.Fprintf(&b, ", after: [s%d]", rapid.IntRange(0, j-1).Draw(rt, "after"))
			}
			b.WriteString("}\n")
		}
	}
	return world, b.String()
}

func TestWavesFitTheDevices(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		world, text := scene(rt)
		plan, err := Compile(mustParse(t, "scene.yaml", text), world)
		if err != nil {
			return // too large for such a machine
		}
		type place struct {
			gpu  string
			wave int
		}
		slots, memory := map[place]int{}, map[place]gpu.MiB{}
		for _, p := range plan.Pipelines {
			for _, run := range p.Runs {
				if run.Waits == "" && run.Wave == 0 && p.Memory > 0 {
					rt.Errorf("%s neither runs nor waits", run.Name)
				}
				slots[place{run.GPU, run.Wave}] += p.Slots
				memory[place{run.GPU, run.Wave}] += p.Memory
			}
		}
		for _, d := range world.Devices {
			for at := range slots {
				if at.gpu != d.UUID || at.wave == 0 {
					continue
				}
				if slots[at] > d.Usable-d.Active || memory[at] > d.Available || d.State.Multiplier() == 0 {
					rt.Errorf("wave %d of GPU %d has %d slots and %v, more than there is", at.wave, d.Index, slots[at], memory[at])
				}
			}
		}
	})
}

func TestPeakCoversEveryStep(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		world, text := scene(rt)
		plan, err := Compile(mustParse(t, "scene.yaml", text), world)
		if err != nil {
			return
		}
		for _, p := range plan.Pipelines {
			onGPU := false
			for _, s := range p.Steps {
				onGPU = onGPU || s.OnGPU
				if s.Peak < s.Memory+s.Held || s.Peak > p.Peak {
					rt.Errorf("step %s: memory %v, held %v, peak %v of %v", s.Name, s.Memory, s.Held, s.Peak, p.Peak)
				}
				for _, c := range s.Conversions {
					if cost := ConversionCost(MemoryType(c.From), MemoryType(c.To)); c.Cost != string(cost) || c.To != s.Input || cost == NoCost {
						rt.Errorf("step %s: conversion %+v", s.Name, c)
					}
				}
			}
			if onGPU && p.Memory != p.Peak+world.Context {
				rt.Errorf("%s leases %v for a peak of %v", p.Name, p.Memory, p.Peak)
			}
			if !onGPU && (p.Memory != 0 || p.Slots != 0 || p.Runs[0].GPU != "") {
				rt.Errorf("%s uses no GPU and gets one: %+v", p.Name, p)
			}
		}
	})
}

func TestCompileIsDeterministic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		world, text := scene(rt)
		first, firstErr := Compile(mustParse(t, "scene.yaml", text), world)
		slices.Reverse(world.Devices)
		second, secondErr := Compile(mustParse(t, "scene.yaml", text), world)
		if fmt.Sprint(firstErr) != fmt.Sprint(secondErr) {
			rt.Fatalf("%v\n%v", firstErr, secondErr)
		}
		if firstErr != nil {
			return
		}
		a, _ := json.Marshal(first)
		b, _ := json.Marshal(second)
		if diff := cmp.Diff(string(a), string(b)); diff != "" {
			rt.Error(diff)
		}
	})
}

func TestPlanSurvivesJSON(t *testing.T) {
	plan := mustCompile(t, wells(3), World{Devices: machine(2), Learned: map[string]Peak{"plate/load": {Seconds: 1, Observations: 1}}})
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	var back api.Plan
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if Table(&back, 80) != Table(plan, 80) || Mermaid(&back) != Mermaid(plan) || DOT(&back) != DOT(plan) {
		t.Error("a plan that was stored prints differently")
	}
}

func TestEveryPairHasACost(t *testing.T) {
	for _, from := range MemoryTypes() {
		for _, to := range MemoryTypes() {
			cost, back := ConversionCost(from, to), ConversionCost(to, from)
			switch {
			case from == to && cost != NoCost,
				from != to && cost != ZeroCopy && cost != HostCopy,
				cost != back,
				from.OnGPU() != to.OnGPU() && cost != HostCopy:
				t.Errorf("%s to %s costs %q, and back %q", from, to, cost, back)
			}
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, c := range []struct{ wells, devices int }{{96, 8}, {1536, 8}, {10_000, 64}} {
		b.Run(fmt.Sprintf("wells=%d/devices=%d", c.wells, c.devices), func(b *testing.B) {
			text, world := wells(c.wells), World{Devices: machine(c.devices)}
			for b.Loop() {
				mustCompile(b, text, world)
			}
		})
	}
}

// A plan repeats what a file says once. What the largest files make of that stays small
// enough to be held for several users at once.
func TestLargestPlans(t *testing.T) {
	file := func(pipelines, steps int, step func(i int) string) string {
		var b strings.Builder
		b.WriteString("pipelines:\n")
		for n := range pipelines {
			fmt.Fprintf(&b, "- name: p%d\n  steps:\n", n)
			for i := range steps {
				fmt.Fprintf(&b, "  - {%s}\n", step(i))
			}
		}
		return b.String()
	}
	long := map[string]api.Library{}
	var needs []string
	for i := range 20 {
		needs = append(needs, string(rune('a'+i)))
		long[needs[i]] = api.Library{Status: api.LibraryOK, Version: strings.Repeat("<", 256)}
	}
	for name, text := range map[string]string{
		"outputs that stay on the GPU": file(12, 500, func(i int) string {
			return fmt.Sprintf(`name: '%s%03d', input: cupy, output: cupy, memory_mb: 1, after: []`, strings.Repeat(`"`, 97), i)
		}),
		"steps":                 file(40, 500, func(int) string { return "input: cupy, output: cupy" }),
		"a pipeline of each":    file(10_000, 1, func(int) string { return "input: cupy, output: cupy" }),
		"inputs of every step":  file(1, 500, func(i int) string { return "input: cupy, output: numpy, memory_mb: 1, after: [" + earlier(i) + "]" }),
		"versions of libraries": file(5, 500, func(int) string { return "input: cupy, output: cupy, libraries: [" + strings.Join(needs, ",") + "]" }),
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := Compile(mustParse(t, "plate.yaml", text), World{Devices: machine(16), Libraries: long})
			if err != nil {
				refused(t, err)
				return
			}
			plan.Table = Table(plan, Width)
			data, err := json.Marshal(plan)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("file %d KiB, plan %d KiB, table %d KiB", len(text)>>10, len(data)>>10, len(plan.Table)>>10)
			if len(data) > 16<<20 {
				t.Errorf("a file of %d KiB has a plan of %d MiB", len(text)>>10, len(data)>>20)
			}
		})
	}
}

// earlier lists the steps before one, by the names that they get if they have none.
func earlier(at int) string {
	var all []string
	for i := range at {
		all = append(all, fmt.Sprintf(`"#%d"`, i+1))
	}
	return strings.Join(all, ",")
}
