package nvml_test

import (
	"errors"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	backend "github.com/berth-gpu/berth/internal/device/nvml"
)

func TestIdentity(t *testing.T) {
	r := newRig(t, 1)
	r.plug(t, 0, "1")
	want := gpu.Device{
		UUID: "GPU-0", Name: "NVIDIA H200", Vendor: gpu.NVIDIA, Backend: "nvml", Driver: "580.65.06",
		PCI: "0000:18:00.0", Path: "/dev/nvidia0", ComputeCapability: "9.0",
		MemoryTotal: 143771, NUMANode: gpu.Some(1), PowerLimit: gpu.Some(gpu.Watts(700)), Confidential: gpu.NotConfidential,
		TempSlowdown: gpu.Some(gpu.Celsius(89)), TempMax: gpu.Some(gpu.Celsius(87)), TempShutdown: gpu.Some(gpu.Celsius(95)),
	}
	got := devices(t, r.backend())[0].Describe()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(gpu.Opt[int]{}, gpu.Opt[gpu.Watts]{}, gpu.Opt[gpu.Celsius]{})); diff != "" {
		t.Errorf("description (-want +got):\n%s", diff)
	}
}

func TestIdentityWithoutAnything(t *testing.T) {
	r := newRig(t, 1)
	r.plug(t, 0, "-1")
	r.gpus[0].tune = func(h *mock.Device) {
		none := nvml.ERROR_NOT_SUPPORTED
		h.GetNameFunc = func() (string, nvml.Return) { return "", none }
		h.GetMinorNumberFunc = func() (int, nvml.Return) { return 0, none }
		h.GetCudaComputeCapabilityFunc = func() (int, int, nvml.Return) { return 0, 0, none }
		h.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) { return 0, none }
		h.GetTemperatureThresholdFunc = func(nvml.TemperatureThresholds) (uint32, nvml.Return) { return 0, nvml.SUCCESS }
		h.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, none }
	}
	d := devices(t, r.backend())[0].Describe()
	if d.Name == "" || d.Path != "" || d.ComputeCapability != "" || d.MemoryTotal != 0 {
		t.Errorf("what the driver does not tell was made up: %+v", d)
	}
	if d.NUMANode.Known() || d.PowerLimit.Known() || d.TempSlowdown.Known() || d.TempMax.Known() || d.TempShutdown.Known() {
		t.Errorf("what the driver does not tell must be absent: %+v", d)
	}
}

// A second scan reads nothing again that does not change.
func TestIdentityIsReadOnce(t *testing.T) {
	r := newRig(t, 2)
	b := r.backend()
	devices(t, b)
	topology := r.gpus[0].timesAsked("topology") + r.gpus[1].timesAsked("topology")
	devices(t, b)
	for _, g := range r.gpus {
		if n := g.timesAsked("name"); n != 1 {
			t.Errorf("%s: its name was asked for %d times, want once", g.uuid, n)
		}
	}
	if again := r.gpus[0].timesAsked("topology") + r.gpus[1].timesAsked("topology"); topology != 1 || again != 1 {
		t.Errorf("topology was asked for %d and then %d times, want once for the pair", topology, again)
	}
}

func TestDriverTrouble(t *testing.T) {
	cases := map[nvml.Return]error{
		nvml.ERROR_LIBRARY_NOT_FOUND:       device.ErrNoLibrary,
		nvml.ERROR_DRIVER_NOT_LOADED:       device.ErrNoDriver,
		nvml.ERROR_NO_PERMISSION:           device.ErrNoPermission,
		nvml.ERROR_LIB_RM_VERSION_MISMATCH: device.ErrMismatch,
	}
	for ret, want := range cases {
		r := newRig(t, 1)
		r.init = ret
		b := r.backend()
		_, err := b.Scan(t.Context())
		wantErr(t, err, want)

		r.init = nvml.SUCCESS // the driver is there now
		if list := devices(t, b); len(list) != 1 {
			t.Errorf("%v: found %d devices once the driver was there, want 1", want, len(list))
		}
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// Where a driver is installed Open works; elsewhere it says what is missing.
func TestOpen(t *testing.T) {
	b, err := backend.Open()
	if err == nil {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		return
	}
	var e *device.Error
	if !errors.As(err, &e) || e.Hint == "" {
		t.Errorf("Open: %v, want a device.Error with a hint", err)
	}
}

// In a container some GPUs may be visible and not permitted.
func TestScanWithoutPermission(t *testing.T) {
	r := newRig(t, 2)
	r.gpus[0].breakWith(nvml.ERROR_NO_PERMISSION)
	b := r.backend()
	if got := uuids(devices(t, b)); !cmp.Equal(got, []string{"GPU-1"}) {
		t.Errorf("found %v, want the GPU that is permitted", got)
	}
	r.gpus[1].breakWith(nvml.ERROR_NO_PERMISSION)
	_, err := b.Scan(t.Context())
	wantErr(t, err, device.ErrNoPermission)
}

// The driver has one answer for all GPUs, and an old one has none.
func TestConfidentialMode(t *testing.T) {
	for _, c := range []struct {
		name  string
		state nvml.ConfComputeSystemState
		ret   nvml.Return
		old   bool
		want  gpu.Confidence
	}{
		{name: "off", want: gpu.NotConfidential},
		{name: "on", state: nvml.ConfComputeSystemState{CcFeature: nvml.CC_SYSTEM_FEATURE_ENABLED}, want: gpu.Confidential},
		{name: "open to tools", state: nvml.ConfComputeSystemState{CcFeature: nvml.CC_SYSTEM_FEATURE_ENABLED, DevToolsMode: nvml.CC_SYSTEM_DEVTOOLS_MODE_ON}, want: gpu.ConfidentialOpen},
		{name: "no such GPU", ret: nvml.ERROR_NOT_SUPPORTED, want: gpu.NotConfidential},
		{name: "no answer", ret: nvml.ERROR_UNKNOWN, want: ""},
		{name: "old driver", old: true, want: ""},
	} {
		r := newRig(t, 1)
		r.missing["nvmlSystemGetConfComputeState"] = c.old
		r.SystemGetConfComputeStateFunc = func() (nvml.ConfComputeSystemState, nvml.Return) {
			if c.old {
				t.Error("a call that the library lacks was made")
			}
			return c.state, c.ret
		}
		if got := devices(t, r.backend())[0].Describe().Confidential; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
