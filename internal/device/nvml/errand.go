package nvml

import (
	"context"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/device"
)

// patience is how long any call but a reading of a device may take: attaching eight GPUs
// that were asleep takes several seconds.
const patience = 10 * time.Second

// errand is a driver call that may never return. It runs in its own goroutine, one at a
// time; callers that come meanwhile share its answer. No caller waits longer than the
// patience, so a hung driver costs one goroutine and delays its callers once.
type errand[T any] struct {
	mu     sync.Mutex
	flight *flight[T]
}

type flight[T any] struct {
	overdue <-chan struct{}
	done    chan struct{}
	value   T
	err     error
}

// run returns the result of call, or ErrHung when ctx or the patience ends.
func (e *errand[T]) run(ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, hung()
	}
	f := e.join(call)
	select {
	case <-f.done:
	case <-f.overdue: // also when it has just been done
	case <-ctx.Done():
	}
	select {
	case <-f.done:
		return f.value, f.err
	default:
		return none, hung()
	}
}

func (e *errand[T]) join(call func(context.Context) (T, error)) *flight[T] {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.flight != nil {
		return e.flight
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	f := &flight[T]{overdue: ctx.Done(), done: make(chan struct{})}
	e.flight = f
	go func() {
		defer cancel()
		f.value, f.err = call(ctx)
		e.mu.Lock()
		e.flight = nil
		e.mu.Unlock()
		close(f.done)
	}()
	return f
}

func hung() error {
	return &device.Error{
		Op: "ask the NVIDIA driver", Err: device.ErrHung,
		Hint: "look in dmesg for messages of the nvidia driver; a hung driver usually needs a reboot",
	}
}
