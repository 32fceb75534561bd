package nvml_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// hangs makes the first call of a kind for a GPU block until the returned
// function is called.
func (f *fake) hangs(tune func(h *mock.Device, hang func())) (release func()) {
	stuck := make(chan struct{})
	f.tune = func(h *mock.Device) { tune(h, func() { <-stuck }) }
	return func() { close(stuck) }
}

func TestScanWithHungDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		release := r.gpus[1].hangs(func(h *mock.Device, hang func()) {
			h.GetNameFunc = func() (string, nvml.Return) { hang(); return "slow to answer", nvml.SUCCESS }
		})
		b := r.backend()
		started := time.Now()
		if got := uuids(devices(t, b)); !cmp.Equal(got, []string{"GPU-0", "GPU-2"}) {
			t.Errorf("found %v while GPU-1 hangs", got)
		}
		if took := time.Since(started); took == 0 || took > time.Minute {
			t.Errorf("gave up on the hung device after %v", took)
		}
		started = time.Now()
		devices(t, b)
		if took := time.Since(started); took != 0 {
			t.Errorf("the second scan waited %v for a device that was known to hang", took)
		}
		release()
		synctest.Wait()
		if got := uuids(devices(t, b)); !cmp.Equal(got, []string{"GPU-0", "GPU-1", "GPU-2"}) {
			t.Errorf("found %v when GPU-1 answers again", got)
		}
	})
}

// A hung reading costs its own device and nothing else.
func TestHungReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		release := r.gpus[0].hangs(func(h *mock.Device, hang func()) {
			h.GetPowerUsageFunc = func() (uint32, nvml.Return) { hang(); return 0, nvml.SUCCESS }
		})
		b := r.backend()
		list := devices(t, b)
		guard := device.NewGuard(list[0])
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := guard.Fast(ctx); err != device.ErrHung {
			t.Errorf("guarded reading of a hung device: %v, want ErrHung", err)
		}
		fast(t, list[1])
		if got := uuids(devices(t, b)); len(got) != 3 {
			t.Errorf("found %v: a device that hangs is still there", got)
		}

		// GPU-2 needs a restart, which has to wait: somebody is inside.
		r.gpus[2].fallOff()
		wantErr(t, readErr(t, list[2]), device.ErrLost)
		r.gpus[2].comeBack()
		wantErr(t, readErr(t, list[2]), device.ErrLost)
		fast(t, list[1])
		wantErr(t, b.Close(), device.ErrHung)
		if n := len(r.ShutdownCalls()); n != 0 {
			t.Errorf("the library was shut down %d times under a call", n)
		}
		release()
		synctest.Wait()
		fast(t, list[2])
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// A library that hangs while it is initialised holds up nobody beyond their
// own deadline.
func TestHungInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		stuck := make(chan struct{})
		r.InitFunc = func() nvml.Return { <-stuck; return r.start() }
		b := r.backend()
		for range 2 {
			_, err := b.Scan(t.Context())
			wantErr(t, err, device.ErrHung)
		}
		close(stuck)
		synctest.Wait()
		if list := devices(t, b); len(list) != 1 {
			t.Errorf("found %d devices once the library was there, want 1", len(list))
		}
	})
}

// A restart that hangs leaves the other devices their deadlines.
func TestHungRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		list := devices(t, r.backend())
		r.gpus[0].fallOff()
		wantErr(t, readErr(t, list[0]), device.ErrLost)
		r.gpus[0].comeBack()
		stuck := make(chan struct{})
		r.ShutdownFunc = func() nvml.Return { <-stuck; return nvml.SUCCESS }
		lost := device.NewGuard(list[0])
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := lost.Fast(ctx); err != device.ErrHung {
			t.Errorf("reading that restarts: %v, want ErrHung", err)
		}
		var s gpu.Sample
		wantErr(t, list[1].Fast(ctx, &s), device.ErrHung)
		close(stuck)
		synctest.Wait()
		fast(t, list[1])
	})
}
