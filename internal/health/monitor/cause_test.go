package monitor_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/nvml/xid"
	"github.com/berth-gpu/berth/internal/health/monitor"
)

// The cause of a state says what is wrong with a device, so that nobody who reads
// it has to read the reason.
func TestCauseOfAState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := make(chan device.Fault)
		var answer atomic.Pointer[func(*gpu.Sample) error]
		measures := func(celsius gpu.Celsius, used gpu.MiB) {
			do := func(s *gpu.Sample) error {
				s.Temperature, s.MemoryUsed, s.MemoryTotal = gpu.Some(celsius), gpu.Some(used), gpu.Some(gpu.MiB(100))
				return nil
			}
			answer.Store(&do)
		}
		fails := func(err error) {
			do := func(*gpu.Sample) error { return err }
			answer.Store(&do)
		}
		measures(50, 10)
		c := &card{fast: func(s *gpu.Sample) error { return (*answer.Load())(s) }}
		b := with(c)
		b.watch = func(ctx context.Context, found func(device.Fault)) error {
			for {
				select {
				case f := <-faults:
					found(f)
				case <-ctx.Done():
					return nil
				}
			}
		}
		m := monitor.New([]device.Backend{b}, monitor.Settings{Rules: briefly}, monitor.Keepers{})
		stop := start(t, m)
		want := func(when string, state gpu.State, cause string) {
			t.Helper()
			settle(1.5)
			if r := find(t, m, ""); r.State != state || r.StateCause != cause {
				t.Errorf("%s: %s by %q, want %s by %q (%s)", when, r.State, r.StateCause, state, cause, r.Reason)
			}
		}
		want("at rest", gpu.Optimal, "")
		measures(50, 97)
		want("full", gpu.Critical, "memory")
		measures(92, 97)
		want("hot, too", gpu.Critical, "temperature")
		measures(50, 10)
		want("in the cooldown", gpu.Critical, "temperature")
		settle(60)
		want("at rest again", gpu.Optimal, "")
		fails(errors.New("no"))
		want("without an answer", gpu.Unavailable, "silent")
		measures(50, 10)
		want("with an answer", gpu.Optimal, "")
		faults <- device.Fault{GPU: c.uuid(), Fault: xid.Describe(79)}
		want("after a fault", gpu.Unavailable, "fault")
		fails(errors.New("no"))
		want("without an answer in quarantine", gpu.Unavailable, "fault")
		fails(device.ErrLost)
		want("off the bus", gpu.Unavailable, "lost")
		fails(errors.New("no"))
		want("still off the bus", gpu.Unavailable, "lost")
		measures(50, 10)
		settle(1200)
		want("in the end", gpu.Optimal, "")
		stop()
	})
}
