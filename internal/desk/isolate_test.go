package desk

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

// groups are control groups that do what the test says.
type groups struct {
	missing  error // why there are none; nil: there are
	fails    error // of every process that is moved
	leavable bool

	enclosed map[uint64][]int // minors by fence
	moved    []int            // processes
}

func (g *groups) Available() error           { return g.missing }
func (g *groups) Encloses(fence uint64) bool { _, has := g.enclosed[fence]; return has }
func (g *groups) Release(fence uint64)       { delete(g.enclosed, fence) }

func (g *groups) Enclose(id process.ID, fence uint64, minors []int) (bool, error) {
	if g.fails != nil {
		return false, g.fails
	}
	g.enclosed[fence] = minors
	g.moved = append(g.moved, id.PID)
	return g.leavable, nil
}

// isolating returns an office with control groups, and what the configuration
// says about isolation.
func isolating(t *testing.T, setting string) (*office, *groups) {
	o, g := open(t, "2xh200"), &groups{enclosed: map[uint64][]int{}}
	o.parts.Groups = g
	o.remake()
	o.parts.Config = gpuConfig(config.GPU{Context: 500, Isolation: setting})
	o.remake()
	return o, g
}

// A program is isolated as it asks, or else as the configuration says, which
// holds for launchers alone. What cannot be isolated is refused.
func TestIsolation(t *testing.T) {
	missing := errors.New("there are no control groups")
	process := func(isolation, enforce string) api.LeaseRequest {
		return api.LeaseRequest{Binding: "process", Memory: 1024, GPUs: 1, GPU: "1", Isolation: isolation, Enforce: enforce}
	}
	named := process("cgroup", "auto")
	named.Binding = "named"
	for _, test := range []struct {
		name    string
		setting string
		request api.LeaseRequest
		missing error
		fails   error
		want    []int // minors of the group
		code    string
	}{
		{name: "nobody asks", setting: "env", request: process("", "auto")},
		{name: "the program asks", setting: "env", request: process("cgroup", "auto"), want: []int{1}},
		{name: "the configuration asks", setting: "cgroup", request: process("", "auto"), want: []int{1}},
		{name: "the program asks for less", setting: "cgroup", request: process("env", "auto"), missing: missing},
		{name: "it is no launcher", setting: "cgroup", request: process("", "")},
		{name: "it is no launcher, and asks", setting: "env", request: process("cgroup", ""), want: []int{1}},
		{name: "there are no groups", setting: "env", request: process("cgroup", "auto"), missing: missing, code: isolationUnavailable},
		{name: "the configuration asks, and there are none", setting: "cgroup", request: process("", "auto"), missing: missing, code: isolationUnavailable},
		{name: "the process cannot be moved", setting: "env", request: process("cgroup", "auto"), fails: missing, code: isolationUnavailable},
		{name: "no process", setting: "env", request: named, code: isolationUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, g := isolating(t, test.setting)
			g.missing, g.fails = test.missing, test.fails
			l, err := o.Leases.Acquire(t.Context(), self(t), test.request)
			if codeOf(err) != test.code {
				t.Fatalf("refused with %v, want %q", err, test.code)
			}
			if err != nil {
				if held := o.parts.Ledger.View().Leases; len(held) != 0 {
					t.Errorf("it still holds %+v", held)
				}
				return
			}
			if diff := cmp.Diff(test.want, g.enclosed[l.Fence]); diff != "" {
				t.Error("minors (-want +got)", diff)
			}
			if isolated := test.want != nil; (l.IsolatedBy == "cgroup") != isolated || isolated && !slices.Equal(g.moved, []int{os.Getpid()}) {
				t.Errorf("isolated_by is %q, processes moved %v", l.IsolatedBy, g.moved)
			}
			if l.Launch != nil && (l.Launch.Isolation == "cgroup") != (test.want != nil) {
				t.Errorf("a launcher is told %q", l.Launch.Isolation)
			}
		})
	}
}

