package device_test

import (
	"context"
	"errors"
	"testing"

	"github.com/berth-gpu/berth/internal/device"
)

// one is a backend with one device and one fault.
type one struct{ closed bool }

func (*one) Name() string                                  { return "one" }
func (*one) Scan(context.Context) ([]device.Device, error) { return make([]device.Device, 1), nil }
func (o *one) Close() error                                { o.closed = true; return nil }
func (*one) Watch(_ context.Context, found func(device.Fault)) error {
	found(device.Fault{PID: 79})
	return nil
}

// A driver that loads after the daemon has started is found by the next scan,
// and its faults are heard by who listened from the start.
func TestLate(t *testing.T) {
	missing := errors.New("the driver is not loaded")
	driver, err := (*one)(nil), device.ErrHung
	l := device.OpenLate("one", func() (device.Backend, error) { return driver, err })
	if _, err := l.Scan(t.Context()); !errors.Is(err, device.ErrHung) {
		t.Errorf("with a driver that hangs: %v", err)
	}
	err = missing
	if found, err := l.Scan(t.Context()); len(found) != 0 || err != nil || l.Missing() != missing {
		t.Errorf("without a driver: %d devices, %v, because of %v", len(found), err, l.Missing())
	}
	heard := make(chan device.Fault, 1)
	go func() { _ = l.Watch(t.Context(), func(f device.Fault) { heard <- f }) }()

	driver, err = &one{}, nil
	if found, err := l.Scan(t.Context()); len(found) != 1 || err != nil || l.Missing() != nil {
		t.Errorf("with one: %d devices, %v, because of %v", len(found), err, l.Missing())
	}
	if f := <-heard; f.PID != 79 {
		t.Errorf("heard %+v", f)
	}
	if err := l.Close(); err != nil || !driver.closed {
		t.Errorf("closing: %v, closed %v", err, driver.closed)
	}
}

func TestLateThatNeverComes(t *testing.T) {
	l := device.OpenLate("one", func() (device.Backend, error) { return nil, errors.New("no library") })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Watch(ctx, nil); err != nil {
		t.Errorf("watching nothing: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("closing nothing: %v", err)
	}
}
