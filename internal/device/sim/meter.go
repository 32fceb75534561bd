package sim

import (
	"context"
	"time"

	"github.com/berth-gpu/berth/internal/device"
)

var _ device.Meter = (*card)(nil)

// metered is how far back the answer of Busy reaches, in real time.
const metered = time.Second

// Busy returns what each process has of the device now, as if it had had that
// since then. Whoever asks often gets what really was.
func (c *card) Busy(_ context.Context, since time.Time) (device.Busy, error) {
	now, err := c.answer()
	if err != nil {
		return device.Busy{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.advance(now)
	busy := device.Busy{From: since, Until: c.backend.wall(now), Shares: shares(r.processes)}
	if from := busy.Until.Add(-metered); from.After(since) {
		busy.From = from
	}
	if busy.Until.Before(since) {
		busy.Until = since
	}
	return busy, nil
}
