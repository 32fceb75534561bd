package device

import (
	"context"
	"errors"
	"sync"
)

// Late is a backend whose driver may appear after berth has started. Until it can be
// opened there are no devices, and every Scan tries again.
type Late struct {
	name   string
	open   func() (Backend, error)
	opened chan struct{} // closed when backend is set

	mu      sync.Mutex // guards the fields below; not held while in the driver
	backend Backend    // nil until open succeeds
	missing error      // why backend is nil
}

var _ Backend = (*Late)(nil)

// OpenLate returns a Late. Every Scan calls open until it succeeds.
func OpenLate(name string, open func() (Backend, error)) *Late {
	return &Late{name: name, open: open, opened: make(chan struct{})}
}

// Missing returns why there is no driver. It returns nil if there is one, or before the
// first Scan.
func (l *Late) Missing() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missing
}

// Name returns the name of the backend, even before it is open.
func (l *Late) Name() string { return l.name }

// try opens the backend if it is not open. Callers must not call it concurrently.
func (l *Late) try() Backend {
	l.mu.Lock()
	b := l.backend
	l.mu.Unlock()
	if b != nil {
		return b
	}
	b, err := l.open()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.missing = err; err != nil {
		return nil
	}
	l.backend = b
	close(l.opened)
	return b
}

// Scan returns no devices while there is no driver; a driver that hangs is an error.
// Callers must not call it concurrently.
func (l *Late) Scan(ctx context.Context) ([]Device, error) {
	if b := l.try(); b != nil {
		return b.Scan(ctx)
	}
	if missing := l.Missing(); errors.Is(missing, ErrHung) {
		return nil, missing
	}
	return nil, nil
}

// Watch waits for the driver first.
func (l *Late) Watch(ctx context.Context, found func(Fault)) error {
	select {
	case <-l.opened:
		return l.backend.Watch(ctx, found)
	case <-ctx.Done():
		return nil
	}
}

// Close closes the backend if it was opened.
func (l *Late) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backend == nil {
		return nil
	}
	return l.backend.Close()
}
