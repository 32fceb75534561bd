package device_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// stuck is a device whose first call takes as long as it is told, whatever its
// context says, the way a driver does.
type stuck struct {
	first   time.Duration
	err     error
	calls   atomic.Int32
	present atomic.Int32 // calls in the driver now
}

func (s *stuck) Describe() gpu.Device { return gpu.Device{UUID: "GPU-stuck"} }

func (s *stuck) Fast(_ context.Context, into *gpu.Sample) error {
	into.Temperature = gpu.Some(gpu.Celsius(40))
	return s.call()
}

func (s *stuck) Slow(_ context.Context, into *gpu.Slow) error {
	into.Energy = gpu.Some(7.0)
	return s.call()
}

func (s *stuck) call() error {
	s.present.Add(1)
	defer s.present.Add(-1)
	if s.calls.Add(1) == 1 {
		time.Sleep(s.first)
	}
	return s.err
}

func TestGuardPassesAnswersOn(t *testing.T) {
	g := device.NewGuard(&stuck{})
	sample, err := g.Fast(t.Context())
	if err != nil || sample.Temperature != gpu.Some(gpu.Celsius(40)) {
		t.Errorf("Fast = %v, %v; want the device's answer", sample.Temperature, err)
	}
	slow, err := g.Slow(t.Context())
	if err != nil || slow.Energy != gpu.Some(7.0) {
		t.Errorf("Slow = %v, %v; want the device's answer", slow.Energy, err)
	}
	if uuid := g.Describe().UUID; uuid != "GPU-stuck" {
		t.Errorf("Describe = %q; want the device's answer", uuid)
	}
	failed := errors.New("failed")
	if err := g.Do(t.Context(), func(_ context.Context, d device.Device) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("Do: %v; want the error of the call", err)
	}
}

func TestGuardPassesErrorsOn(t *testing.T) {
	g := device.NewGuard(&stuck{err: device.ErrLost})
	for range 2 {
		if _, err := g.Fast(t.Context()); !errors.Is(err, device.ErrLost) {
			t.Errorf("Fast: %v; want the device's own error", err)
		}
	}
}

// A call that is back must leave the guard free at once, or two readings in a
// row would look like a hang.
func TestGuardIsFreeAfterEachAnswer(t *testing.T) {
	g := device.NewGuard(&stuck{})
	for i := range 1000 {
		if _, err := g.Fast(t.Context()); err != nil {
			t.Fatalf("call %d: %v; the one before it had returned", i, err)
		}
	}
}

func TestGuardGivesUpAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const deadline, hang = 200 * time.Millisecond, time.Hour
		dev := &stuck{first: hang}
		g := device.NewGuard(dev)
		start := time.Now()
		fast := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			_, err := g.Fast(ctx)
			return err
		}

		if err := fast(); !errors.Is(err, device.ErrHung) {
			t.Errorf("a call that outlives its deadline: %v; want ErrHung", err)
		}
		if took := time.Since(start); took != deadline {
			t.Errorf("it came back after %v; want %v", took, deadline)
		}

		again := time.Now()
		for range 100 {
			if err := fast(); !errors.Is(err, device.ErrHung) {
				t.Errorf("a call while one is stuck: %v; want ErrHung", err)
			}
			if _, err := g.Slow(t.Context()); !errors.Is(err, device.ErrHung) {
				t.Errorf("the other call while one is stuck: %v; want ErrHung", err)
			}
		}
		if took := time.Since(again); took != 0 {
			t.Errorf("calls while one is stuck took %v; want an answer at once", took)
		}
		if calls, present := dev.calls.Load(), dev.present.Load(); calls != 1 || present != 1 {
			t.Errorf("%d calls reached the device and %d are in it; want the first one only", calls, present)
		}
		if uuid := g.Describe().UUID; uuid != "GPU-stuck" {
			t.Errorf("Describe while a call is stuck = %q; want an answer from memory", uuid)
		}

		time.Sleep(hang)
		if err := fast(); err != nil {
			t.Errorf("after the stuck call came back: %v; want an answer", err)
		}
	})
}

// The caller's sample must not be written to by a call it has given up on.
func TestGuardKeepsLateAnswersAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := device.NewGuard(&stuck{first: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		sample, err := g.Fast(ctx)
		time.Sleep(time.Minute)
		if !errors.Is(err, device.ErrHung) || sample.Temperature.Known() {
			t.Errorf("Fast = %v, %v; want nothing and ErrHung", sample.Temperature, err)
		}
	})
}

func TestGuardsAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung, well := device.NewGuard(&stuck{first: time.Hour}), device.NewGuard(&stuck{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := hung.Fast(ctx); !errors.Is(err, device.ErrHung) {
			t.Errorf("the hung device: %v; want ErrHung", err)
		}
		if _, err := well.Fast(t.Context()); err != nil {
			t.Errorf("its neighbour: %v; want an answer", err)
		}
		time.Sleep(time.Hour)
	})
}
