package nvml_test

import (
	"fmt"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// part is a MIG instance: it has memory and processes and little else.
func (r *rig) part(uuid string, id int) *fake {
	f := r.newFake(uuid, 0)
	f.tune = func(h *mock.Device) {
		none := nvml.ERROR_NOT_SUPPORTED
		h.GetNameFunc = func() (string, nvml.Return) { return "NVIDIA H200 MIG 1g.18gb", nvml.SUCCESS }
		h.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
			return nvml.Memory{Total: 16384 << 20, Free: 16000 << 20}, f.status("memory", r.now())
		}
		h.GetGpuInstanceIdFunc = func() (int, nvml.Return) { return id, nvml.SUCCESS }
		h.GetComputeInstanceIdFunc = func() (int, nvml.Return) { return 0, nvml.SUCCESS }
		h.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, none }
		h.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 0, none }
		h.GetFieldValuesFunc = func([]nvml.FieldValue) nvml.Return { return nvml.ERROR_INVALID_ARGUMENT }
		h.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, none }
		h.GetClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 0, none }
		h.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 0, none }
		h.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return 0, none }
		h.GetPcieThroughputFunc = func(nvml.PcieUtilCounter) (uint32, nvml.Return) { return 0, nvml.ERROR_INVALID_ARGUMENT }
		h.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 0, none }
		h.GetProcessUtilizationFunc = func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) { return nil, none }
	}
	return f
}

func (r *rig) now() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epoch
}

// cutRig has two GPUs, of which the first is cut in two, with a gap.
func cutRig(t *testing.T) *rig {
	r := newRig(t, 2)
	r.gpus[0].cut(r.part("MIG-a", 3), nil, r.part("MIG-b", 5))
	return r
}

// A driver that does not say which instances there are has not taken them away: the GPU could
// be leased as a whole beside them.
func TestInstancesThatTheDriverDoesNotTell(t *testing.T) {
	for _, from := range []string{"mode", "count", "handle", "uuid"} {
		t.Run(from, func(t *testing.T) {
			r := cutRig(t)
			fails := false
			r.gpus[0].tune = func(h *mock.Device) {
				if !fails {
					return
				}
				switch from {
				case "mode":
					h.GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_UNKNOWN }
				case "count":
					h.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_TIMEOUT }
				case "handle":
					h.GetMigDeviceHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_UNKNOWN }
				case "uuid":
					in := &mock.Device{GetUUIDFunc: func() (string, nvml.Return) { return "", nvml.ERROR_UNKNOWN }}
					h.GetMigDeviceHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return in, nvml.SUCCESS }
				}
			}
			b := r.backend()
			whole := devices(t, b)[0]
			fails = true
			if got := uuids(devices(t, b)); !cmp.Equal(got, []string{"GPU-0", "GPU-1", "MIG-a", "MIG-b"}) {
				t.Errorf("found %v", got)
			}
			if d := whole.Describe(); d.Cut() == "" {
				t.Error("the GPU can be leased as a whole")
			}
			if got := uuids(devices(t, r.backend())); !cmp.Equal(got, []string{"GPU-1"}) {
				t.Errorf("without knowing its instances, %v were found", got)
			}
			fails = false
			r.gpus[0].cut()
			if got := uuids(devices(t, b)); !cmp.Equal(got, []string{"GPU-0", "GPU-1"}) {
				t.Errorf("after the instances were taken away, %v were found", got)
			}
		})
	}
}

