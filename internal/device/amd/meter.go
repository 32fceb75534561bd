package amd

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/internal/device"
)

// Busy returns the shares that the engines count for each process. The driver does not
// count work that goes through the driver for computing (ROCm), so the answer lacks those
// processes.
func (c *card) Busy(ctx context.Context, since time.Time) (device.Busy, error) {
	if err := ctx.Err(); err != nil {
		return device.Busy{}, err
	}
	at := c.at.Load()
	if at.Gone() {
		return device.Busy{}, c.silent(at, nil)
	}
	used, _ := c.openers.Of(&at.Card)
	c.usage.Add(c.now(), used)
	shares := c.usage.Since(since)
	return device.Busy{From: shares.From, Until: shares.Until, Shares: shares.Process}, nil
}
