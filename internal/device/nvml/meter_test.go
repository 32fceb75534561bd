package nvml_test

import (
	"maps"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// The driver measures every 200 ms, keeps the newest sample of each process, and
// says that there is none if nothing is newer.
func TestBusy(t *testing.T) {
	start := time.UnixMicro(1_794_780_141_000_000)
	at := func(ms int) uint64 { return uint64(start.UnixMicro() + int64(ms)*1000) }
	var said []nvml.ProcessUtilizationSample
	ret := nvml.SUCCESS
	r := newRig(t, 1)
	r.gpus[0].tune = func(h *mock.Device) {
		h.GetProcessUtilizationFunc = func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) { return said, ret }
	}
	meter := devices(t, r.backend())[0].(device.Meter)
	since := start
	for _, step := range []struct {
		what        string
		said        []nvml.ProcessUtilizationSample
		ret         nvml.Return
		from, until int
		want        map[int]gpu.Percent
	}{
		{"alone", []nvml.ProcessUtilizationSample{{Pid: 7, TimeStamp: at(200), SmUtil: 99}, {}}, nvml.SUCCESS, 0, 200, map[int]gpu.Percent{7: 99}},
		{"stopped", []nvml.ProcessUtilizationSample{{Pid: 7, TimeStamp: at(400), SmUtil: 0}}, nvml.SUCCESS, 200, 400, map[int]gpu.Percent{7: 0}},
		{"nothing new", nil, nvml.ERROR_NOT_FOUND, 400, 400, nil},
		{"in turns with another", []nvml.ProcessUtilizationSample{{Pid: 7, TimeStamp: at(400), SmUtil: 50}, {Pid: 8, TimeStamp: at(600), SmUtil: 99}}, nvml.SUCCESS, 400, 600, map[int]gpu.Percent{8: 99}},
		{"asked late", []nvml.ProcessUtilizationSample{{Pid: 7, TimeStamp: at(800), SmUtil: 98}, {Pid: 8, TimeStamp: at(1000), SmUtil: 90}}, nvml.SUCCESS, 600, 1000, map[int]gpu.Percent{7: 49, 8: 45}},
		{"after a rest", []nvml.ProcessUtilizationSample{{Pid: 7, TimeStamp: at(9000), SmUtil: 10}}, nvml.SUCCESS, 8800, 9000, map[int]gpu.Percent{7: 10}},
		{"nonsense", []nvml.ProcessUtilizationSample{{Pid: 7, TimeStamp: at(9200), SmUtil: 4000}}, nvml.SUCCESS, 9000, 9000, map[int]gpu.Percent{}},
	} {
		said, ret = step.said, step.ret
		busy, err := meter.Busy(t.Context(), since)
		if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if got, until := busy.From.Sub(start).Milliseconds(), busy.Until.Sub(start).Milliseconds(); int(got) != step.from || int(until) != step.until {
			t.Errorf("%s: from %d to %d ms, want %d to %d", step.what, got, until, step.from, step.until)
		}
		if !maps.Equal(busy.Shares, step.want) {
			t.Errorf("%s: %v, want %v", step.what, busy.Shares, step.want)
		}
		since = busy.Until
	}
	ret = nvml.ERROR_NOT_SUPPORTED
	_, err := meter.Busy(t.Context(), since)
	if err == nil {
		t.Error("a device that cannot measure says nothing")
	}
	ret = nvml.ERROR_GPU_IS_LOST
	_, err = meter.Busy(t.Context(), since)
	wantErr(t, err, device.ErrLost)
}
