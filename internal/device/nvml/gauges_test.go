package nvml_test

import (
	"errors"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	backend "github.com/berth-gpu/berth/internal/device/nvml"
	"github.com/berth-gpu/berth/internal/device/proof"
)

// answers returns a call that returns a value.
func answers[T any](value T) func() (T, nvml.Return) {
	return func() (T, nvml.Return) { return value, nvml.SUCCESS }
}

func TestGauges(t *testing.T) {
	r := newRig(t, 2)
	r.gpus[1].tune = func(h *mock.Device) {
		h.GetCurrPcieLinkGenerationFunc, h.GetCurrPcieLinkWidthFunc = answers(4), answers(8)
		h.GetMaxPcieLinkGenerationFunc, h.GetMaxPcieLinkWidthFunc = answers(5), answers(16)
		h.GetMaxClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 1980, nvml.SUCCESS }
		h.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 1, 2, true, false, nvml.SUCCESS }
	}
	g, err := backend.New(r, r.roots).Gauges("GPU-1")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := g.Link(), (proof.Link{Generation: 4, Width: 8, MostGeneration: 5, MostWidth: 16}); got != want {
		t.Errorf("link %+v; want %+v", got, want)
	}
	clocks := g.Clocks()
	if !clocks.SM.Known() || clocks.Most != gpu.Some(gpu.MHz(1980)) || clocks.Reasons == nil {
		t.Errorf("clocks %+v", clocks)
	}
	found := g.Errors()
	if !found.Corrected.Known() || !found.Uncorrected.Known() || found.Pending != gpu.Some(true) || found.Broken != gpu.Some(false) {
		t.Errorf("errors %+v", found)
	}
	if _, err := backend.New(r, r.roots).Gauges("GPU-9"); err == nil {
		t.Error("there is no such device")
	}
}

// What a device or its driver does not have is not known, and nothing is called
// that an old library does not have.
func TestGaugesOfAnOldDevice(t *testing.T) {
	r := newRig(t, 1)
	r.missing["nvmlDeviceGetRemappedRows"] = true
	r.gpus[0].tune = func(h *mock.Device) {
		none := func() (int, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		h.GetCurrPcieLinkGenerationFunc, h.GetCurrPcieLinkWidthFunc, h.GetMaxPcieLinkGenerationFunc, h.GetMaxPcieLinkWidthFunc = none, none, none, none
		h.GetMaxClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		h.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) {
			return 0, nvml.ERROR_NOT_SUPPORTED
		}
		h.GetRetiredPagesPendingStatusFunc = answers[nvml.EnableState](nvml.FEATURE_DISABLED)
	}
	g, err := backend.New(r, r.roots).Gauges("GPU-0")
	if err != nil {
		t.Fatal(err)
	}
	if g.Link() != (proof.Link{}) || g.Clocks().Most.Known() {
		t.Errorf("link %+v, clocks %+v", g.Link(), g.Clocks())
	}
	found := g.Errors()
	if found.Corrected.Known() || found.Uncorrected.Known() || found.Pending != gpu.Some(false) || found.Broken.Known() {
		t.Errorf("errors %+v", found)
	}
}

func TestGaugesWithoutADriver(t *testing.T) {
	r := newRig(t, 1)
	r.init = nvml.ERROR_DRIVER_NOT_LOADED
	if _, err := backend.New(r, r.roots).Gauges("GPU-0"); !errors.Is(err, device.ErrNoDriver) {
		t.Errorf("%v", err)
	}
}
