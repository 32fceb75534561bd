package nvml_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/berth-gpu/berth/internal/device"
	backend "github.com/berth-gpu/berth/internal/device/nvml"
)

// noInstance is what events say that are about no MIG instance.
const noInstance = ^uint32(0)

func xid(code uint64) nvml.EventData {
	return nvml.EventData{EventType: nvml.EventTypeXidCriticalError, EventData: code, GpuInstanceId: noInstance, ComputeInstanceId: noInstance}
}

// watching starts a Watch, which stop ends; it must end well.
func watching(t *testing.T, b *backend.Backend) (faults <-chan device.Fault, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	found := make(chan device.Fault, 16)
	ended := make(chan error, 1)
	go func() { ended <- b.Watch(ctx, func(f device.Fault) { found <- f }) }()
	return found, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Watch: %v, want nil when its context ends", err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("Close after Watch: %v", err)
		}
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := cutRig(t)
		b := r.backend()
		devices(t, b)
		faults, stop := watching(t, b)
		defer stop()
		cases := []struct {
			gpu   int
			event nvml.EventData
			want  string
		}{
			{1, xid(79), "GPU-1 device critical XID 79, the GPU fell off the bus map[kind:xid xid:79]"},
			{1, xid(31), "GPU-1 program warning XID 31, access to memory that is not mapped map[kind:xid xid:31]"},
			{0, nvml.EventData{EventType: nvml.EventTypeXidCriticalError, EventData: 13, GpuInstanceId: 5},
				"MIG-b program warning XID 13, graphics or compute engine exception map[kind:xid xid:13]"},
			{0, nvml.EventData{EventType: nvml.EventTypeSingleBitEccError, GpuInstanceId: noInstance},
				"GPU-0 device info a memory error was corrected map[kind:ecc_corrected]"},
			{0, nvml.EventData{EventType: nvml.EventTypeDoubleBitEccError, GpuInstanceId: noInstance},
				"GPU-0 device critical a memory error could not be corrected map[kind:ecc_uncorrected]"},
		}
		for _, c := range cases {
			r.gpus[c.gpu].events <- c.event
			f := <-faults
			if !f.Time.Equal(time.Now()) && time.Since(f.Time) > time.Second {
				t.Errorf("fault without time: %+v", f)
			}
			if got := fmt.Sprint(f.GPU, " ", f.Class, " ", f.Severity, " ", f.Cause(), " ", f.Detail); got != c.want {
				t.Errorf("event %+v is %q, want %q", c.event, got, c.want)
			}
		}
	})
}

// GPUs that cannot report are skipped; if none can, Watch says so.
func TestWatchUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mute := func(h *mock.Device) {
			h.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		}
		r := newRig(t, 2)
		r.gpus[0].tune = mute
		b := r.backend()
		devices(t, b)
		faults, stop := watching(t, b)
		synctest.Wait()
		r.gpus[1].events <- xid(48)
		if f := <-faults; f.GPU != "GPU-1" {
			t.Errorf("fault of %q, want GPU-1", f.GPU)
		}
		stop()

		r = newRig(t, 2)
		r.gpus[0].tune = mute
		r.gpus[1].tune = func(h *mock.Device) {
			h.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.ERROR_NOT_SUPPORTED }
			h.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return nvml.EventTypeXidCriticalError, nvml.SUCCESS }
		}
		b = r.backend()
		devices(t, b)
		if err := b.Watch(t.Context(), func(device.Fault) {}); !errors.Is(err, device.ErrUnsupported) {
			t.Errorf("Watch: %v, want ErrUnsupported", err)
		}
	})
}

// Watch may begin before the first Scan, and hears the GPUs found later.
func TestWatchBeforeScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		b := r.backend()
		faults, stop := watching(t, b)
		defer stop()
		synctest.Wait()
		devices(t, b)
		r.gpus[0].events <- xid(62)
		if f := <-faults; f.Code != "XID 62" {
			t.Errorf("fault %+v, want XID 62", f)
		}
	})
}

// A GPU that is lost and comes back is heard again, the other one all the
// time, and Watch makes room for the restart that this takes.
func TestWatchThroughRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		b := r.backend()
		list := devices(t, b)
		faults, stop := watching(t, b)
		defer stop()
		synctest.Wait()

		r.gpus[0].fallOff()
		wantErr(t, readErr(t, list[0]), device.ErrLost)
		r.gpus[1].events <- xid(43)
		if f := <-faults; f.GPU != "GPU-1" {
			t.Errorf("fault of %q, want GPU-1", f.GPU)
		}
		r.gpus[0].comeBack()
		tries := 0
		for readErr(t, list[0]) != nil {
			if tries++; tries > 5 {
				t.Fatal("the device is back on the bus and not found")
			}
			time.Sleep(time.Second)
		}
		fast(t, list[1])
		for i, g := range r.gpus {
			g.events <- xid(45)
			if f := <-faults; f.GPU != g.uuid {
				t.Errorf("fault of %q after the restart, want GPU-%d", f.GPU, i)
			}
		}
		if n := len(r.ShutdownCalls()); n != 1 {
			t.Errorf("the library was restarted %d times, want once", n)
		}
	})
}

// A GPU that hangs does not silence the others, nor keep Watch from ending.
func TestWatchWithHungDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		release := r.gpus[0].hangs(func(h *mock.Device, hang func()) {
			h.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { hang(); return nvml.ERROR_GPU_IS_LOST }
		})
		b := r.backend()
		devices(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		faults := make(chan device.Fault)
		ended := make(chan error, 1)
		go func() { ended <- b.Watch(ctx, func(f device.Fault) { faults <- f }) }()
		r.gpus[1].events <- xid(94)
		if f := <-faults; f.GPU != "GPU-1" {
			t.Errorf("fault of %q, want GPU-1", f.GPU)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Watch: %v, want nil", err)
		}
		release()
	})
}

// A GPU that hangs while another is lost does not keep the others from being heard: they
// leave for a restart that cannot be more and more rarely.
func TestWatchBesideAHungAndALostDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		release := r.gpus[0].hangs(func(h *mock.Device, hang func()) {
			h.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { hang(); return nvml.ERROR_GPU_IS_LOST }
		})
		b := r.backend()
		list := devices(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		faults := make(chan device.Fault, 100)
		ended := make(chan error, 1)
		go func() { ended <- b.Watch(ctx, func(f device.Fault) { faults <- f }) }()
		synctest.Wait()
		r.gpus[1].breakWith(nvml.ERROR_GPU_IS_LOST)
		soon := 0
		for second := range 600 {
			if second%13 == 0 {
				r.gpus[2].events <- xid(94)
			}
			wantErr(t, readErr(t, list[1]), device.ErrLost)
			time.Sleep(time.Second)
			synctest.Wait()
			for ; len(faults) > 0; <-faults {
				if second%13 < 2 {
					soon++
				}
			}
		}
		if soon < 35 {
			t.Errorf("of 46 faults, %d were heard at once", soon)
		}
		release()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Watch: %v, want nil", err)
		}
	})
}
