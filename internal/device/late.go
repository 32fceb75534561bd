package device

import (
	"context"
	"errors"
	"sync"
)

// Late is a backend whose driver may come after berth: until it can be opened
// there are no devices, and every Scan tries again.
type Late struct {
	name   string
	open   func() (Backend, error)
	opened chan struct{} // closed when backend is there

	mu      sync.Mutex // guards what follows; not held while in the driver
	backend Backend    // nil: not yet
	missing error      // why
}

var _ Backend = (*Late)(nil)

// OpenLate makes one. Open is called by every Scan until it succeeds.
func OpenLate(name string, open func() (Backend, error)) *Late {
	return &Late{name: name, open: open, opened: make(chan struct{})}
}

// Missing is why there is no driver; nil if there is, or nobody has looked.
func (l *Late) Missing() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missing
}

// Name is that of the backend to come.
func (l *Late) Name() string { return l.name }

// try opens the backend unless that was done. Only one caller at a time.
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

// Scan finds nothing while there is no driver; one that is there and hangs is an
// error. The caller never scans twice at a time.
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

// Close closes what was opened.
func (l *Late) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backend == nil {
		return nil
	}
	return l.backend.Close()
}
