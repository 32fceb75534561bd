package pace

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/when"
)

const (
	// lookEvery is how often the clock of a device is read. It changes within a tenth of
	// a second.
	lookEvery = 50 * time.Millisecond
	// measureEvery is the number of clock readings per question of who used the device. A
	// driver measures five times a second, keeps only the last measurement, and takes two
	// milliseconds to return it.
	measureEvery = 3
)

// meter measures one device for the paced leases on it.
type meter struct {
	devices Devices
	uuid    string
	ctx     context.Context
	stop    context.CancelFunc

	mu     sync.Mutex // guards what follows
	leases []*paced
}

// serve sets the leases that it measures for.
func (m *meter) serve(leases []*paced) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases = leases
}

func (m *meter) each(do func(*paced)) {
	m.mu.Lock()
	leases := m.leases
	m.mu.Unlock()
	for _, l := range leases {
		do(l)
	}
}

func (m *meter) run() {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	since, metered := when.Now(), true
	for looks := 0; ; looks++ {
		select {
		case <-ticker.C:
		case <-m.ctx.Done():
			return
		}
		m.look()
		if metered && looks%measureEvery == 0 {
			if now := when.Now(); now.Before(since) { // the clock was set back
				since = now
			}
			since, metered = m.measure(since)
		}
	}
}

// look reads the clock of the device. Others handle a device that does not answer.
func (m *meter) look() {
	var s gpu.Sample
	at := time.Now()
	err := m.devices.Do(m.ctx, m.uuid, func(ctx context.Context, d device.Device) error { return d.Fast(ctx, &s) })
	if err != nil {
		return // a call that was given up may still write into s
	}
	if mhz, known := s.ClockSM.Get(); known {
		m.each(func(l *paced) { l.saw(func(c *Controller) { c.Clocked(at, float64(mhz)) }) })
	}
}

// measure asks who used the device since a moment. It returns the moment up to which that
// is known, and false if the driver cannot say.
func (m *meter) measure(since time.Time) (until time.Time, metered bool) {
	var busy device.Busy
	err := m.devices.Do(m.ctx, m.uuid, func(ctx context.Context, d device.Device) error {
		own, is := d.(device.Meter)
		if !is {
			return device.ErrUnsupported
		}
		var err error
		busy, err = own.Busy(ctx, since)
		return err
	})
	switch {
	case errors.Is(err, device.ErrUnsupported), errors.Is(err, device.ErrNoPermission):
		return since, false
	case err != nil || !busy.Until.After(busy.From):
		return since, true
	}
	m.each(func(l *paced) {
		share := l.used(busy.Shares)
		l.saw(func(c *Controller) { c.Used(busy.From, busy.Until, share) })
	})
	return busy.Until, true
}
