package monitor

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-gpu/berth/internal/device"
)

// Do calls do with a device, while nobody else calls the device, and gives up at the
// deadline of a reading. do finds out by itself what the device can do beyond
// device.Device.
func (m *Monitor) Do(ctx context.Context, uuid string, do func(context.Context, device.Device) error) error {
	return m.do(ctx, uuid, do, false)
}

// Steer is like Do, and also calls a device while monitoring is stopped: what was changed
// on it before has to be given back.
func (m *Monitor) Steer(ctx context.Context, uuid string, do func(context.Context, device.Device) error) error {
	return m.do(ctx, uuid, do, true)
}

func (m *Monitor) do(ctx context.Context, uuid string, do func(context.Context, device.Device) error, always bool) error {
	u := m.unit(uuid)
	if u == nil {
		return fmt.Errorf("device %s: %w", uuid, device.ErrLost)
	}
	select {
	case u.asking <- struct{}{}:
		defer func() { <-u.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	settings, on, _ := m.control()
	if !on && !always {
		return fmt.Errorf("device %s: monitoring is stopped, so berth asks no driver", uuid)
	}
	limited, cancel := context.WithTimeout(ctx, settings.deadline())
	defer cancel()
	defer u.describeAgain() // it may have another power limit now
	return u.guard.Do(limited, do)
}

// Read samples a device now, unless monitoring is stopped. When it returns, the hooks
// have had the reading.
func (m *Monitor) Read(ctx context.Context, uuid string) {
	if _, on, _ := m.control(); !on {
		return
	}
	if u := m.unit(uuid); u != nil {
		m.sample(ctx, u)
	}
}

// Busy asks a device how much its processes used it since a moment.
func (m *Monitor) Busy(ctx context.Context, uuid string, since time.Time) (device.Busy, error) {
	answer := make(chan device.Busy, 1) // a call that is given up may still answer
	err := m.Do(ctx, uuid, func(ctx context.Context, one device.Device) error {
		meter, able := one.(device.Meter)
		if !able {
			return device.ErrUnsupported
		}
		busy, err := meter.Busy(ctx, since)
		answer <- busy
		return err
	})
	if err != nil {
		return device.Busy{}, err
	}
	return <-answer, nil
}
