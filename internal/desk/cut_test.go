package desk

import (
	"context"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/lease/placement"
)

// sliced lets the first of the simulated devices be cut into the others.
type sliced struct{ device.Backend }

func (s sliced) Scan(ctx context.Context) ([]device.Device, error) {
	all, err := s.Backend.Scan(ctx)
	for i, d := range all {
		all[i] = slice{d}
	}
	return all, err
}

type slice struct{ device.Device }

func (s slice) Describe() gpu.Device {
	d := s.Device.Describe()
	if d.Index == 0 {
		d.Instances = []string{"SIM-h200-1", "SIM-h200-2"}
	} else {
		d.Parent = "SIM-h200-0"
	}
	return d
}

// A GPU that is cut into instances is not leased, however somebody asks, and the
// refusal comes at once and says why. Its instances are leased.
func TestCutDeviceIsNotLeased(t *testing.T) {
	o := openWith(t, "3xh200", func(b device.Backend) device.Backend { return sliced{b} })
	by := self(t)
	const why = "GPU 0 is not leased as a whole: it is cut into 2 instances: lease one of them"
	for name, b := range map[string]api.LeaseRequest{
		"memory":               {GPU: "0", Memory: 100},
		"more than there is":   {GPU: "0", Memory: 1 << 20},
		"a slot":               {GPU: "0"},
		"memory without slots": {GPU: "0", Memory: 100, Slots: gpu.Some(0)},
		"by its UUID":          {GPU: "SIM-h200-0", Memory: 100},
		"by where":             {Where: "gpu=0,name~H200", Memory: 100},
		"with a rung":          {GPU: "0", Memory: 100, Enforce: "watchdog"},
	} {
		for _, wait := range []float64{0, 600} { // it will never be there, so nobody waits
			b.Timeout = gpu.Some(wait)
			if _, err := o.Leases.Acquire(t.Context(), by, b); codeOf(err) != "no_fitting_device" || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v", name, err)
			}
		}
		e, err := o.Leases.Explain(by, b)
		if err != nil || e.Grant != nil || e.Estimate != nil || e.Refusal == nil || e.Refusal.Ever || e.Refusal.Hint != why {
			t.Fatalf("%s explained: %+v, %v", name, e.Refusal, err)
		}
		for _, r := range e.Refusal.Reasons {
			if want := "nothing is granted here: it is cut into 2 instances: lease one of them"; r.Index == 0 && (r.Code != placement.Closed || r.Text != want) {
				t.Errorf("%s explained: %+v", name, r)
			}
		}
	}
	for _, way := range ways {
		if err := way.ask(t.Context(), o, self(t), want{memory: 1000, enforce: "none", gpu: "0"}); err == nil {
			t.Errorf("%s leases the whole device", way.name)
		}
	}
	if _, err := o.Leases.Allocate(t.Context(), by, api.Allocate{ID: "a", Memory: 100, GPU: "0"}); codeOf(err) != "no_fitting_device" || !strings.Contains(err.Error(), why) {
		t.Errorf("allocated: %v", err)
	}
	if _, err := o.Leases.Adopt(t.Context(), by, api.Adopt{PID: by.Holder.PID, GPU: "0", Memory: 100}); codeOf(err) != "no_fitting_device" || !strings.Contains(err.Error(), "it is cut into 2 instances") {
		t.Errorf("adopted: %v", err)
	}
	if _, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{GPUs: 3, Memory: 100, Timeout: gpu.Some(600.0)}); codeOf(err) != "no_fitting_device" {
		t.Errorf("three devices, with one that is cut: %v", err)
	}
	o.nothingLeft(t)

	preferred, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: "preferred", Prefer: "0", Memory: 100})
	if err != nil || preferred.Parts[0].GPU == "SIM-h200-0" {
		t.Errorf("who prefers it gets %+v, %v", preferred.Parts, err)
	}
	both, err := o.Leases.Acquire(t.Context(), by, api.LeaseRequest{ID: "both", GPUs: 2, Memory: 100})
	if err != nil || len(both.Parts) != 2 {
		t.Errorf("both instances: %+v, %v", both.Parts, err)
	}
}