// A lease whose grant the caller did not hear of is isolated, and its memory is cleared,
// when the caller asks again; only once.
func TestALeaseThatStoodIsHandedOverWhole(t *testing.T) {
	o, g := isolating(t, "")
	s := &scrubber{}
	o.parts.Checkup, o.parts.Config = s, gpuConfig(config.GPU{Scrub: "on"})
	o.remake()
	by, w := self(t), &wish{LeaseRequest: api.LeaseRequest{ID: "train", Binding: "process", Memory: 64, Isolation: "cgroup", Enforce: "watchdog"}}
	r, err := o.Leases.resolve(&by, w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.parts.Ledger.Acquire(t.Context(), r.Request); err != nil { // and then the daemon is killed
		t.Fatal(err)
	}
	by.Repeated = true
	for range 2 {
		l, err := o.Leases.Acquire(t.Context(), by, w.LeaseRequest)
		if err != nil || !l.Stood || l.IsolatedBy != "cgroup" || l.Launch.Isolation != "cgroup" || l.Launch.ClearedBy != "berth" || !g.Encloses(l.Fence) {
			t.Errorf("%+v, %+v, %v", l, l.Launch, err)
		}
	}
	if len(g.moved) != 1 || len(s.done) != 1 {
		t.Errorf("the process was moved %d times, the memory overwritten %d times", len(g.moved), len(s.done))
	}
	g.enclosed, g.fails = map[uint64][]int{}, errors.New("it cannot be moved")
	if l, err := o.Leases.Acquire(t.Context(), by, w.LeaseRequest); codeOf(err) != isolationUnavailable {
		t.Errorf("a process that cannot be moved gets %+v, %v", l, err)
	}
}

// The minder of a run is isolated on the devices of the lease, whatever else the machine has.
func TestARunIsIsolatedOnTheDevicesOfItsLease(t *testing.T) {
	o := openWith(t, "2xh200", func(b device.Backend) device.Backend { return firstOfNVIDIA{b} })
	g := &groups{enclosed: map[uint64][]int{}}
	o.parts.Groups, o.parts.Config = g, gpuConfig(config.GPU{Context: 500})
	o.remake()
	if _, err := o.Leases.Acquire(t.Context(), self(t), api.LeaseRequest{Binding: "named", ID: "other", GPUs: 1, GPU: "1", Exclusive: true}); err != nil {
		t.Fatal(err)
	}
	k := lease.Key{Owner: lease.Holder{UID: 1000, User: "ada"}.Owner(), ID: "train-1", Run: lease.Run{Kind: lease.OfJob, Number: 1}}
	ask := run.Ask{Key: k, User: "ada", Name: "train", Request: api.LeaseRequest{ID: k.ID, Memory: 1000, Enforce: "watchdog"}}
	granted, err := (runLeases{o.Leases}).Acquire(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	o.parts.Config = gpuConfig(config.GPU{Context: 500, Isolation: "cgroup"}) // since the grant
	o.remake()
	minder, err := o.parts.Processes.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	handed, err := (runLeases{o.Leases}).Hand(t.Context(), ask, granted.Fence, minder)
	if err != nil || handed.IsolatedBy != "cgroup" || !slices.Equal(g.enclosed[granted.Fence], []int{0}) {
		t.Errorf("its minder gets %+v, %v, isolated on %v", handed, err, g.enclosed)
	}
}

// firstOfNVIDIA lets the first simulated device be a whole one of NVIDIA.
type firstOfNVIDIA struct{ device.Backend }

func (n firstOfNVIDIA) Scan(ctx context.Context) ([]device.Device, error) {
	all, err := n.Backend.Scan(ctx)
	if len(all) > 0 {
		all[0] = whole{all[0]}
	}
	return all, err
}

// What a caller did not wait for is overwritten when the caller asks again.
func TestAScrubThatWasGivenUpIsDoneAgain(t *testing.T) {
	o, s := open(t, "1"), &scrubber{fail: "it was given up"}
	o.parts.Checkup, o.parts.Config = s, gpuConfig(config.GPU{Scrub: "on"})
	o.remake()
	found := lease.Lease{Fence: 7, Parts: []lease.Part{{GPU: o.parts.Monitor.Readings()[0].Device.UUID, Memory: 64}}}
	left, cancel := context.WithCancel(t.Context())
	cancel()
	o.Leases.equip.scrub(left, &found)
	if by := o.Leases.equip.traces.cleared(found.Fence); by != "" {
		t.Errorf("the memory counts as cleared by %q", by)
	}
}

// A lease over several devices opens all of them, and no others.
func TestIsolationOnSeveralDevices(t *testing.T) {
	o, g := isolating(t, "env")
	l, err := o.Leases.Acquire(t.Context(), self(t), api.LeaseRequest{Binding: "process", GPUs: 2, Isolation: "cgroup"})
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(slices.Values(g.enclosed[l.Fence])); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("it can open %v", got)
	}
}

// A run of a batch hands its leases on: its own process stays where it is, and
// the worker is moved when it gets the lease.
func TestIsolationOfAWorker(t *testing.T) {
	o, g := isolating(t, "cgroup")
	by := self(t)
	slot, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{Binding: "process", GPU: "0", Slots: gpu.Some(1)})
	if err != nil {
		t.Fatal(err)
	}
	worker, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{Binding: "process", GPU: "0", Slots: gpu.Some(0), Memory: 1024, Parent: slot.ID, Enforce: "auto"})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.moved) > 0 || worker.IsolatedBy != "" || worker.Launch.Isolation != "cgroup" {
		t.Fatalf("moved %v, isolated by %q, a launcher is told %q", g.moved, worker.IsolatedBy, worker.Launch.Isolation)
	}
	child := exec.Command("cat") // until its input ends
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = child.Wait() })
	pid := child.Process.Pid
	g.fails = errors.New("it cannot be moved")
	if _, err := o.Leases.Bind(t.Context(), by, lease.Name{ID: worker.ID}, api.Bind{PID: pid, Isolation: "cgroup"}); codeOf(err) != isolationUnavailable {
		t.Errorf("a worker that cannot be moved: %v", err)
	}
	g.fails = nil
	if l, err := o.Leases.Bind(t.Context(), by, lease.Name{ID: worker.ID}, api.Bind{PID: pid}); err != nil || l.IsolatedBy != "" || len(g.moved) > 0 {
		t.Errorf("a worker that nobody isolates: %q, %v, moved %v", l.IsolatedBy, err, g.moved)
	}
	l, err := o.Leases.Bind(t.Context(), by, lease.Name{ID: worker.ID}, api.Bind{PID: pid, Isolation: "cgroup"})
	if err != nil || l.IsolatedBy != "cgroup" || !slices.Equal(g.moved, []int{pid}) {
		t.Errorf("isolated by %q, %v, moved %v", l.IsolatedBy, err, g.moved)
	}
}

