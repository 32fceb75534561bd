package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lock keeps the drivers of a node from changing claims at the same time: the goroutines
// of this process by a channel, another process by a lock on a file, which the kernel
// releases with the process.
type lock struct {
	path string
	turn chan struct{}
}

func newLock(path string) *lock { return &lock{path: path, turn: make(chan struct{}, 1)} }

// lockRetry is how often to retry the lock of another process.
const lockRetry = 50 * time.Millisecond

// take waits for the lock, and returns a function that releases it.
func (l *lock) take(ctx context.Context) (func(), error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other claims of this node: %w", ctx.Err())
	}
	f, err := l.flock(ctx)
	if err != nil {
		<-l.turn
		return nil, err
	}
	return func() {
		_ = f.Close()
		<-l.turn
	}, nil
}

func (l *lock) flock(ctx context.Context) (*os.File, error) {
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the driver: %w", err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", l.path, err)
		}
		select {
		case <-time.After(lockRetry):
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for the other driver of this node: %w", ctx.Err())
		}
	}
}