func TestMIG(t *testing.T) {
	list := devices(t, cutRig(t).backend())
	if got := uuids(list); !cmp.Equal(got, []string{"GPU-0", "GPU-1", "MIG-a", "MIG-b"}) {
		t.Fatalf("found %v", got)
	}
	whole, part := list[0].Describe(), list[3].Describe()
	if !cmp.Equal(whole.Instances, []string{"MIG-a", "MIG-b"}) || whole.Parent != "" {
		t.Errorf("the GPU has instances %v and parent %q", whole.Instances, whole.Parent)
	}
	if part.Parent != "GPU-0" || part.Index != 3 || part.MemoryTotal != 16384 || part.PCI != whole.PCI ||
		part.ComputeCapability != "9.0" || part.Name != "NVIDIA H200 MIG 1g.18gb" || part.PowerLimit.Known() ||
		part.TempMax != whole.TempMax || !part.TempMax.Known() {
		t.Errorf("instance is %+v", part)
	}
	for range 2 {
		s := fast(t, list[3])
		if !s.MemoryUsed.Known() || s.Processes == nil || s.Utilization.Known() {
			t.Errorf("an instance has memory and processes of its own, got %+v", s)
		}
		of := fast(t, list[0])
		if s.Temperature != of.Temperature || s.Power != of.Power || s.PowerOf != "GPU-0" || !cmp.Equal(s.Throttle, of.Throttle) || s.ClockSM != of.ClockSM ||
			!s.Temperature.Known() || of.PowerOf != "" {
			t.Errorf("an instance has the heat of its GPU, got %+v for %+v", s, of)
		}
		var slow gpu.Slow
		if err := list[3].Slow(t.Context(), &slow); err != nil || slow.Energy.Known() || slow.PCIeTx.Known() {
			t.Errorf("an instance has no slow metrics, got %+v, %v", slow, err)
		}
	}
}

// Instances come and go; the GPU stays, and may have other metrics then.
func TestMIGChange(t *testing.T) {
	r := newRig(t, 1)
	g := r.gpus[0]
	g.tune = func(h *mock.Device) {
		h.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
			if len(g.instances()) > 0 {
				return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED
			}
			return nvml.Utilization{Gpu: 5}, nvml.SUCCESS
		}
	}
	g.cut(r.part("MIG-a", 3))
	b := r.backend()
	list := devices(t, b)
	whole, part := list[0], list[1]
	if fast(t, whole).Utilization.Known() {
		t.Error("a GPU that is cut has no utilisation of its own")
	}
	fast(t, part)

	g.instances()[0].breakWith(nvml.ERROR_INVALID_ARGUMENT)
	g.cut()
	if got := uuids(devices(t, b)); !cmp.Equal(got, []string{"GPU-0"}) {
		t.Errorf("found %v after the instance was taken away", got)
	}
	if !fast(t, whole).Utilization.Known() {
		t.Error("a GPU that is whole again has its utilisation again")
	}
	for range 3 { // and it does not make berth restart the library
		var s gpu.Sample
		wantErr(t, part.Fast(t.Context(), &s), device.ErrLost)
	}
	if n := len(r.ShutdownCalls()); n != 0 {
		t.Errorf("the library was shut down %d times for a MIG instance", n)
	}
}

// The numbers of an instance are used again. A fault is one of the instance that has them
// now, whatever was there before, also before a scan has seen it.
func TestFaultOfANewInstance(t *testing.T) {
	r := cutRig(t)
	b := r.backend()
	devices(t, b)
	for i := range 10 {
		fresh := fmt.Sprint("MIG-new-", i)
		r.gpus[0].cut(r.part(fresh, 5))
		if i%2 == 0 {
			devices(t, b)
		}
		faults, stop := watching(t, b)
		r.gpus[0].events <- nvml.EventData{EventType: nvml.EventTypeXidCriticalError, EventData: 13, GpuInstanceId: 5}
		if f := <-faults; f.GPU != fresh {
			t.Errorf("a fault of %s is put down to %s", fresh, f.GPU)
		}
		stop()
	}
}

// A driver that did not say at first how much memory a GPU has is asked again.
func TestMemoryThatIsToldLater(t *testing.T) {
	r := newRig(t, 1)
	fails := true
	r.gpus[0].tune = func(h *mock.Device) {
		if fails {
			h.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_UNKNOWN }
		}
	}
	b := r.backend()
	d := devices(t, b)[0]
	if before := d.Describe().MemoryTotal; before != 0 {
		t.Fatalf("it has %v", before)
	}
	fails = false
	if devices(t, b); d.Describe().MemoryTotal == 0 {
		t.Error("it has no memory for ever")
	}
}
