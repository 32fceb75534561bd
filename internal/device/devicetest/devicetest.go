// Package devicetest is the suite that every device.Backend passes, simulated or real.
//
// It checks only what package device promises, so a backend on a machine without GPUs
// passes too.
package devicetest

import (
	"context"
	"testing"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// Run checks that the backends from open keep the promises of device.Backend. It calls
// open once for every subtest, and closes the backend. The devices must be well and stay
// so while the suite runs.
func Run(t *testing.T, open func(t *testing.T) device.Backend) {
	t.Helper()
	for _, c := range []struct {
		promise string
		check   func(*testing.T, device.Backend)
	}{
		{"name", checkName},
		{"scan", checkScan},
		{"scan again", checkScanAgain},
		{"describe", checkDescribe},
		{"describe during a call", checkDescribeDuringCall},
		{"fast", checkFast},
		{"fast leaves the rest alone", checkFastLeavesRest},
		{"slow", checkSlow},
		{"slow counters only grow", checkCounters},
		{"cancelled context", checkCancelled},
		{"guarded", checkGuarded},
		{"different devices at once", checkConcurrent},
		{"power limit and fan", checkGovern},
		{"who had the device", checkMeter},
		{"parking what is not there", checkParkable},
		{"watch ends with its context", checkWatch},
		{"watch with a dead context", checkWatchDead},
	} {
		t.Run(c.promise, func(t *testing.T) {
			b := open(t)
			t.Cleanup(func() {
				if err := b.Close(); err != nil {
					t.Errorf("Close must let go of the driver, but: %v", err)
				}
			})
			c.check(t, b)
		})
	}
}

// patience is how long a call may take before the suite names the call that did
// not return, instead of leaving that to the test binary's panic.
const patience = time.Minute

// returns runs call and fails the test with the promise if it does not return.
func returns(t *testing.T, promise string, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s, but it did not come back within %v", promise, patience)
	}
}

// Scan lists the devices, and fails the test if it cannot.
func Scan(t *testing.T, b device.Backend) []device.Device {
	t.Helper()
	devices, err := b.Scan(t.Context())
	if err != nil {
		t.Fatalf("Scan must list the devices (none is not an error), but: %v", err)
	}
	return devices
}

// Fast reads a device, and fails the test if it cannot.
func Fast(t *testing.T, d device.Device) gpu.Sample {
	t.Helper()
	var s gpu.Sample
	if err := d.Fast(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// cancelled returns a context that has ended.
func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Readings checks the readings and descriptions of a backend where files or answers of
// its driver are not as they should be: a value is absent or in range, and a device that
// cannot be read is an error.
func Readings(t *testing.T, b device.Backend) {
	t.Helper()
	checkScan(t, b)
	for _, dev := range Scan(t, b) {
		uuid := dev.Describe().UUID
		var s gpu.Sample
		if err := dev.Fast(t.Context(), &s); err == nil {
			judgeSample(t, dev.Describe(), &s)
		}
		var slow gpu.Slow
		if err := dev.Slow(t.Context(), &slow); err == nil {
			judgeSlow(t, uuid, &slow)
		}
	}
}
