package intel

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
)

// Slow reads the energy counter, the fan, and the recent share of each process.
func (c *card) Slow(ctx context.Context, into *gpu.Slow) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at := c.at.Load()
	if err := c.lost(at); err != nil {
		return err
	}
	got := gpu.Slow{SlowTime: into.SlowTime, Energy: at.sensors.Joules(energyFiles...), Fan: at.sensors.Fan()}
	const lately = 10 * time.Second
	if shares := c.usage.Over(lately); shares.From.Before(shares.Until) {
		got.ProcessUtilization = shares.Process
	}
	*into = got
	return nil
}

// Busy returns the shares that the engines count for each process.
func (c *card) Busy(ctx context.Context, since time.Time) (device.Busy, error) {
	if err := ctx.Err(); err != nil {
		return device.Busy{}, err
	}
	at := c.at.Load()
	if err := c.lost(at); err != nil {
		return device.Busy{}, err
	}
	used, _ := c.openers.Of(&at.Card)
	c.usage.Add(c.now(), used)
	shares := c.usage.Since(since)
	return device.Busy{From: shares.From, Until: shares.Until, Shares: shares.Process}, nil
}
