package nvml_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

func readErr(t *testing.T, dev device.Device) error {
	t.Helper()
	var s gpu.Sample
	return dev.Fast(t.Context(), &s)
}

// A device that the library still knows is found again by its UUID.
func TestLostAndFound(t *testing.T) {
	r := newRig(t, 2)
	b := r.backend()
	list := devices(t, b)
	fast(t, list[0])
	r.gpus[0].fallOff()
	wantErr(t, readErr(t, list[0]), device.ErrLost)
	if got := uuids(devices(t, b)); !cmp.Equal(got, []string{"GPU-1"}) {
		t.Errorf("found %v while GPU-0 is away", got)
	}
	fast(t, list[1])
	r.gpus[0].breakWith(nvml.SUCCESS)
	fast(t, list[0])
	if got := uuids(devices(t, b)); !cmp.Equal(got, []string{"GPU-0", "GPU-1"}) {
		t.Errorf("found %v when GPU-0 is back", got)
	}
	if n := len(r.ShutdownCalls()); n != 0 {
		t.Errorf("the library was restarted %d times without need", n)
	}
}

// A device that came back to the bus is seen once the library was initialised
// again, and the others work on through that.
func TestLostUntilRestart(t *testing.T) {
	r := newRig(t, 2)
	list := devices(t, r.backend())
	fast(t, list[0])
	fast(t, list[1])
	r.gpus[0].fallOff()
	wantErr(t, readErr(t, list[0]), device.ErrLost)
	r.gpus[0].comeBack()
	fast(t, list[0])
	fast(t, list[1])
	if n := len(r.ShutdownCalls()); n != 1 {
		t.Errorf("the library was restarted %d times, want once", n)
	}
}

// Restarts disturb every device, so they become rare for one that stays away.
func TestRestartsBecomeRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		dev := devices(t, r.backend())[0]
		r.gpus[0].fallOff()
		for range 3600 {
			wantErr(t, readErr(t, dev), device.ErrLost)
			time.Sleep(time.Second)
		}
		if n := len(r.ShutdownCalls()); n < 5 || n > 15 {
			t.Errorf("the library was restarted %d times in an hour, want about ten", n)
		}
	})
}

// While the bus says that nobody is there, a restart cannot help.
func TestNoRestartWhileOffTheBus(t *testing.T) {
	r := newRig(t, 1)
	dev := devices(t, r.backend())[0]
	r.gpus[0].fallOff()
	config := filepath.Join(r.roots.Sys, "bus/pci/devices", pciText(0), "config")
	write(t, config, "\xff\xff\xff\xff")
	for range 3 {
		wantErr(t, readErr(t, dev), device.ErrLost)
	}
	if n := len(r.ShutdownCalls()); n != 0 {
		t.Errorf("the library was restarted %d times", n)
	}
	r.gpus[0].comeBack()
	write(t, config, "\xde\x10\x35\x23")
	fast(t, dev)
}

// Metrics that were absent are asked for again after the device was away.
func TestAbsentIsForgottenWithTheHandle(t *testing.T) {
	r := newRig(t, 1)
	dev := devices(t, r.backend())[0]
	var s gpu.Slow
	read := func() {
		if err := dev.Slow(t.Context(), &s); err != nil {
			t.Fatalf("Slow: %v", err)
		}
	}
	read()
	read()
	r.gpus[0].fallOff()
	wantErr(t, readErr(t, dev), device.ErrLost)
	r.gpus[0].breakWith(nvml.SUCCESS)
	read()
	if n := r.gpus[0].timesAsked("fan"); n != 2 {
		t.Errorf("the fan was asked for %d times, want once before and once after", n)
	}
}

// Somebody else shut the library down.
func TestUninitialised(t *testing.T) {
	r := newRig(t, 1)
	dev := devices(t, r.backend())[0]
	fast(t, dev)
	r.gpus[0].breakWith(nvml.ERROR_UNINITIALIZED)
	wantErr(t, readErr(t, dev), device.ErrLost)
	r.gpus[0].comeBack() // seen after Init only
	fast(t, dev)
}

// A GPU that was moved to another slot is the same GPU; what is in its old
// slot is not.
func TestMovedOnTheBus(t *testing.T) {
	r := newRig(t, 2)
	list := devices(t, r.backend())
	r.mu.Lock()
	r.gpus[0].index, r.gpus[1].index = 1, 0
	r.mu.Unlock()
	fast(t, list[0])
	if r.gpus[0].timesAsked("memory") != 2 || r.gpus[1].timesAsked("memory") != 1 {
		t.Error("the reading went to the GPU in the old slot")
	}
}

// A restart of the library does not help a device that waits for a reset, and would disturb
// the others.
func TestNoRestartForAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		list := devices(t, r.backend())
		fast(t, list[0])
		r.gpus[0].breakWith(nvml.ERROR_RESET_REQUIRED)
		for range 600 {
			wantErr(t, readErr(t, list[0]), device.ErrLost)
			fast(t, list[1])
			time.Sleep(time.Second)
		}
		if n := len(r.ShutdownCalls()); n != 0 {
			t.Errorf("the library was restarted %d times", n)
		}
		r.gpus[0].breakWith(nvml.SUCCESS)
		fast(t, list[0])
	})
}
