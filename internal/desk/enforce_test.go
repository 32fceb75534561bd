package desk

import (
	"errors"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/launch"
)

// A request that names its device does not care what the others are.
func TestDevicesForMPS(t *testing.T) {
	o := open(t, "2xh200")
	one, err := o.Leases.where(&wish{LeaseRequest: api.LeaseRequest{GPU: "1"}})
	if got := o.Devices.candidates(one.named); err != nil || len(got) != 1 || got[0].Index != 1 {
		t.Errorf("by name there are %+v, %v", got, err)
	}
	if got := o.Devices.candidates(nil); len(got) != 2 {
		t.Errorf("in all there are %+v", got)
	}
	whole := gpu.Device{UUID: "GPU-a", Vendor: gpu.NVIDIA}
	for want, devices := range map[string][]gpu.Device{
		"":      {whole, whole},
		"GPU-b": {whole, {UUID: "GPU-b", Vendor: gpu.AMD}},
		"MIG-c": {{UUID: "MIG-c", Vendor: gpu.NVIDIA, Parent: "GPU-c"}, whole},
	} {
		if got := notForMPS(devices); got != want {
			t.Errorf("without MPS is %q, want %q", got, want)
		}
	}
}

// MPS enforces what it can, and whatever asks for the best gets the next best
// where it cannot.
func TestRung(t *testing.T) {
	o := open(t, "2xh200")
	missing, pod := errors.New("there is none"), []string{"pod0d9f7e4c-4f3e-4b0f-9d77-000000000001"}
	for _, test := range []struct {
		name    string
		request api.LeaseRequest
		missing error
		want    string
		code    string
	}{
		{name: "the best that there is", request: api.LeaseRequest{Memory: 1, Enforce: "auto"}, want: launch.MPS},
		{name: "the best without MPS", request: api.LeaseRequest{Memory: 1, Enforce: "auto"}, missing: missing, want: launch.Framework},
		{name: "MPS", request: api.LeaseRequest{Memory: 1, Enforce: "mps"}, want: launch.MPS},
		{name: "MPS that is missing", request: api.LeaseRequest{Memory: 1, Enforce: "mps"}, missing: missing, code: "mps_unavailable"},
		{name: "MPS on two devices", request: api.LeaseRequest{Memory: 1, Enforce: "mps", GPUs: 2}, code: "mps_unavailable"},
		{name: "the best on two devices", request: api.LeaseRequest{Memory: 1, Enforce: "auto", GPUs: 2}, want: launch.Framework},
		{name: "nothing to hold to", request: api.LeaseRequest{Enforce: "auto"}, want: launch.None},
		{name: "a scope", request: api.LeaseRequest{Memory: 1, Scope: pod}, want: launch.Watchdog},
		{name: "the best for a scope", request: api.LeaseRequest{Memory: 1, Scope: pod, Enforce: "auto"}, want: launch.Watchdog},
		{name: "the best for a scope with libraries", request: api.LeaseRequest{Memory: 1, Scope: pod, Enforce: "auto", Caps: []string{"jax"}}, want: launch.Framework},
		{name: "libraries in a scope", request: api.LeaseRequest{Memory: 1, Scope: pod, Enforce: "framework", Caps: []string{"jax"}}, want: launch.Framework},
		{name: "no libraries in a scope", request: api.LeaseRequest{Memory: 1, Scope: pod, Enforce: "framework"}, code: "invalid_request"},
		{name: "MPS for a scope", request: api.LeaseRequest{Memory: 1, Scope: pod, Enforce: "mps"}, code: "mps_unavailable"},
		{name: "nothing for a scope", request: api.LeaseRequest{Memory: 1, Scope: pod, Enforce: "none"}, want: launch.None},
		{name: "slots for a scope", request: api.LeaseRequest{Scope: pod, Enforce: "auto", Caps: []string{"jax"}}, want: launch.None},
		{name: "parts for a scope", request: api.LeaseRequest{Parts: []api.LeaseShare{{GPU: "a"}, {GPU: "b", Memory: 1}}, Scope: pod}, want: launch.Watchdog},
		{name: "MPS on two parts", request: api.LeaseRequest{Parts: []api.LeaseShare{{GPU: "a", Memory: 1}, {GPU: "b", Memory: 1}}, Enforce: "mps"}, code: "mps_unavailable"},
		{name: "no wish", request: api.LeaseRequest{Memory: 1}, want: launch.Watchdog},
	} {
		o.mps.missing = test.missing
		got, err := o.Leases.equip.rung(&wish{LeaseRequest: test.request}, lease.ByProcess, nil, test.request.Memory > 0)
		if got != test.want || codeOf(err) != test.code {
			t.Errorf("%s: %q, %v, want %q, %q", test.name, got, err, test.want, test.code)
		}
	}
	if got, _ := o.Leases.equip.rung(&wish{}, lease.ByName, nil, true); got != launch.None {
		t.Errorf("a lease that is bound to no process is held by %q", got)
	}
}
