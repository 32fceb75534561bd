package devicetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// rounds is the number of repetitions of calls that only the race detector judges.
const rounds = 20

// checkCancelled checks that a call whose context has ended returns, perhaps with an
// error, and that the device stays usable.
func checkCancelled(t *testing.T, b device.Backend) {
	devices := Scan(t, b)
	dead := cancelled()
	returns(t, "Scan with a cancelled context must return", func() { _, _ = b.Scan(dead) })
	for _, dev := range devices {
		uuid := dev.Describe().UUID
		var s gpu.Sample
		returns(t, "Fast with a cancelled context must return", func() { _ = dev.Fast(dead, &s) })
		returns(t, "Slow with a cancelled context must return", func() { _ = dev.Slow(dead, &s.Slow) })
		if err := dev.Fast(t.Context(), &s); err != nil {
			t.Errorf("%s: a cancelled call must leave the device usable, but Fast: %v", uuid, err)
		}
	}
	if again := Scan(t, b); len(again) != len(devices) {
		t.Errorf("a cancelled Scan must leave the backend usable, but it lists %d devices instead of %d", len(again), len(devices))
	}
}

// checkGuarded reads through device.Guard, as the daemon does.
func checkGuarded(t *testing.T, b device.Backend) {
	for _, dev := range Scan(t, b) {
		g := device.NewGuard(dev)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := g.Fast(ctx); err != nil {
			t.Errorf("%s: Fast through a guard must work: %v", g.Describe().UUID, err)
		}
		if _, err := g.Slow(ctx); err != nil {
			t.Errorf("%s: Slow through a guard must work: %v", g.Describe().UUID, err)
		}
	}
}

// checkConcurrent lets one goroutine per device read and another one scan, for the race
// detector.
func checkConcurrent(t *testing.T, b device.Backend) {
	var wg sync.WaitGroup
	for _, dev := range Scan(t, b) {
		uuid := dev.Describe().UUID
		wg.Go(func() {
			for range rounds {
				var s gpu.Sample
				if err := dev.Fast(t.Context(), &s); err != nil {
					t.Errorf("%s: devices must be readable at the same time, but Fast: %v", uuid, err)
				}
			}
			var s gpu.Slow
			if err := dev.Slow(t.Context(), &s); err != nil {
				t.Errorf("%s: devices must be readable at the same time, but Slow: %v", uuid, err)
			}
		})
	}
	wg.Go(func() {
		if _, err := b.Scan(t.Context()); err != nil {
			t.Errorf("Scan must work while devices are read: %v", err)
		}
	})
	returns(t, "calls for devices that are well must return", wg.Wait)
}

func checkWatch(t *testing.T, b device.Backend) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var over atomic.Bool
	ended := make(chan error, 1)
	go func() {
		err := b.Watch(ctx, func(f device.Fault) {
			if over.Load() {
				t.Errorf("Watch must report nothing after it returned, but reported %+v", f)
			}
			if f.Name == "" || !slices.Contains(gpu.FaultClasses(), f.Class) || f.Severity == "" || f.Time.IsZero() {
				t.Errorf("a fault must say its name, class, severity and time, got %+v", f)
			}
		})
		over.Store(true)
		ended <- err
	}()
	for _, dev := range Scan(t, b) {
		var s gpu.Sample
		if err := dev.Fast(t.Context(), &s); err != nil {
			t.Errorf("%s: Fast must work during a Watch: %v", dev.Describe().UUID, err)
		}
	}
	cancel()
	returns(t, "Watch must return when its context ends", func() { judgeWatch(t, <-ended) })
}

func checkWatchDead(t *testing.T, b device.Backend) {
	returns(t, "Watch must return when its context has ended before", func() {
		judgeWatch(t, b.Watch(cancelled(), func(device.Fault) {}))
	})
}

func judgeWatch(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("Watch must return nil when its context ends, or ErrUnsupported, got: %v", err)
	}
}