// Explain says what would happen, and moves nothing. Its answer has what the
// receipt needs.
func TestIsolationIsExplained(t *testing.T) {
	o, g := isolating(t, "env")
	o.parts.ClearedBy = func(devices []gpu.Device) string { return "driver, checked 2026-11-15" }
	o.remake()
	b := api.LeaseRequest{Binding: "process", GPUs: 1, Memory: 1024, Isolation: "cgroup", Enforce: "auto"}
	e, err := o.Leases.Explain(self(t), b)
	would := e.Grant
	if err != nil || would == nil || len(g.moved) > 0 {
		t.Fatalf("%+v, %v, moved %v", would, err, g.moved)
	}
	if would.Launch.Isolation != "cgroup" || would.Launch.ClearedBy != "driver, checked 2026-11-15" {
		t.Errorf("a launcher is told %+v", would.Launch)
	}
	g.missing = errors.New("there are no control groups")
	if _, err := o.Leases.Explain(self(t), b); codeOf(err) != isolationUnavailable {
		t.Errorf("without groups: %v", err)
	}
}

// Only whole NVIDIA GPUs have a device file that the filter knows.
func TestMinors(t *testing.T) {
	for _, test := range []struct {
		device gpu.Device
		want   int
	}{
		{gpu.Device{Vendor: gpu.NVIDIA, Path: "/dev/nvidia0"}, 0},
		{gpu.Device{Vendor: gpu.NVIDIA, Path: "/dev/nvidia12"}, 12},
		{gpu.Device{Vendor: gpu.NVIDIA, Path: "/dev/nvidia-1"}, -1},
		{gpu.Device{Vendor: gpu.NVIDIA, Path: "/dev/nvidiactl"}, -1},
		{gpu.Device{Vendor: gpu.NVIDIA}, -1},
		{gpu.Device{Vendor: gpu.NVIDIA, Path: "/dev/nvidia0", Parent: "GPU-a"}, -1},
		{gpu.Device{Vendor: gpu.NVIDIA, Path: "/dev/nvidia0", Instances: []string{"MIG-a"}}, -1},
		{gpu.Device{Vendor: gpu.AMD, Path: "/dev/dri/renderD128"}, -1},
		{gpu.Device{Vendor: gpu.Simulated, Path: "/dev/nvidia0"}, -1},
	} {
		got, err := minorOf(test.device)
		if (err == nil) != (test.want >= 0) || err == nil && got != test.want || err != nil && codeOf(err) != isolationUnavailable {
			t.Errorf("%+v: %d, %v, want %d", test.device, got, err, test.want)
		}
	}
}
