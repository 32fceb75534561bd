package device

import (
	"context"
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

// OpenLate tries to open a backend, and is content if it cannot.
func OpenLate(name string, open func() (Backend, error)) *Late {
	l := &Late{name: name, open: open, opened: make(chan struct{})}
	l.try()
	return l
}

// Missing is why there is no driver; nil if there is.
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

// Scan finds nothing while there is no driver. The caller never scans twice at
// a time.
func (l *Late) Scan(ctx context.Context) ([]Device, error) {
	if b := l.try(); b != nil {
		return b.Scan(ctx)
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
