package daemon

import (
	"context"
	"path/filepath"
	"time"

	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/lease"
)

// openEnergy opens the record of the energy that devices and leases used.
func (d *Daemon) openEnergy(o Options) {
	options := energy.Options{
		Interval: func() time.Duration { return d.settings.load().Config.GPU.MonitorInterval }, Busy: d.busy, Label: d.labels.Service,
	}
	if o.ReadOnly {
		d.energy = energy.New(options)
		return
	}
	kept, damage := energy.Open(filepath.Join(o.Settings.Config.Daemon.StateDir, energyName), options)
	d.energy = kept
	d.tellDamage(damage)
	var standing []*lease.Lease
	for _, held := range d.ledger.View().Leases {
		standing = append(standing, held.Lease)
	}
	d.energy.Recall(standing)
}

// busy asks a device how much its processes used it since a moment.
func (d *Daemon) busy(ctx context.Context, uuid string, since time.Time) (device.Busy, error) {
	answer := make(chan device.Busy, 1) // a call that is given up may still answer
	err := d.monitor.Do(ctx, uuid, func(ctx context.Context, one device.Device) error {
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
