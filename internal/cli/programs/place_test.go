package programs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/process"
)

var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// onePlace is the lease "mine" on GPU-0, held by a process.
func onePlace(worker process.ID) (*places, *place) {
	h := &place{
		Held: Held{Lease: api.Lease{ID: "mine", Granted: testNow}}, gpu: "GPU-0", process: worker,
		lost: make(chan struct{}), recall: make(chan struct{}), ended: make(chan struct{}),
	}
	status := func(uuid string) api.Status {
		return api.Status{Device: gpu.Device{UUID: uuid}, Slots: api.Slots{Capacity: 2}}
	}
	return &places{
		o: BatchOptions{PerGPU: 2}, devices: []api.Status{status("GPU-0"), status("GPU-1")}, changed: make(chan struct{}, 1),
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
		{"one of another user with its id ends", alive, gpu.Event{Code: gpu.EventReleased, Lease: "mine", Data: map[string]any{"fence": 9.0}}, ""},
		{"one of another user with its id should stop", alive, gpu.Event{Code: gpu.EventStop, Lease: "mine", Data: map[string]any{"fence": 9.0}}, ""},
		{"somebody releases it", alive, gpu.Event{Code: gpu.EventReleased, Lease: "mine"}, "recall ended left alone"},
		{"before the worker has started", process.ID{}, gpu.Event{Code: gpu.EventReleased, Lease: "mine"}, "recall ended left alone"},
		{"its worker ended", dead, gpu.Event{Code: gpu.EventReleased, Lease: "mine"}, "recall ended"},
		{"it is revoked", alive, gpu.Event{Code: gpu.EventRevoked, Lease: "mine", Text: "too much"}, "recall ended too much"},
		{"it should stop", alive, gpu.Event{Code: gpu.EventStop, Lease: "mine"}, "recall must not be used now"},
		{"its GPU is in quarantine", alive, gpu.Event{Code: gpu.EventStop, Lease: "mine", Data: map[string]any{"too_hot": false, "reason": "in quarantine until 10:50 at least: XID 79"}},
			"recall is in quarantine until 10:50 at least: XID 79"},
		{"its GPU is too hot", alive, gpu.Event{Code: gpu.EventStop, Lease: "mine", Data: map[string]any{"too_hot": true, "reason": "92 °C is above temp_critical 90 °C"}},
			"recall is too hot: 92 °C is above temp_critical 90 °C"},
		{"its GPU is lost", alive, gpu.Event{Code: gpu.EventDeviceLost, GPU: "GPU-0", Time: later}, "lost is lost"},
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
		if h.trouble != "" {
			got += " " + h.trouble
		}
		if diff := cmp.Diff(test.want, got[min(1, len(got)):]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// It is said what is waited for, and once.
func TestWaitingIsTold(t *testing.T) {
	const full = "no GPU has room for a worker now; waiting (berth leases shows who uses them)"
	for _, test := range []struct {
		name   string
		change func(*places)
		want   []string
	}{
		{"a worker is there", func(p *places) { p.held["GPU-0"] = 1 }, nil},
		{"others are there", func(*places) {}, []string{full}},
		{"somebody has released it", func(p *places) { p.left["GPU-0"], p.devices = time.Now(), p.devices[:1] },
			[]string{"somebody released the lease on GPU 0: no worker starts there for a minute"}},
		{"one is released, and others are on the other", func(p *places) { p.left["GPU-1"] = time.Now() },
			[]string{"somebody released the lease on GPU 1: no worker starts there for a minute", full}},
	} {
		p, _ := onePlace(process.ID{})
		p.held["GPU-0"] = 0
		p.devices[1].Device.Index = 1
		var said []string
		p.o.Say = func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
		test.change(p)
		p.tell()
		p.tell()
		if diff := cmp.Diff(test.want, said); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// A daemon that hangs is waited for while the run goes on, and only for a
// moment when it is to end.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if !patiently(ctx, func() { time.Sleep(time.Minute) }) {
			t.Error("it was not waited for")
		}
		hangs := make(chan struct{})
		defer close(hangs)
		if patiently(ctx, func() { <-hangs }) {
			t.Error("it hangs, and is done")
		}
		if !patiently(ctx, func() { time.Sleep(stopPatience / 2) }) {
			t.Error("the moment was not waited for")
		}
	})
}

// What is known of the end of a lease is said at once, and only after a signal
// it is waited for.
func TestWhyALeaseEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h := onePlace(process.ID{})
		if why := p.whyEnded(h, false); why != "" {
			t.Errorf("nothing is known, and it says %s", why)
		}
		go func() {
			time.Sleep(eventPatience / 2)
			p.hear(gpu.Event{Code: gpu.EventRevoked, Lease: "mine", Text: "it was revoked"})
		}()
		for _, signalled := range []bool{true, false} {
			if why := p.whyEnded(h, signalled); why != "it was revoked" {
				t.Errorf("%t: %q", signalled, why)
			}
		}
	})
}

// A GPU that somebody wants back is left alone.
func TestCandidates(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*places)
		failed map[string]int
		want   string
	}{
		{"the one with the fewest workers first", func(*places) {}, nil, "[GPU-1 GPU-0] false"},
		{"also if one has failed there", func(*places) {}, map[string]int{"GPU-1": 1}, "[GPU-1 GPU-0] false"},
		{"then the one where the fewest failed", func(p *places) { p.held["GPU-0"] = 0 }, map[string]int{"GPU-0": 1}, "[GPU-1 GPU-0] false"},
		{"as many as were asked for", func(p *places) { p.held["GPU-0"] = 2 }, nil, "[GPU-1] true"},
		{"more than there are slots", func(p *places) { p.o.PerGPU, p.held["GPU-0"] = 5, 4 }, nil, "[GPU-1 GPU-0] false"},
		{"wanted back", func(p *places) { p.left["GPU-1"] = time.Now() }, nil, "[GPU-0] true"},
		{"as many GPUs as were asked for", func(p *places) { p.o.GPUs = 1 }, nil, "[GPU-0] true"},
	} {
		p, _ := onePlace(process.ID{})
		test.change(p)
		list, full := p.candidates(batch.WorkerRequest{Failures: test.failed})
		var names []string
		for _, d := range list {
			names = append(names, d.UUID)
		}
		if got := fmt.Sprint(names, full); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
