package nvml_test

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/berth-gpu/berth/internal/device"
)

// answerGovern lets the power limit and the fans of a GPU be set as root may.
func (f *fake) answerGovern(h *mock.Device, epoch int) {
	h.GetPowerManagementLimitFunc = func() (uint32, nvml.Return) {
		f.rig.mu.Lock()
		defer f.rig.mu.Unlock()
		return cmp.Or(f.limit, 700_000), nvml.SUCCESS
	}
	h.GetPowerManagementDefaultLimitFunc = says(f, epoch, "default limit", uint32(700_000))
	h.GetPowerManagementLimitConstraintsFunc = func() (uint32, uint32, nvml.Return) {
		return 200_000, 700_000, f.status("limits", epoch)
	}
	h.SetPowerManagementLimitFunc = func(limit uint32) nvml.Return {
		if limit < 200_000 || limit > 700_000 {
			return nvml.ERROR_INVALID_ARGUMENT
		}
		f.rig.mu.Lock()
		defer f.rig.mu.Unlock()
		f.limit = limit
		return nvml.SUCCESS
	}
	h.GetNumFansFunc = func() (int, nvml.Return) { return len(f.fans), f.status("fans", epoch) }
	h.GetMinMaxFanSpeedFunc = func() (int, int, nvml.Return) { return 30, 100, nvml.SUCCESS }
	set := func(fan, speed int) nvml.Return {
		f.rig.mu.Lock()
		defer f.rig.mu.Unlock()
		f.fans[fan] = speed
		return nvml.SUCCESS
	}
	h.SetFanSpeed_v2Func = set
	h.SetDefaultFanSpeed_v2Func = func(fan int) nvml.Return { return set(fan, -1) }
}

func TestFans(t *testing.T) {
	r := newRig(t, 2)
	r.gpus[0].fans = []int{-1, -1}
	list := devices(t, r.backend())
	g := list[0].(device.Governor)
	if err := g.SetFan(t.Context(), 72.4); err != nil || !slices.Equal(r.gpus[0].fans, []int{72, 72}) {
		t.Errorf("fans are at %v, %v; want 72", r.gpus[0].fans, err)
	}
	if err := g.SetFan(t.Context(), 10); err != nil || !slices.Equal(r.gpus[0].fans, []int{30, 30}) {
		t.Errorf("fans are at %v, %v; want the slowest that they do", r.gpus[0].fans, err)
	}
	if err := g.ReleaseFan(t.Context()); err != nil || !slices.Equal(r.gpus[0].fans, []int{-1, -1}) {
		t.Errorf("fans are at %v, %v; want the driver's own speed", r.gpus[0].fans, err)
	}
	wantErr(t, list[1].(device.Governor).SetFan(t.Context(), 50), device.ErrUnsupported)
	r.missing["nvmlDeviceSetFanSpeed_v2"] = true
	wantErr(t, devices(t, r.backend())[0].(device.Governor).SetFan(t.Context(), 50), device.ErrUnsupported)
}

// One fan that the driver does not take back keeps no other from going back.
func TestFansGoBackOneByOne(t *testing.T) {
	r := newRig(t, 1)
	r.gpus[0].fans = []int{-1, -1, -1}
	r.gpus[0].tune = func(h *mock.Device) {
		released := h.SetDefaultFanSpeed_v2Func
		h.SetDefaultFanSpeed_v2Func = func(fan int) nvml.Return {
			if fan == 1 {
				return nvml.ERROR_UNKNOWN
			}
			return released(fan)
		}
	}
	g := devices(t, r.backend())[0].(device.Governor)
	if err := g.SetFan(t.Context(), 70); err != nil {
		t.Fatal(err)
	}
	if err := g.ReleaseFan(t.Context()); err == nil || !slices.Equal(r.gpus[0].fans, []int{-1, 70, -1}) {
		t.Errorf("fans are at %v, %v", r.gpus[0].fans, err)
	}
}

// What the driver refuses comes back as what it means.
func TestPowerLimitRefused(t *testing.T) {
	for ret, want := range map[nvml.Return]error{
		nvml.ERROR_NO_PERMISSION: device.ErrNoPermission, nvml.ERROR_NOT_SUPPORTED: device.ErrUnsupported, nvml.ERROR_GPU_IS_LOST: device.ErrLost,
	} {
		r := newRig(t, 1)
		r.gpus[0].tune = func(h *mock.Device) {
			h.SetPowerManagementLimitFunc = func(uint32) nvml.Return { return ret }
		}
		wantErr(t, devices(t, r.backend())[0].(device.Governor).SetPowerLimit(t.Context(), 500), want)
	}
	r := newRig(t, 1)
	dev := devices(t, r.backend())[0]
	if err := dev.(device.Governor).SetPowerLimit(t.Context(), 512.5); err != nil || r.gpus[0].limit != 512_500 || dev.Describe().PowerLimit.Or(0) != 512.5 {
		t.Errorf("the driver has %d mW, %v, and the description says %v", r.gpus[0].limit, err, dev.Describe().PowerLimit)
	}
	for _, part := range devices(t, cutRig(t).backend()) {
		if _, err := part.(device.Governor).PowerLimits(t.Context()); part.Describe().UUID == "MIG-a" && !errors.Is(err, device.ErrUnsupported) {
			t.Errorf("a MIG instance has power limits: %v", err)
		}
	}
}
