package nvml_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

var compareOpt = cmp.AllowUnexported(gpu.Opt[gpu.Percent]{}, gpu.Opt[gpu.MiB]{}, gpu.Opt[gpu.Celsius]{},
	gpu.Opt[gpu.Watts]{}, gpu.Opt[gpu.MHz]{}, gpu.Opt[float64]{}, gpu.Opt[int64]{})

func TestFast(t *testing.T) {
	r := newRig(t, 1)
	want := gpu.Sample{
		Utilization: gpu.Some(gpu.Percent(42)), MemoryBusy: gpu.Some(gpu.Percent(7)),
		MemoryTotal: gpu.Some(gpu.MiB(143771)), MemoryUsed: gpu.Some(gpu.MiB(770)), MemoryFree: gpu.Some(gpu.MiB(143001)),
		Temperature: gpu.Some(gpu.Celsius(61)), MemoryTemperature: gpu.Some(gpu.Celsius(55)), Power: gpu.Some(gpu.Watts(412.345)),
		ClockSM: gpu.Some(gpu.MHz(1980)), ClockMemory: gpu.Some(gpu.MHz(3201)),
		Throttle:  []gpu.ThrottleReason{gpu.ThrottlePowerCap, gpu.ThrottleThermalHW},
		Processes: []gpu.Process{},
	}
	if diff := cmp.Diff(want, fast(t, devices(t, r.backend())[0]), compareOpt); diff != "" {
		t.Errorf("sample (-want +got):\n%s", diff)
	}
}

func TestFastOnOldDriver(t *testing.T) {
	r := newRig(t, 1)
	for _, name := range []string{"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetMPSComputeRunningProcesses_v3",
		"nvmlDeviceGetMigMode", "nvmlDeviceGetNvLinkRemoteDeviceType"} {
		r.missing[name] = true
	}
	r.gpus[0].tune = func(h *mock.Device) {
		// Calling what is not there would panic here and end the process there.
		h.GetCurrentClocksEventReasonsFunc, h.GetMPSComputeRunningProcessesFunc, h.GetMigModeFunc = nil, nil, nil
		h.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) {
			return nvml.ClocksThrottleReasonGpuIdle, nvml.SUCCESS
		}
	}
	s := fast(t, devices(t, r.backend())[0])
	if !cmp.Equal(s.Throttle, []gpu.ThrottleReason{gpu.ThrottleIdle}) || s.Processes == nil {
		t.Errorf("throttle %v and processes %v, want idle and none", s.Throttle, s.Processes)
	}
}

func TestAbsentMetrics(t *testing.T) {
	r := newRig(t, 1)
	g := r.gpus[0]
	g.tune = func(h *mock.Device) {
		answer := func(what string, ret nvml.Return) func() (uint32, nvml.Return) {
			return func() (uint32, nvml.Return) {
				g.status(what, 1)
				return 7, ret
			}
		}
		h.GetPowerUsageFunc = answer("unsupported", nvml.ERROR_NOT_SUPPORTED)
		refused := answer("refused", nvml.ERROR_INVALID_ARGUMENT)
		h.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return refused() }
		flaky := answer("flaky", nvml.ERROR_TIMEOUT)
		h.GetClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return flaky() }
		h.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_NO_PERMISSION }
		denied := func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NO_PERMISSION }
		h.GetComputeRunningProcessesFunc, h.GetMPSComputeRunningProcessesFunc, h.GetGraphicsRunningProcessesFunc = denied, denied, denied
	}
	dev := devices(t, r.backend())[0]
	for range 3 {
		s := gpu.Sample{Power: gpu.Some(gpu.Watts(1)), Throttle: []gpu.ThrottleReason{"stale"}}
		if err := dev.Fast(t.Context(), &s); err != nil {
			t.Fatalf("Fast: %v", err)
		}
		if s.Power.Known() || s.Temperature.Known() || s.ClockSM.Known() || s.Throttle != nil || s.Processes != nil {
			t.Errorf("metrics that the device does not have must be absent: %+v", s)
		}
		if !s.MemoryUsed.Known() || !s.Utilization.Known() {
			t.Errorf("metrics that the device has must be there: %+v", s)
		}
	}
	for what, want := range map[string]int{"unsupported": 1, "refused": 2, "flaky": 6} {
		if n := g.timesAsked(what); n != want {
			t.Errorf("a metric that is %s was asked for %d times in three readings, want %d", what, n, want)
		}
	}
}

