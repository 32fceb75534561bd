package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/text/term"
)

// A list names the cause of a start that nobody knows before it is cut, and rounds what is
// to come to the nearest.
func TestStartsInAList(t *testing.T) {
	at := now.Add(7*time.Hour + 59*time.Minute + 30*time.Second)
	for want, e := range map[string]api.Estimate{
		"start unknown, job-6 has no end": {Unknown: "job-6 has no time limit"},
		"starts in about 8 h":             {Likely: &at, Late: &at},
	} {
		if got := JobNote(api.Job{State: "waiting", Code: "queue", Cause: "waits for a GPU", Estimate: &e}, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Whoever lacks a slot alone reads how there come to be more.
func TestExplainedSlots(t *testing.T) {
	const hint = "gpu.max_pipelines=NUMBER"
	to := term.Screen{Width: 200, Now: now}
	for _, c := range []struct {
		o    api.Obstacle
		want bool
	}{
		{api.Obstacle{GPU: "GPU-1", Code: "no_slot"}, true},
		{api.Obstacle{GPU: "GPU-1", Code: "no_slot", Also: []string{"no_memory"}}, false},
		{api.Obstacle{GPU: "GPU-1", Code: "no_memory"}, false},
	} {
		lines := GPUs{"GPU-1": 1}.Explained(api.Explanation{Possible: true, Devices: []api.Obstacle{c.o}}, to)
		if got := strings.Contains(strings.Join(lines, "\n"), hint); got != c.want {
			t.Errorf("%v: %q", c.o, lines)
		}
	}
}

// What many devices have in common stands beside few of them, and has a line of the terminal.
func TestManyDevicesAlike(t *testing.T) {
	x, e := GPUs{}, api.Explanation{Text: "No device fits.", Possible: true}
	for i := range 64 {
		uuid := fmt.Sprintf("GPU-%d", i)
		x[uuid] = i
		e.Devices = append(e.Devices, api.Obstacle{GPU: uuid, Code: "no_slot", Text: "needs 1 slot, and its only one is taken"})
	}
	text := strings.Join(x.Explained(e, term.Screen{Width: 80, Now: now}), "\n")
	if !strings.Contains(text, "GPU 0, 1, 2, 3, 4, 5, 6, 7 and 56 more  needs 1 slot") {
		t.Errorf("%s", text)
	}
	for line := range strings.Lines(text) {
		if term.Columns(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("it is too long: %s", line)
		}
	}
}

// The table of devices tells of programs under no lease, and not of a desktop or of what a
// lease has.
func TestUnleased(t *testing.T) {
	to := term.Screen{Width: 200, Now: now}
	for _, c := range []struct {
		name     string
		kind     gpu.ProcessKind
		measured gpu.MiB
		want     int
	}{
		{"a program", gpu.Compute, 0, 1}, {"a desktop", gpu.Graphics, 0, 0}, {"that of a lease", gpu.Compute, 60000, 0},
	} {
		d := someDevice(0, "NVIDIA H200", gpu.Optimal, 143771, gpu.Sample{Processes: []gpu.Process{{PID: 7, Kind: c.kind, Memory: gpu.Some[gpu.MiB](60000)}}})
		d.Leases = []api.DeviceLease{{ID: "a", Measured: c.measured}}
		s := Status{StatusAll: api.StatusAll{GPUs: []api.Status{d}}, Leasable: api.Available{GPUs: []api.DeviceAvailable{{GPU: d.Device.UUID, Foreign: 60600}}}}
		if lines := s.unleased(to); len(lines) != c.want || c.want == 1 && !strings.Contains(lines[0], "GPU 0: 58.6 GiB is used under no lease") {
			t.Errorf("%s: %q", c.name, lines)
		}
	}
}
