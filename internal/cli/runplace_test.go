package cli

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
)

// onePlace is the lease "mine" on GPU-0, held by a process.
func onePlace(worker process.ID) (*places, *place) {
	h := &place{
		Lease: &client.Lease{Lease: api.Lease{ID: "mine", Granted: testNow}}, gpu: "GPU-0", process: worker,
		lost: make(chan struct{}), recall: make(chan struct{}), ended: make(chan struct{}),
	}
	status := func(uuid string) api.Status {
		return api.Status{Device: gpu.Device{UUID: uuid}, Slots: api.Slots{Capacity: 2}}
	}
	return &places{
		perGPU: 2, devices: []api.Status{status("GPU-0"), status("GPU-1")}, changed: make(chan struct{}, 1),
		held: map[string]int{"GPU-0": 1}, leases: map[string]*place{"mine": h}, left: map[string]time.Time{},
	}, h
}

func TestWhatBecomesOfAPlace(t *testing.T) {
	alive, err := process.Proc().Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dead := process.ID{PID: gone.Process.Pid, Start: alive.Start}
	later := testNow.Add(time.Second)
	for _, test := range []struct {
		name   string
		worker process.ID
		event  gpu.Event
		want   string
	}{
		{"another lease ends", alive, gpu.Event{Code: gpu.EventReleased, Lease: "other"}, ""},
		{"somebody releases it", alive, gpu.Event{Code: gpu.EventReleased, Lease: "mine"}, "recall ended left alone"},
		{"before the worker has started", process.ID{}, gpu.Event{Code: gpu.EventReleased, Lease: "mine"}, "recall ended left alone"},
		{"its worker ended", dead, gpu.Event{Code: gpu.EventReleased, Lease: "mine"}, "recall ended"},
		{"it is revoked", alive, gpu.Event{Code: gpu.EventRevoked, Lease: "mine", Text: "too much"}, "recall ended too much"},
		{"it should stop", alive, gpu.Event{Code: gpu.EventStop, Lease: "mine"}, "recall"},
		{"its GPU is lost", alive, gpu.Event{Code: gpu.EventDeviceLost, GPU: "GPU-0", Time: later}, "lost"},
		{"its GPU was lost before", alive, gpu.Event{Code: gpu.EventDeviceLost, GPU: "GPU-0", Time: testNow.Add(-time.Hour)}, ""},
		{"another GPU is lost", alive, gpu.Event{Code: gpu.EventDeviceLost, GPU: "GPU-1", Time: later}, ""},
	} {
		p, h := onePlace(test.worker)
		p.hear(test.event)
		p.hear(test.event) // events come again after a connection broke
		got := ""
		for _, c := range []struct {
			name string
			c    chan struct{}
		}{{"lost", h.lost}, {"recall", h.recall}, {"ended", h.ended}} {
			select {
			case <-c.c:
				got += " " + c.name
			default:
			}
		}
		if len(p.left) > 0 {
			got += " left alone"
		}
		if h.why != "" {
			got += " " + h.why
		}
		if diff := cmp.Diff(test.want, got[min(1, len(got)):]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// A GPU that somebody wants back is left alone, and one is not asked for more
// workers than it has slots.
func TestCandidates(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*places)
		want   string
	}{
		{"the one with the fewest workers first", func(*places) {}, "[GPU-1 GPU-0] false"},
		{"as many as were asked for", func(p *places) { p.held["GPU-0"] = 2 }, "[GPU-1] true"},
		{"no more than there are slots", func(p *places) { p.perGPU, p.held["GPU-0"] = 3, 2 }, "[GPU-1] true"},
		{"wanted back", func(p *places) { p.left["GPU-1"] = time.Now() }, "[GPU-0] true"},
		{"as many GPUs as were asked for", func(p *places) { p.most = 1 }, "[GPU-0] true"},
	} {
		p, _ := onePlace(process.ID{})
		test.change(p)
		list, full := p.candidates(nil)
		var names []string
		for _, d := range list {
			names = append(names, d.UUID)
		}
		if got := fmt.Sprint(names, full); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
