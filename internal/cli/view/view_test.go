package view

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process/launch"
	"github.com/berth-gpu/berth/internal/text/term"
)

var update = flag.Bool("update", false, "rewrite what testdata expects")

// Every view of an odd machine looks as testdata says, on screens of all widths.
func TestViews(t *testing.T) {
	gpus, soon := GPUsOf(someStatus()), now.Add(time.Minute)
	failing := someStatus()
	failing.Monitoring, failing.Note = false, "A device is gone."
	failing.GPUs[1].Trust = &api.Trust{Phase: "probation", Until: &soon, Why: "it failed twice", Withheld: 2}
	failing.GPUs[2].Health = gpu.Unhealthy
	late := now.Add(-20 * time.Minute)
	failing.Needs = []api.Need{
		{Kind: "alert", Severity: gpu.Serious, Since: &late, Text: "Hot\x1b[2J: GPU 0 is at 91 °C", Next: "berth alerts"},
		{Kind: "critical", Severity: gpu.Serious, GPU: "GPU-0", Text: "GPU 0 is CRITICAL"},
		{Kind: "monitoring", Severity: gpu.Warning, Text: "Monitoring is stopped"},
		{Kind: "waiting", Severity: gpu.Warning, Since: &late, Text: "big waits", Next: "berth explain big"},
	}
	wait := someExplanation(api.LeaseRequest{Memory: 100 << 10})
	wait.Behind = []string{"first"}
	compareViews(t, map[string]func(to term.Screen) []string{
		"status":        (&Status{StatusAll: someStatus(), Leasable: someAvailable()}).Lines,
		"status-ill":    (&Status{StatusAll: failing, Leasable: someAvailable()}).Lines,
		"status-no-gpu": (&Status{}).Lines,
		"device":        (&Device{Status: someStatus().GPUs[0], Leasable: someAvailable().GPUs[0]}).Lines,
		"leases":        (&Leases{Leases: someLeases(), GPUs: gpus}).Lines,
		"leases-none":   (&Leases{Filtered: true}).Lines,
		"status-held":   (&Status{StatusAll: heldStatus(), Leasable: someAvailable()}).Lines,
		"device-held":   (&Device{Status: heldStatus().GPUs[0], Leasable: someAvailable().GPUs[0]}).Lines,
		"report":        func(to term.Screen) []string { return Report(someReport(), to) },
		"report-none":   func(to term.Screen) []string { return Report(api.Report{}, to) },
		"past":          (&Past{PastLeases: somePast(), GPUs: gpus}).Lines,
		"past-none":     (&Past{Filtered: true}).Lines,
		"strays":        (&Strays{Strays: someStrays(), GPUs: gpus}).Lines,
		"strays-fit":    (&Strays{Strays: undecidedStrays(), GPUs: gpus}).Lines,
		"strays-pods":   (&Strays{Strays: strayPods(), GPUs: gpus}).Lines,
		"explained-fits": func(to term.Screen) []string {
			return gpus.Explained(someRanking(), to)
		},
		"belonging": func(to term.Screen) []string {
			return append((&Belonging{Leases: someBelonging(), GPUs: gpus}).Lines(to), (&Belonging{}).Lines(to)...)
		},
		"explained": func(to term.Screen) []string { return gpus.Explained(wait, to) },
		"granted": func(to term.Screen) []string {
			l := someLeases().Leases[2]
			l.Note = "It was raised to the minimum of its service."
			return append(gpus.Granted(l, to), gpus.Granted(someLeases().Leases[1], to)...)
		},
		"parked": func(to term.Screen) []string {
			before, after := someLeases().Leases[2], someLeases().Leases[2]
			before.State, before.Parking = "active", &api.Parking{Times: 1, Moving: 1}
			lines := append(gpus.Parked(Moved{before, after}, to), gpus.Parked(Moved{api.Lease{}, api.Lease{ID: "odd\x1b[2J"}}, to)...)
			back := before
			back.Parking = &api.Parking{Times: 2, Moving: 3.2, Failed: "process 7 did not answer"}
			lines = append(append(lines, gpus.Resumed(Moved{after, back}, to)...), gpus.Resumed(Moved{api.Lease{}, someLeases().Leases[1]}, to)...)
			larger := before
			larger.Parts = []api.LeasePart{{GPU: "GPU-0", Memory: 2048, Slots: 1}}
			return append(lines, gpus.Resized(Moved{before, larger}, to)...)
		},
		"leases-moving": func(to term.Screen) []string {
			all := api.Leases{}
			for _, state := range []string{"parking", "resuming", "active"} {
				l := someLeases().Leases[2]
				l.ID, l.State, l.Parking.Failed = state, state, "the driver said: \x1b[2Jno"
				l.Asked, l.Idle = 4096, &api.Idle{Since: now.Add(-time.Minute), Memory: 900, Utilization: gpu.Some(gpu.Percent(0))}
				all.Leases = append(all.Leases, l)
			}
			for _, why := range []string{"resume", "resize"} {
				all.Waiting = append(all.Waiting, api.Waiting{ID: why, For: why, Position: 1, GPUs: 1, Since: now, Memory: 1024, Slots: 1})
			}
			return (&Leases{Leases: all, GPUs: gpus}).Lines(to)
		},
		"optimized": func(to term.Screen) []string {
			return append(gpus.Optimized(someOptimization(), to), gpus.Optimized(api.Optimization{}, to)...)
		},
		"optimized-dry": func(to term.Screen) []string {
			o := someOptimization()
			o.DryRun = true
			return append(gpus.Optimized(o, to), gpus.Optimized(api.Optimization{DryRun: true}, to)...)
		},
		"ended": func(to term.Screen) []string {
			l := someLeases().Leases[1]
			return append(gpus.Ended(api.Ended{ID: l.ID, Lease: &l}, to), gpus.Ended(api.Ended{ID: "big"}, to)...)
		},
		"would": func(to term.Screen) []string {
			return gpus.Would(DryRun{
				Program: "/usr/bin/python3\x1b[31m", Grant: someLeases().Leases[1], Environment: []string{"A=1", "B=it's so", "C"},
				Receipt: launch.Receipt{Held: []string{"CUPY_GPU_MEMORY_LIMIT keeps CuPy to 80 GiB"}, Gaps: []string{"nothing keeps other libraries to their share"}},
			}, to)
		},
		"events": func(to term.Screen) []string {
			var lines []string
			for _, severity := range []gpu.Severity{gpu.Note, gpu.Warning, gpu.Serious} {
				e := gpu.Event{Time: now, Code: gpu.EventCritical, Severity: severity, Lease: "train-7", Text: "GPU 2 must rest: \x1b[2Jmemory is at 99 %"}
				lines = append(lines, Event(e, to))
			}
			return lines
		},
		"measurements": func(to term.Screen) []string {
			return Measurements(api.Measurements{Measurements: []api.Measured{
				{Name: "train\x1b[31m", User: "ann", Runs: 10, Asked: 8192, Peak: 9000, Next: 9900, Seconds: 4000, Last: now.Add(-time.Hour)},
				{Name: "plate", Step: "denoise", User: "bob", Runs: 1, Asked: 4096, Peak: 512, Seconds: 1.25, Last: now.Add(-50 * time.Hour)},
				{Name: "new", Last: now},
			}}, to)
		},
		"config": func(to term.Screen) []string {
			fields := []api.ConfigField{
				{Field: "gpu.temp_optimal", Value: "60", Unit: "°C", Source: "berth.yaml", Doc: "Below this temperature a device is OPTIMAL, and all of its slots may be in use."},
				{Field: "daemon.socket", Value: "/run/berth/berth.sock", Source: "default", Doc: "The socket."},
			}
			return ConfigDocs(ConfigFields(fields, to.Width, to.Painter), fields, to)
		},
	})
}