// A device that answers nothing at all is not a device without metrics.
func TestSilentDevice(t *testing.T) {
	for ret, want := range map[nvml.Return]error{
		nvml.ERROR_INVALID_ARGUMENT: device.ErrLost, // the handle is stale
		nvml.ERROR_GPU_IS_LOST:      device.ErrLost,
		nvml.ERROR_RESET_REQUIRED:   device.ErrLost,
		nvml.ERROR_UNKNOWN:          nil,
	} {
		r := newRig(t, 1)
		dev := devices(t, r.backend())[0]
		fast(t, dev)
		r.gpus[0].breakWith(ret)
		var s gpu.Sample
		err := dev.Fast(t.Context(), &s)
		if want != nil {
			wantErr(t, err, want)
		} else if err == nil {
			t.Errorf("NVML %d from every call: no error", ret)
		}
		r.gpus[0].breakWith(nvml.SUCCESS)
		if s := fast(t, dev); !s.Power.Known() {
			t.Errorf("after NVML %d the device is back, but without its metrics", ret)
		}
	}
}

func TestSlow(t *testing.T) {
	r := newRig(t, 1)
	var since []uint64
	r.gpus[0].tune = func(h *mock.Device) {
		h.GetProcessUtilizationFunc = func(last uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
			since = append(since, last)
			return []nvml.ProcessUtilizationSample{
				{Pid: 11, TimeStamp: 100, SmUtil: 10},
				{Pid: 12, TimeStamp: 300, SmUtil: 90},
				{Pid: 11, TimeStamp: 200, SmUtil: 20},
				{Pid: 13, TimeStamp: 150, SmUtil: 4_000_000}, // rubbish
				{}, // padding
			}, nvml.SUCCESS
		}
	}
	dev := devices(t, r.backend())[0]
	var got gpu.Slow
	if err := dev.Slow(t.Context(), &got); err != nil {
		t.Fatalf("Slow: %v", err)
	}
	want := gpu.Slow{
		Energy: gpu.Some(1234.5), PCIeTx: gpu.Some(2.0), PCIeRx: gpu.Some(4.0),
		ECCCorrected: gpu.Some(int64(3)), ECCUncorrected: gpu.Some(int64(2)),
		ProcessUtilization: map[int]gpu.Percent{11: 20, 12: 90},
	}
	if diff := cmp.Diff(want, got, compareOpt); diff != "" {
		t.Errorf("slow metrics (-want +got):\n%s", diff)
	}
	if err := dev.Slow(t.Context(), &got); err != nil {
		t.Fatalf("Slow: %v", err)
	}
	if len(got.ProcessUtilization) != 0 {
		t.Errorf("samples that were seen before counted again: %v", got.ProcessUtilization)
	}
	if !cmp.Equal(since, []uint64{0, 300}) {
		t.Errorf("asked for samples since %v, want from the start and then since the newest", since)
	}
	if n := r.gpus[0].timesAsked("fan"); n != 1 {
		t.Errorf("a fan that is not there was asked for %d times, want once", n)
	}
}

// While the driver does not give one of its lists of processes, nobody knows which there
// are. A list that it refused once is asked for again.
func TestAListThatIsNotGiven(t *testing.T) {
	for _, ret := range []nvml.Return{nvml.ERROR_INVALID_ARGUMENT, nvml.ERROR_UNKNOWN, nvml.ERROR_TIMEOUT} {
		r := newRig(t, 1)
		fails := false
		r.gpus[0].tune = func(h *mock.Device) {
			h.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
				if fails {
					return nil, ret
				}
				return []nvml.ProcessInfo{{Pid: 11}}, nvml.SUCCESS
			}
		}
		dev := devices(t, r.backend())[0]
		for _, fails = range []bool{false, true, false} {
			if s := fast(t, dev); (s.Processes == nil) != fails || !fails && len(s.Processes) != 1 {
				t.Errorf("%d, fails %v: the processes are %v", ret, fails, s.Processes)
			}
		}
	}
}

// When the clock is set back, processes that work are seen at once.
func TestUtilizationAfterTheClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := uint64(time.Now().UnixMicro())
		var said []nvml.ProcessUtilizationSample
		r := newRig(t, 1)
		r.gpus[0].tune = func(h *mock.Device) {
			h.GetProcessUtilizationFunc = func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) { return said, nvml.SUCCESS }
		}
		dev := devices(t, r.backend())[0]
		dev.(interface{ Sampled(uint64) }).Sampled(now + uint64(time.Hour.Microseconds())) // before it was set back
		said = []nvml.ProcessUtilizationSample{{Pid: 7, TimeStamp: now + uint64(time.Hour.Microseconds()), SmUtil: 90}, {Pid: 8, TimeStamp: now, SmUtil: 40}}
		for range 2 {
			var slow gpu.Slow
			if err := dev.Slow(t.Context(), &slow); err != nil || len(slow.ProcessUtilization) != 1 || slow.ProcessUtilization[8] != 40 {
				t.Errorf("%v, %v", slow.ProcessUtilization, err)
			}
			time.Sleep(time.Second)
			said[1].TimeStamp = uint64(time.Now().UnixMicro())
		}
	})
}
