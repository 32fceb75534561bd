package device

import (
	"context"

	"github.com/berth-gpu/berth/gpu"
)

// Guard puts a deadline on a device. Driver calls cannot be cancelled, so a
// call that outlives its context is left behind in its goroutine, and until it
// returns every further call answers ErrHung at once: a hung driver costs one
// goroutine per device, however long it hangs.
type Guard struct {
	dev  Device
	busy chan struct{} // holds a token while a call is in the driver
}

// NewGuard returns a guard for dev. All calls to dev must go through it.
func NewGuard(dev Device) *Guard {
	return &Guard{dev: dev, busy: make(chan struct{}, 1)}
}

// Describe returns the description from memory.
func (g *Guard) Describe() gpu.Device { return g.dev.Describe() }

// Fast calls Device.Fast and returns no later than ctx.
func (g *Guard) Fast(ctx context.Context) (gpu.Sample, error) {
	return guarded(ctx, g, g.dev.Fast)
}

// Slow calls Device.Slow and returns no later than ctx.
func (g *Guard) Slow(ctx context.Context) (gpu.Slow, error) {
	return guarded(ctx, g, g.dev.Slow)
}

// Do calls do with the device and returns no later than ctx.
func (g *Guard) Do(ctx context.Context, do func(context.Context, Device) error) error {
	_, err := guarded(ctx, g, func(ctx context.Context, _ *struct{}) error { return do(ctx, g.dev) })
	return err
}

func guarded[T any](ctx context.Context, g *Guard, call func(context.Context, *T) error) (T, error) {
	var none T
	select {
	case g.busy <- struct{}{}:
	default:
		return none, ErrHung
	}
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		var a answer
		a.err = call(ctx, &a.value)
		<-g.busy
		done <- a
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		return none, ErrHung
	}
}