// compareViews compares views with what testdata says, on a wide screen and on a
// narrow one with colours.
func compareViews(t *testing.T, views map[string]func(to term.Screen) []string) {
	for name, view := range views {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for _, to := range []term.Screen{{Width: 100, Now: now}, {Width: 60, Now: now, Painter: true}} {
				b.WriteString(strings.ReplaceAll(strings.Join(view(to), "\n"), "\x1b", "␛") + "\n\n")
			}
			compare(t, filepath.Join("testdata", name+".txt"), b.String())
		})
	}
}

func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (run with -update if it is right now, -want +got):\n%s", path, diff)
	}
}

func TestWriteSamples(t *testing.T) {
	var b strings.Builder
	s := *someStatus().GPUs[0].Sample
	if err := WriteSamples(&b, []gpu.Sample{s, {GPU: "GPU-1", Time: now}}); err != nil {
		t.Fatal(err)
	}
	compare(t, filepath.Join("testdata", "samples.csv"), b.String())
}

func someOptimization() api.Optimization {
	return api.Optimization{
		Took: 3.25, Devices: []api.Reclaimed{{GPU: "GPU-0", UsedBefore: 80 << 10, UsedAfter: 70 << 10, AvailableBefore: 1024, AvailableAfter: 12 << 10}, {GPU: "GPU-1"}},
		Rungs: []api.Rung{
			{Name: "dead"},
			{Name: "orphans", Left: []api.RungStep{{PID: 4711, Text: "process 4711 (python3\x1b[31m) uses GPU 0 under no lease, and optimization.orphans says to leave it"}}},
			{Name: "trim", Freed: 9 << 10, Took: 1.2, Done: []api.RungStep{{Lease: "train", User: "ann", Text: "train freed caches", Before: 20 << 10, After: 11 << 10}},
				Left: []api.RungStep{{Lease: "embedder", Text: "embedder did not answer within 5 s", Before: 100, After: 100}}},
			{Name: "shrink", Freed: 2048, Done: []api.RungStep{{Lease: "wide", Text: "wide has 2 GiB instead of 4 GiB: its programs used 1 GiB at most", Before: 4096, After: 2048}}},
			{Name: "park", Freed: 1024, Took: 2, Done: []api.RungStep{{Lease: "idle", Text: "idle is parked", Before: 1024}}},
			{Name: "move", Done: []api.RungStep{{Lease: "small", Text: "small could go from GPU 0 to GPU 1, which makes room for big; its program has to be started again", Move: &api.Move{From: "GPU-0", To: "GPU-1", Memory: 4096, For: "big", Restarts: true}}}},
		},
	}
}
